"""Slots that are kept busy: 50 slots of 300 ms tasks could do 166.7 a second; how near it comes, and what the parent takes.

    python bench/slots.py [--slots 50] [--ms 300] [--kinds processes,threads,async] [--tasks 1000] [--workers 1]
        [--shards 1]

The slots are child processes, threads of two children, or tasks of two children's event loops. The rate is (tasks -
slots) / (last - first start), while no slot lacks work; CPU of the workers' parents is in percent of one core over that
time.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.report import Report, alternating, chosen_settings, databases, parser
from bench.stack import Ground, Stack, grounds
from bench.usage import Usage

STARTS = "SELECT MIN(started_at), MAX(started_at), COUNT(*) FROM task_run WHERE outcome = 'success'"
RUNNING = "SELECT COUNT(*) FROM task_center WHERE status = 2"
CODES = {"processes": "nap", "threads": "nap_thread", "async": "nap_async"}
HEAD = ["slots", "tasks/s", "of the ideal", "a parent's CPU %", "all CPU %"]


@dataclass(frozen=True)
class Variant:
    """One row of the table."""

    ground: Ground
    kind: str

    def __str__(self) -> str:
        return f"{self.ground.name}, {self.kind}"


def settings_of(kind: str, slots: int) -> dict[str, object]:
    """What makes a worker with so many slots of a kind."""
    if kind == "processes":
        return {"worker_processes": slots}
    half = -(-slots // 2)
    name = "worker_threads" if kind == "threads" else "worker_async_concurrency"
    return {"worker_processes": 2, name: half}


def measure(one: Stack, options: argparse.Namespace, kind: str) -> dict[str, float]:
    """Let the tasks be run by slots that are all there before the first one."""
    code, each = CODES[kind], options.slots // options.workers
    one.kit.operations.set_shards(code, options.shards)
    scheduler = one.start("scheduler")
    workers = [one.worker(code, **settings_of(kind, each)) for _ in range(options.workers)]
    one.wait_up(1, options.workers)
    one.enqueue(code, options.tasks, {"ms": options.ms})
    one.wait(lambda: one.query(RUNNING)[0][0] >= 1)
    usages = [Usage(one, [scheduler.pid], worker.pid) for worker in workers]
    one.wait_done()
    seconds = usages[0].seconds
    parents = [usage.since()["parent"] for usage in usages]
    total = sum(usages[0].since().values()) + sum(
        usage.since()[part] for usage in usages[1:] for part in ("parent", "children")
    )
    found = {"parent": max(parents) / seconds * 100, "all": total / seconds * 100}
    return found | {"rate": start_rate(one, options.tasks, options.slots)}


def start_rate(one: Stack, tasks: int, slots: int) -> float:
    """Starts a second after the first of each slot."""
    instant = one.kit.center.database.dialect.instant
    first, last, count = one.query(STARTS)[0]
    began, ended = instant(first), instant(last)
    if count != tasks or began is None or ended is None:
        raise SystemExit(f"{count} of {tasks} tasks succeeded; {one.logs()}")
    return (tasks - slots) / max(1e-6, (ended - began).total_seconds())


def run(options: argparse.Namespace, report: Report) -> None:
    """All rounds of all kinds."""
    ideal = options.slots * 1000 / options.ms
    settings = chosen_settings(options, short_way=False)
    with grounds(databases(options), options.server) as there:
        chosen = [Variant(ground, kind) for ground in there for kind in options.kinds.split(",")]
        for _, variant in alternating(chosen, options.rounds):
            with variant.ground.installation(**settings) as one:
                found = measure(one, options, variant.kind)
                report.saw(one.kit)
            report.keep(str(variant), share=found["rate"] / ideal * 100, **found)
    for name in map(str, chosen):
        share = f"{report.middle(name, 'share', 1)} %"
        cpu = [report.spread(name, part, 1) for part in ("parent", "all")]
        report.rows.append([name, report.spread(name, "rate", 1), share, *cpu])


def main() -> None:
    """Command line."""
    found = parser(__doc__, database="mariadb")
    add = found.add_argument
    add("--slots", type=int, default=50, help="of all workers together (50)")
    add("--ms", type=int, default=300, help="how long a task takes (300)")
    add("--tasks", type=int, default=1000, help="tasks a round (1000)")
    add("--workers", type=int, default=1, help="how many workers share the slots (1)")
    add("--kinds", default="processes", help=f"of {', '.join(CODES)} (processes)")
    add("--shards", type=int, default=1, help="into how many shards the queue is split (1)")
    options = found.parse_args()
    report = Report(f"{options.slots} slots of {options.ms} ms tasks", options, HEAD)
    ideal = options.slots * 1000 / options.ms
    report.notes.append(
        f"{options.tasks} tasks a round, {options.workers} worker(s), {options.shards} shard(s); ideal {ideal:.1f} a second"
    )
    run(options, report)
    report.finish()


if __name__ == "__main__":
    main()
