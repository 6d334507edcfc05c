"""No-op tasks end to end: written, dispatched, claimed, run, finished, run row written; with what each part costs.

    python bench/throughput.py [--database both] [--kinds processes,async,threads,short] [--tasks 20000]

One scheduler and one worker with two children: plain handlers, async ones, blocking ones in 8 threads each, and plain
ones whose producer dispatches them itself (the short way, on MariaDB). All tasks are written before scheduler and worker
start; the rate is (tasks - those of the first instant) / (last - first finished), CPU is that of the same time.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.report import Report, alternating, chosen_settings, databases, parser
from bench.stack import Ground, Stack, grounds
from bench.usage import PARTS, Usage

ANY_RUN = "SELECT 1 FROM task_run LIMIT 1"
RUNS = "SELECT COUNT(*) FROM task_run"
FINISHED = """
SELECT MIN(finished_at), MAX(finished_at),
       (SELECT COUNT(*) FROM task_run WHERE finished_at = (SELECT MIN(finished_at) FROM task_run)), COUNT(*)
FROM task_run WHERE outcome = 'success'
"""
DISPATCHED = "SELECT COUNT(*) FROM task_center WHERE status = 1"
HEAD = ["kind", "tasks/s", "enqueued/s", *(f"{part} µs" for part in PARTS), "all µs"]


@dataclass(frozen=True)
class Kind:
    """How the no-op runs: its code, what the worker and the producer are set to."""

    code: str
    title: str
    worker: dict[str, Any] = field(default_factory=dict)
    producer: dict[str, Any] = field(default_factory=lambda: {"short_way": False})


KINDS = {
    "processes": Kind("noop", "2 processes"),
    "async": Kind("noop_async", "2 processes x 100 async"),
    "threads": Kind("noop_thread", "2 processes x 8 threads", {"worker_threads": 8}),
    "short": Kind(
        "noop",
        "2 processes, short way",
        producer={"short_way": True, "scheduler_window": 100_000, "scheduler_queue_window": 1_000_000},
    ),
}


@dataclass(frozen=True)
class Variant:
    """One row of the table."""

    ground: Ground
    kind: str

    def __str__(self) -> str:
        return f"{self.ground.name}, {KINDS[self.kind].title}"


def measure(one: Stack, kind: Kind, tasks: int, processes: int = 2) -> dict[str, float]:
    """Write the tasks, let them be run, and see how long that took whom."""
    found = {"enqueued": one.enqueue(kind.code, tasks)}
    found["by_producer"] = one.query(DISPATCHED)[0][0] / tasks
    scheduler = one.start("scheduler")
    worker = one.worker(kind.code, worker_processes=processes, **kind.worker)
    one.wait(lambda: one.query(ANY_RUN), every=0.005)
    usage = Usage(one, [scheduler.pid], worker.pid)
    before = one.query(RUNS)[0][0]
    one.wait_done()
    spent = usage.since()
    counted = max(1, tasks - before)
    found |= {part: seconds * 1e6 / counted for part, seconds in spent.items()}
    found["all"] = sum(spent.values()) * 1e6 / counted
    found["rate"] = finished_rate(one, tasks)
    return found


def finished_rate(one: Stack, tasks: int) -> float:
    """Tasks a second from the first to the last finished one; every one of them must have succeeded."""
    first, last, at_first, count = one.query(FINISHED)[0]
    if count != tasks:
        raise SystemExit(f"{count} of {tasks} tasks succeeded; {one.logs()}")
    instant = one.kit.center.database.dialect.instant
    began, ended = instant(first), instant(last)
    seconds = (ended - began).total_seconds() if began and ended else 0.0
    return (count - at_first) / seconds if seconds else float("nan")


def variants(there: list[Ground], kinds: list[str]) -> Iterator[Variant]:
    """Those that there are: without a server nobody can push before the scheduler is up."""
    for ground in there:
        for kind in kinds:
            if kind != "short" or ground.url:
                yield Variant(ground, kind)


def run(options: argparse.Namespace, report: Report) -> None:
    """All rounds of all variants, each on an empty installation."""
    with grounds(databases(options), options.server) as there:
        chosen = list(variants(there, options.kinds.split(",")))
        for _, variant in alternating(chosen, options.rounds):
            kind = KINDS[variant.kind]
            settings = chosen_settings(options, **kind.producer)
            with variant.ground.installation(**settings) as one:
                found = measure(one, kind, options.tasks, options.processes)
                report.saw(one.kit)
            report.keep(str(variant), **found)
            print(f"  {found['rate']:,.0f} tasks/s", file=sys.stderr, flush=True)
    for name in map(str, chosen):
        costs = [report.middle(name, part) for part in (*PARTS, "all")]
        report.rows.append([name, report.spread(name, "rate"), report.spread(name, "enqueued"), *costs])
    share = min((report.median(str(v), "by_producer") for v in chosen if v.kind == "short"), default=None)
    if share is not None:
        report.notes.append(f"by the short way went {share:.0%} of the tasks of that row")


def main() -> None:
    """Command line."""
    found = parser(__doc__)
    found.add_argument("--kinds", default=",".join(KINDS), help=f"of {', '.join(KINDS)} (all)")
    found.add_argument("--tasks", type=int, default=20_000, help="no-ops a round (20000)")
    found.add_argument("--processes", type=int, default=2, help="children of the worker (2)")
    options = found.parse_args()
    report = Report("No-op tasks end to end; CPU in microseconds a task", options, HEAD)
    report.notes.append(f"{options.tasks} tasks a round, written in bulk of 500, payload {{}}")
    run(options, report)
    report.finish()


if __name__ == "__main__":
    main()
