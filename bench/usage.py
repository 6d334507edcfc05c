"""What the processes of an installation use: CPU by part, and memory."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import psutil

from bench.stack import Stack

PARTS = ("database", "Redis", "scheduler", "parent", "children")


class Usage:
    """CPU of the servers, schedulers, a worker's parent and its children, the nursery among them."""

    def __init__(self, one: Stack, schedulers: Iterable[int] = (), worker: int | None = None) -> None:
        self.pids = {name: [pid] for name, pid in one.servers.items()} | {"scheduler": list(schedulers)}
        embedded = one.home / "home" / "valkey.pid"
        if embedded.exists():
            self.pids["Redis"] = [int(embedded.read_text())]
        self.worker = worker
        self.mark()

    def mark(self) -> None:
        """Begin to count."""
        self._began, self._at = self.now(), time.monotonic()

    @property
    def seconds(self) -> float:
        """How long it has counted."""
        return time.monotonic() - self._at

    def since(self) -> dict[str, float]:
        """CPU seconds by part since the mark; parts that there are not are left out."""
        now = self.now()
        return {name: now[name] - self._began.get(name, 0.0) for name in PARTS if name in now}

    def now(self) -> dict[str, float]:
        """CPU seconds by part so far."""
        found = {name: sum(map(cpu, pids)) for name, pids in self.pids.items() if pids}
        if self.worker is not None:
            found["parent"] = cpu(self.worker)
            found["children"] = sum(cpu(pid) + reaped(pid) for pid in family(self.worker))
        return found


def cpu(pid: int) -> float:
    """CPU seconds of one process."""
    with suppress(psutil.Error):
        times = psutil.Process(pid).cpu_times()
        return float(times.user + times.system)
    return 0.0


def reaped(pid: int) -> float:
    """CPU seconds of the children that this process has seen end."""
    with suppress(psutil.Error):
        times = psutil.Process(pid).cpu_times()
        return float(times.children_user + times.children_system)
    return 0.0


def family(worker: int) -> list[int]:
    """The nursery of a worker, and after it its children."""
    with suppress(psutil.Error):
        return [one.pid for one in psutil.Process(worker).children(recursive=True)]
    return []


def pss_mib(pid: int) -> float:
    """A process's memory, where a page that n processes share counts as 1/n of a page for each (Linux)."""
    with suppress(FileNotFoundError, ProcessLookupError):
        found = re.search(r"^Pss:\s+(\d+) kB", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)
        return int(found[1]) / 1024 if found else 0.0
    return 0.0
