"""A soak: a steady load for a long time, with or without an adversary, and what each minute looked like.

    python bench/soak.py --minutes 30 [--share 0.5 | --rate 5000] [--chaos]

The maximum rate is measured first, with the same processes (--rate leaves that out); then tasks are enqueued at a share of
it. With --chaos the adversary of bench/chaos strikes in every third minute, so that there are minutes of faults, minutes
after them, and calm ones. Each handler records its first moment in a file with one write: latency is from the enqueue call
to there, and a task that was accepted and never began is lost.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.chaos.adversary import Planned, plan
from bench.chaos.crew import Crew
from bench.chaos.stage import Stage
from bench.chaos.strikes import Adversary
from bench.peers.worklib import Records
from bench.report import Report, parser, quantile
from bench.sending import MOST, QUEUE, Numbers, Sender, send
from bench.stack import APP, MARIADB, environment, plain_environment
from taskkit import Taskkit, TaskkitError

LOOK, WARMING = 2.0, 200
EVERY = 3
WAITING = "SELECT COUNT(*) FROM task_center WHERE status IN (0, 1, 4)"
LIVE = "SELECT COUNT(*) FROM task_center WHERE status IN (0, 1, 2, 4, 7)"
STATUSES = "SELECT status, COUNT(*) FROM task_center GROUP BY status"
HEAD = ["minute", "kind", "sent/s", "begun/s", "p50 ms", "p99 ms", "depth", "waiting in SQL", "faults"]


@dataclass
class Minute:
    """What one minute looked like."""

    number: int
    kind: str = "calm"
    sent: int = 0
    depth: int = 0
    waiting: int = 0
    faults: int = 0


class Watch:
    """Looks at the queue, at SQL and at the records, and makes a line of each minute."""

    def __init__(self, kit: Taskkit, records: Records, sender: Sender, adversary: Adversary | None) -> None:
        self.kit, self.records, self.sender, self.adversary = kit, records, sender, adversary
        self.began = Numbers()
        self._struck = False

    def minute(self, number: int, until: float, report: Report) -> None:
        """Watch until this instant of the monotonic clock."""
        one, sent, began = Minute(number), self.sender.accepted.met, time.monotonic()
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(LOOK, left))
            one.depth, one.waiting = max(one.depth, self._depth()), max(one.waiting, self._waiting())
        one.sent = self.sender.accepted.met - sent
        one.faults = self._faults(began, until)
        one.kind = "faults" if one.faults else "after faults" if self._struck else "calm"
        self._struck = bool(one.faults)
        self._line(one, until - began, report)

    def read(self) -> list[float]:
        """Milliseconds to the start of what began since the last call."""
        news = self.records.news()
        for record in news:
            self.began.meet(record[2])
        return [(began - sent) * 1000 for _, _, _, sent, began in news]

    def _line(self, one: Minute, seconds: float, report: Report) -> None:
        found = self.read()
        p50, p99 = (quantile(found, q) if found else float("nan") for q in (0.5, 0.99))
        report.keep(one.kind, p50=p50, p99=p99, depth=one.depth, waiting=one.waiting, minute=one.number)
        rates = [f"{count / seconds:,.0f}" for count in (one.sent, len(found))]
        counts = [f"{one.depth:,}", f"{one.waiting:,}", one.faults]
        report.rows.append([str(one.number), one.kind, *rates, f"{p50:,.1f}", f"{p99:,.1f}", *counts])
        print(" | ".join(map(str, report.rows[-1])), file=sys.stderr, flush=True)

    def _depth(self) -> int:
        with contextlib.suppress(TaskkitError):
            queue = self.kit.queue
            lists = self.kit.center.shards.book.all_lists([QUEUE])
            return sum(queue.depth(lists).values()) if queue else 0
        return 0

    def _waiting(self) -> int:
        with contextlib.suppress(TaskkitError):
            return int(self.kit.center.database.read(lambda c: c.exec_driver_sql(WAITING).scalar_one()))
        return 0

    def _faults(self, began: float, ended: float) -> int:
        """Faults that were under way in between."""
        done = list(self.adversary.done) if self.adversary else []
        return sum(fault.hit and fault.began < ended and fault.ended > began for fault in done)


def maximum(kit: Taskkit, records: Records, tasks: int, first: int = 0) -> float:
    """The rate at which tasks with these numbers begin, once the first half has."""
    last = first + tasks
    for number in range(first, last, MOST):
        send(kit, range(number, min(last, number + MOST)))
    deadline = time.monotonic() + 300
    while records.count() < last:
        if time.monotonic() > deadline:
            raise SystemExit(f"only {records.count()} of {last} tasks began")
        time.sleep(0.1)
    starts = sorted(record[4] for record in records.news())
    half = starts[len(starts) // 2 :]
    return (len(half) - 1) / max(1e-6, half[-1] - half[0])


def attacks(options: argparse.Namespace) -> list[Planned]:
    """Faults in every third minute from the second on, none in the last two."""
    found: list[Planned] = []
    for minute in range(1, options.minutes - 2, EVERY):
        start, server = minute * options.minute_s, options.database == "mariadb"
        blows = plan(options.seed + minute, options.minute_s, options.faults, server=server)
        found += [replace(planned, at=planned.at + start) for planned in blows]
    return found


@contextmanager
def installation(options: argparse.Namespace) -> Iterator[tuple[Stage, Taskkit, Crew, Records]]:
    """Servers, a kit, and a crew that is started again where it ends."""
    home = Path(tempfile.mkdtemp(prefix="taskkit-soak-"))
    stage = Stage(home, options.database, MARIADB, **dict(pair.split("=", 1) for pair in options.set))
    records = Records(home / "records")
    records.clear()
    env = plain_environment() | environment(stage.settings) | {"BENCH_RECORDS": str(records.path)}
    env["TASKKIT_LOG_LEVEL"] = "warning"
    crew = Crew(home, env, options.seed)
    crew.add("scheduler", options.schedulers)
    arguments = ("--app", APP, "--queue", QUEUE, "--processes", str(options.processes))
    crew.add("worker", options.workers, *arguments)
    try:
        with contextlib.closing(stage.open(audited=False)) as kit:
            crew.start()
            try:
                yield stage, kit, crew, records
            finally:
                crew.close()
    finally:
        stage.close()
        if not options.keep:
            shutil.rmtree(home, ignore_errors=True)


def run(options: argparse.Namespace, report: Report) -> int:
    """The whole soak; returns how many tasks were lost."""
    with installation(options) as (stage, kit, crew, records):
        report.saw(kit)
        maximum(kit, records, WARMING)
        top = maximum(kit, records, options.calibrate, WARMING) if not options.rate else 0.0
        sender = Sender(kit, options.rate or top * options.share, WARMING + options.calibrate)
        began = time.monotonic()
        adversary = Adversary(stage, crew, attacks(options), began) if options.chaos else None
        storm = threading.Thread(target=adversary.run, daemon=True) if adversary else None
        watch = Watch(kit, records, sender, adversary)
        sender.start()
        if storm:
            storm.start()
        for minute in range(1, options.minutes + 1):
            watch.minute(minute, began + minute * options.minute_s, report)
        sender.finish()
        if storm:
            storm.join()
        settle(stage, options.settle)
        watch.read()
        report.notes += told(options, top, sender)
        return verdict(stage, sender, watch, report)


def settle(stage: Stage, patience: float) -> None:
    """Wait until no task is alive."""
    deadline = time.monotonic() + patience
    while stage.query(LIVE)[0][0] and time.monotonic() < deadline:
        time.sleep(0.5)


def told(options: argparse.Namespace, top: float, sender: Sender) -> list[str]:
    """What the load was."""
    share = f"{sender.rate / top:.0%} of the measured maximum of {top:,.0f}" if top else "as asked for"
    adversary = f"adversary with seed {options.seed}" if options.chaos else "no adversary"
    crew = f"{options.schedulers} schedulers, {options.workers} workers with {options.processes} children"
    return [
        "settings as in the chaos run (bench/chaos/stage.py), which has fewer seconds of grace than the defaults",
        f"load {sender.rate:,.0f} a second, {share}; {crew}; {adversary}",
    ]


def verdict(stage: Stage, sender: Sender, watch: Watch, report: Report) -> int:
    """Counts what was lost and what ran more than once; a success without a start would be lost, too."""
    lost = sum(watch.began[number] == 0 for number in sender.accepted.all())
    again = sum(watch.began[number] > 1 for number in sender.accepted.all())
    accepted = sender.accepted.met
    statuses = ", ".join(f"{count:,} in status {status}" for status, count in stage.query(STATUSES))
    report.notes += [
        f"accepted {accepted:,}, refused {sender.refused:,}, unknown {sender.unknown:,}; rows: {statuses}",
        f"lost {lost}, begun more than once {again}",
    ]
    report.figures["verdict"] = [{"accepted": accepted, "lost": lost, "again": again}]
    calm = report.of("calm", "p99")
    if calm:
        report.notes.append(f"p99 of the calm minutes: {report.spread('calm', 'p99', 1)} ms")
    return lost


def main() -> int:
    """Command line."""
    found = parser(__doc__, rounds=0, database="mariadb")
    add = found.add_argument
    add("--minutes", type=int, default=30, help="how long (30)")
    add("--share", type=float, default=0.5, help="of the maximum rate (0.5)")
    add("--rate", type=float, default=0.0, help="tasks a second, instead of a share of a measured maximum")
    add("--calibrate", type=int, default=20_000, help="tasks of the measurement of the maximum (20000)")
    add("--chaos", action="store_true", help="let the adversary strike in every third minute")
    add("--faults", type=int, default=8, help="faults in each of those minutes (8)")
    add("--seed", type=int, default=random.randrange(1 << 31), help="of the faults")
    add("--schedulers", type=int, default=2, help="how many schedulers (2)")
    add("--workers", type=int, default=2, help="how many workers (2)")
    add("--processes", type=int, default=2, help="children of each worker (2)")
    add("--settle", type=float, default=600.0, help="longest wait for the last task, in seconds (600)")
    add("--keep", action="store_true", help="keep the folder with logs and records")
    add("--minute-s", type=float, default=60.0, help=argparse.SUPPRESS)
    options = found.parse_args()
    report = Report("Soak", options, HEAD)
    lost = run(options, report)
    report.finish()
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
