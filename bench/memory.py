"""Memory of a worker: what a process slot and an async slot add, and whether the parent grows.

    python bench/memory.py [--database mariadb] [--more 4] [--async-slots 100] [--tasks 20000]

PSS counts a page that n processes share as 1/n of a page for each (Linux, /proc/<pid>/smaps_rollup). A process slot: the
whole worker with 1 + MORE children against one with one, every child having run tasks. An async slot: one child with so
many tasks asleep in its event loop against the same worker before. Growth: the parent after all tasks against the parent
after the first tenth of them, and how many children took turns (worker_max_tasks_per_child).
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.report import Report, alternating, chosen_settings, databases, parser
from bench.stack import Ground, Stack, grounds
from bench.usage import family, pss_mib

RUNNING = "SELECT COUNT(*) FROM task_center WHERE status = 2"
CHILDREN = "SELECT COUNT(DISTINCT pid) FROM task_run"
LIVE = "SELECT COUNT(*) FROM task_center WHERE status IN (0, 1, 2)"
WARMING = 100
BACKLOG = 10_000
HEAD = ["what", "MiB", "beside"]


@dataclass(frozen=True)
class Part:
    """What one round of a part looks at."""

    ground: Ground
    name: str

    def __str__(self) -> str:
        return f"{self.ground.name}, {self.name}"


def tree(worker: int) -> dict[str, float]:
    """PSS of a worker: parent, nursery, children, all."""
    nursery, *children = family(worker)
    found = {"parent": pss_mib(worker), "nursery": pss_mib(nursery), "children": sum(map(pss_mib, children))}
    return found | {"all": sum(found.values())}


def begun(one: Stack, code: str, processes: int, **settings: object) -> int:
    """A worker whose children have all run something."""
    one.start("scheduler")
    worker = one.worker(code, worker_processes=processes, **settings)
    one.wait_up(1, 1)
    one.wait(lambda: len(family(worker.pid)) == processes + 1)
    return worker.pid


def process_slot(one: Stack, options: argparse.Namespace) -> dict[str, float]:
    """What each further child adds."""
    found: dict[int, dict[str, float]] = {}
    for processes in (1, 1 + options.more):
        worker = begun(one, "nap", processes)
        one.enqueue("nap", WARMING * processes, {"ms": 2})
        one.wait_done()
        found[processes] = tree(worker)
        one.stop()
    few, many = found[1], found[1 + options.more]
    return {"slot": (many["all"] - few["all"]) / options.more, "first": few["all"], "parent": few["parent"]}


def async_slot(one: Stack, options: argparse.Namespace) -> dict[str, float]:
    """What each task that sleeps in an event loop adds."""
    slots = options.async_slots
    worker = begun(one, "nap_async", 1, worker_async_concurrency=slots)
    one.enqueue("nap_async", WARMING, {"ms": 2})
    one.wait_done()
    before = tree(worker)
    one.enqueue("nap_async", slots, {"ms": 10_000})
    one.wait(lambda: one.query(RUNNING)[0][0] == slots, 60)
    during = tree(worker)
    return {"slot": (during["all"] - before["all"]) / slots, "first": before["all"]}


def growth(one: Stack, options: argparse.Namespace) -> dict[str, float]:
    """How much the parent has grown between the first tenth of the tasks and all of them."""
    worker = begun(one, "noop", 2)
    tenth = max(500, options.tasks // 10)
    feed(one, tenth)
    early = tree(worker)
    feed(one, options.tasks - tenth)
    late = tree(worker)
    children = one.query(CHILDREN)[0][0]
    return {"growth": late["parent"] - early["parent"], "parent": late["parent"], "children": children}


def feed(one: Stack, tasks: int) -> None:
    """Enqueue and have run so many, never too many waiting."""
    done = 0
    while done < tasks:
        size = min(BACKLOG // 2, tasks - done)
        one.enqueue("noop", size)
        done += size
        one.wait(lambda: one.query(LIVE)[0][0] < BACKLOG // 2, every=0.2)
    one.wait_done()


PARTS: dict[str, Any] = {"process slot": process_slot, "async slot": async_slot}


def run(options: argparse.Namespace, report: Report) -> None:
    """The slots in alternating rounds, the growth once."""
    settings = chosen_settings(options)
    with grounds(databases(options), options.server) as there:
        parts = [Part(ground, name) for ground in there for name in PARTS]
        for _, part in alternating(parts, options.rounds):
            with part.ground.installation(**settings) as one:
                report.keep(str(part), **PARTS[part.name](one, options))
                report.saw(one.kit)
        for part in parts:
            first = f"the worker with one child: {report.middle(str(part), 'first', 1)}"
            report.rows.append([str(part), report.spread(str(part), "slot", 2), first])
        for ground in there if options.tasks else []:
            with ground.installation(**settings) as one:
                report.keep(f"{ground.name}, growth", **growth(one, options))
            rows_of_growth(report, ground.name, options.tasks)


def rows_of_growth(report: Report, name: str, tasks: int) -> None:
    """The line of the parent."""
    row = f"{name}, growth"
    children = f"{report.middle(row, 'children')} children ran them"
    title = f"{name}, parent grown over {tasks:,} tasks"
    report.rows.append(
        [title, report.middle(row, "growth", 2), f"to {report.middle(row, 'parent', 1)}; {children}"]
    )


def main() -> None:
    """Command line."""
    found = parser(__doc__, database="mariadb")
    add = found.add_argument
    add("--more", type=int, default=4, help="children beyond the first (4)")
    add("--async-slots", type=int, default=100, help="tasks that sleep at a time (100)")
    add("--tasks", type=int, default=20_000, help="tasks of the part about growth; 0 leaves it out (20000)")
    options = found.parse_args()
    report = Report("Memory of a worker, PSS", options, HEAD)
    run(options, report)
    report.finish()


if __name__ == "__main__":
    main()
