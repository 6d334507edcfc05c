"""What all measurements share: their command line, alternating rounds, and a table that says what was measured on what."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import psutil

from bench.peers.tables import quantile, spread
from bench.stack import DATABASES, query
from taskkit import Taskkit
from taskkit.errors import TaskkitError

__all__ = ["Report", "alternating", "chosen_settings", "databases", "parser", "quantile", "spread"]
T = TypeVar("T")
PACKAGES = ("SQLAlchemy", "PyMySQL", "redis")


def parser(doc: str | None, *, rounds: int = 5, database: str = "both") -> argparse.ArgumentParser:
    """A command line with what every measurement takes; 0 rounds for one that has none."""
    kind = argparse.RawDescriptionHelpFormatter
    found = argparse.ArgumentParser(description=doc, formatter_class=kind)
    add = found.add_argument
    if rounds:
        add("--rounds", type=int, default=rounds, help=f"alternating rounds; medians are shown ({rounds})")
    add(
        "--database",
        choices=[*DATABASES, "both"],
        default=database,
        help=f"what holds the truth ({database})",
    )
    add("--server", default="", metavar="URL", help="a MariaDB or MySQL of yours in place of a private one")
    add("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting, as worker_processes=4")
    add("--json", type=Path, metavar="FILE", help="write all figures there")
    return found


def databases(options: argparse.Namespace) -> list[str]:
    """The databases that were asked for."""
    return list(DATABASES) if options.database == "both" else [options.database]


def chosen_settings(options: argparse.Namespace, **own: object) -> dict[str, object]:
    """The settings of a measurement, and over them what ``--set`` gives."""
    return own | dict(pair.split("=", 1) for pair in options.set)


def alternating(things: Sequence[T], rounds: int) -> Iterator[tuple[int, T]]:
    """Each thing once a round, backwards every other round, so that what drifts hits all of them alike."""
    for number in range(rounds):
        for thing in things if number % 2 == 0 else things[::-1]:
            print(f"round {number + 1} of {rounds}: {thing}", file=sys.stderr, flush=True)
            yield number, thing


@dataclass
class Report:
    """One measurement: what it is, on what, with which settings, and its figures by row and round."""

    title: str
    options: argparse.Namespace
    head: Sequence[str]
    notes: list[str] = field(default_factory=list)
    rows: list[Sequence[object]] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    began: float = field(default_factory=time.time)
    load: float = field(default_factory=lambda: os.getloadavg()[0])

    def saw(self, kit: Taskkit) -> None:
        """Note the versions of the servers that this kit uses."""
        self.versions |= server_versions(kit)

    def keep(self, row: str, **values: object) -> None:
        """One round's figures of a row."""
        self.figures.setdefault(row, []).append(values)

    def of(self, row: str, name: str) -> list[float]:
        """One figure of a row in all rounds."""
        return [one[name] for one in self.figures.get(row, []) if one.get(name) is not None]

    def median(self, row: str, name: str) -> float:
        """The median of a figure over the rounds; not a number where there is none."""
        found = self.of(row, name)
        return statistics.median(found) if found else float("nan")

    def middle(self, row: str, name: str, digits: int = 0) -> str:
        """The median as text."""
        return f"{self.median(row, name):,.{digits}f}" if self.of(row, name) else "-"

    def spread(self, row: str, name: str, digits: int = 0) -> str:
        """``median (least..most)``."""
        return spread(self.of(row, name), digits)

    def text(self) -> str:
        """The whole report as Markdown."""
        settings = ", ".join(self.options.set) or "defaults, but for what the table says"
        rounds = getattr(self.options, "rounds", 0)
        method = f"{rounds} alternating rounds, median (least..most); " if rounds else ""
        lines = [
            f"### {self.title}",
            "",
            f"{time.strftime('%Y-%m-%d %H:%M', time.localtime(self.began))}, {machine()}; load before {self.load:.1f}",
            f"{packages()}; {', '.join(self.versions.values())}",
            f"{method}settings: {settings}",
            *self.notes,
            "",
            *aligned(self.head, self.rows),
        ]
        return "\n".join(lines)

    def finish(self) -> None:
        """Print the table, and write the figures where ``--json`` says."""
        print(self.text())
        if self.options.json:
            plain = {name: str(value) for name, value in vars(self.options).items()}
            found = {"title": self.title, "began": self.began, "machine": machine(), "packages": packages()}
            found |= {"versions": self.versions, "load": self.load, "options": plain, "figures": self.figures}
            self.options.json.write_text(json.dumps(found, indent=1, ensure_ascii=False))


def aligned(head: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """A Markdown table that reads well on a terminal, too; all columns but the first to the right."""
    cells = [list(map(str, row)) for row in [head, *rows]]
    widths = [max(len(row[n]) for row in cells) for n in range(len(head))]
    lines = []
    for row in cells:
        padded = [
            row[0].ljust(widths[0]),
            *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True)),
        ]
        lines.append(f"| {' | '.join(padded)} |")
    rule = [":" + "-" * (widths[0] - 1), *("-" * (width - 1) + ":" for width in widths[1:])]
    return [lines[0], f"| {' | '.join(rule)} |", *lines[1:]]


def machine() -> str:
    """Processor, memory and kernel."""
    model = platform.processor() or platform.machine()
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
        model = names[0] if names else model
    memory = psutil.virtual_memory().total / 2**30
    system = f"{platform.system()} {platform.release()}"
    return f"{model}, {os.cpu_count()} CPUs, {memory:.0f} GiB, {system}"


def packages() -> str:
    """Python and what taskkit speaks to its servers with."""
    from taskkit import __version__

    told = [f"{name} {importlib.metadata.version(name)}" for name in PACKAGES]
    return f"taskkit {__version__}, Python {platform.python_version()}, {', '.join(told)}"


def server_versions(kit: Taskkit) -> dict[str, str]:
    """The servers that a kit uses, with what decides how durable a commit is."""
    found = {}
    if kit.center.database.sqlite:
        mode, synchronous = (query(kit, f"PRAGMA {name}")[0][0] for name in ("journal_mode", "synchronous"))
        version = query(kit, "SELECT sqlite_version()")[0][0]
        found["sqlite"] = f"SQLite {version} (journal {mode}, synchronous {synchronous})"
    else:
        rows = query(kit, "SELECT VERSION(), @@innodb_flush_log_at_trx_commit, @@innodb_buffer_pool_size")
        version, flush, pool = rows[0]
        kind = "MariaDB" if "MariaDB" in version else "MySQL"
        number = version.partition("-")[0]
        found["mysql"] = f"{kind} {number} (flush_log_at_trx_commit {flush}, pool {int(pool) >> 20} MiB)"
    with suppress(TaskkitError, AttributeError):
        facts = kit.queue.server_facts()  # type: ignore[union-attr]
        found["redis"] = f"{facts.product.capitalize()} {facts.version} (persistence {facts.persistence})"
    return found
