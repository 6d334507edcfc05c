"""How long from the start of an enqueue call to the handler's first line, on an idle system.

    python bench/latency.py [--database both] [--ways scheduler,short] [--tasks 100]

One scheduler, one worker with two processes, one task every 20 to 40 ms; the handler records its first moment in a file
with one write. Both ways take turns on the same installation: through the scheduler, and dispatched by the producer.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import random
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.peers.worklib import Records
from bench.report import Report, alternating, chosen_settings, databases, parser, quantile
from bench.stack import Ground, Stack, grounds
from taskkit import Taskkit

WAYS = {"scheduler": False, "short": True}
QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "most": 1.0}
HEAD = ["way", *(f"{name} ms" for name in QUANTILES)]
WARMING = 10
numbers = itertools.count()


@dataclass(frozen=True)
class Way:
    """One row of the table: an installation that is up, and a producer's kit."""

    title: str
    one: Stack
    kit: Taskkit
    records: Records

    def __str__(self) -> str:
        return self.title

    def send(self) -> None:
        """Enqueue one task, which records when this began."""
        number = next(numbers)
        self.kit.producer.enqueue("mark", {"number": number, "sent": time.time()})

    def measure(self, tasks: int) -> list[float]:
        """Milliseconds of so many tasks, one at a time."""
        for _ in range(WARMING):
            self.send()
            time.sleep(0.02)
        self.one.wait_done()
        self.records.news()
        for _ in range(tasks):
            time.sleep(random.uniform(0.02, 0.04))
            self.send()
        self.one.wait_done()
        return [(began - sent) * 1000 for _, _, _, sent, began in self.records.news()]


@contextmanager
def opened(ground: Ground, options: argparse.Namespace) -> Iterator[list[Way]]:
    """The ways of one installation, with its scheduler and its worker."""
    settings = chosen_settings(options, worker_processes=2)
    with ground.installation(**settings) as one, contextlib.ExitStack() as kits:
        records = Records(one.home / "records")
        records.clear()
        one.env["BENCH_RECORDS"] = str(records.path)
        one.start("scheduler")
        one.worker("mark")
        one.wait_up(1, 1)
        found = []
        for name in options.ways.split(","):
            kit = kits.enter_context(contextlib.closing(one.other_kit(short_way=WAYS[name])))
            found.append(Way(f"{ground.name}, {name}", one, kit, records))
        yield found


def run(options: argparse.Namespace, report: Report) -> None:
    """All rounds of all ways."""
    with contextlib.ExitStack() as things:
        there = things.enter_context(grounds(databases(options), options.server))
        ways = [way for ground in there for way in things.enter_context(opened(ground, options))]
        for way in ways:
            report.saw(way.kit)
        for _, way in alternating(ways, options.rounds):
            found = way.measure(options.tasks)
            if len(found) != options.tasks:
                raise SystemExit(f"{len(found)} of {options.tasks} tasks began; {way.one.logs()}")
            report.keep(str(way), **{name: quantile(found, q) for name, q in QUANTILES.items()})
    for name in map(str, ways):
        report.rows.append([name, *(report.spread(name, q, 1) for q in QUANTILES)])


def main() -> None:
    """Command line."""
    found = parser(__doc__)
    found.add_argument("--tasks", type=int, default=100, help="tasks a round, one at a time (100)")
    found.add_argument("--ways", default=",".join(WAYS), help=f"of {', '.join(WAYS)} (both)")
    options = found.parse_args()
    report = Report("Idle latency: from the enqueue call to the handler's first line", options, HEAD)
    report.notes.append(f"{options.tasks} tasks a round, one every 20 to 40 ms")
    run(options, report)
    report.finish()


if __name__ == "__main__":
    main()
