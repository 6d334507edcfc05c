"""One chaos run from its first server to its verdict."""

from __future__ import annotations

import contextlib
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.chaos import collect, load
from bench.chaos.adversary import plan
from bench.chaos.crew import Crew
from bench.chaos.deaths import Deaths
from bench.chaos.evidence import Evidence
from bench.chaos.load import Load
from bench.chaos.stage import Stage
from bench.chaos.strikes import Adversary
from taskkit import Taskkit, TaskkitError

UP_PATIENCE = 60.0
SAY_EVERY = 2.0
CANCEL_PATIENCE = 30.0
WAITING = "SELECT COUNT(*) FROM task_center WHERE task_type <> 1 AND status IN (0, 1, 2, 4, 7)"
ALL = "SELECT COUNT(*) FROM task_center WHERE task_type <> 1"
BEHIND = {
    "mysql": "SELECT (SELECT COUNT(*) FROM task_center WHERE task_type = 1 AND status <> 6 "
    "AND UNIX_TIMESTAMP(occurrence_at) <= {0}) + (SELECT COUNT(*) FROM task_occurrence "
    "WHERE state = 'planned' AND UNIX_TIMESTAMP(planned_at) <= {0})",
    "sqlite": "SELECT (SELECT COUNT(*) FROM task_center WHERE task_type = 1 AND status <> 6 "
    "AND (julianday(occurrence_at) - 2440587.5) * 86400 <= {0}) + (SELECT COUNT(*) FROM task_occurrence "
    "WHERE state = 'planned' AND (julianday(planned_at) - 2440587.5) * 86400 <= {0})",
}
"""Periodic tasks that have not passed the horizon, and occurrences before it that nobody has answered for."""


@dataclass(frozen=True)
class Options:
    """What a run is asked for."""

    tasks: int = 2000
    seconds: float = 60.0
    faults: int = 30
    seed: int = 1
    database: str = "mariadb"
    schedulers: int = 2
    workers: int = 3
    processes: int = 4
    settle: float = 600.0
    lost_after: float = 10.0
    dead_after: float = 15.0
    keep: bool = False
    quiet: bool = False

    @property
    def command(self) -> str:
        """The command line that replays this run."""
        return (
            f"python bench/chaos.py --seed {self.seed} --tasks {self.tasks} --minutes {self.seconds / 60:g} "
            f"--faults {self.faults} --database {self.database} --schedulers {self.schedulers} "
            f"--workers {self.workers} --processes {self.processes}"
        )


class Show:
    """The line that says how far a run is."""

    def __init__(self, options: Options) -> None:
        self.quiet, self._last = options.quiet, 0.0
        self.began = time.monotonic()

    def say(self, text: str, *, now: bool = False) -> None:
        """On a terminal over the last line, else a line every ten seconds."""
        tty, at = sys.stderr.isatty(), time.monotonic()
        if self.quiet or not (now or at - self._last > (SAY_EVERY if tty else 10)):
            return
        self._last = at
        line = f"{at - self.began:6.1f} s  {text}"
        print(f"\r{line:100}" if tty else line, end="" if tty else "\n", file=sys.stderr, flush=True)


def run(options: Options) -> tuple[Evidence, Path]:
    """Run chaos; the evidence, and the folder where it lies with the logs if it is kept."""
    home = Path(tempfile.mkdtemp(prefix="taskkit-chaos-"))
    evidence = Evidence(
        seed=options.seed,
        command=options.command,
        database=options.database,
        lost_after=options.lost_after,
    )
    try:
        with _stage(home, options) as (stage, kit):
            _act(stage, kit, options, evidence)
        evidence.save(home / "evidence.json")
    except BaseException:
        print(f"\nthe folder of this run is kept: {home}", file=sys.stderr)
        raise
    if not options.keep:
        shutil.rmtree(home, ignore_errors=True)
    return evidence, home


@contextmanager
def _stage(home: Path, options: Options) -> Iterator[tuple[Stage, Taskkit]]:
    recovery = {"scheduler_lost_after_s": options.lost_after, "scheduler_dead_after_s": options.dead_after}
    stage = Stage(home, options.database, **recovery)
    try:
        kit = stage.open()
        try:
            yield stage, kit
        finally:
            kit.close()
    finally:
        stage.close()


def _act(stage: Stage, kit: Taskkit, options: Options, evidence: Evidence) -> None:
    show = Show(options)
    show.say("servers are up", now=True)
    crew, deaths = Crew(stage.home, stage.environment(), options.seed), Deaths(stage.ledger)
    crew.add("scheduler", options.schedulers)
    queues = ",".join((*load.QUEUES, "tick"))
    arguments = ("--app", "bench.chaos.app:kit", "--queue", queues, "--processes", str(options.processes))
    crew.add("worker", options.workers, *arguments)
    evidence.periodic = load.begin_periodic(kit)
    deaths.start()
    crew.start()
    try:
        _wait_up(kit, options)
        evidence.began = time.monotonic()
        adversary = _storm(stage, kit, crew, options, evidence, show)
        _settle(stage, kit, options, evidence, show)
    finally:
        crew.close()
        deaths.stop()
    evidence.ended = time.monotonic()
    evidence.faults, evidence.processes = sorted(adversary.done, key=lambda f: f.began), crew.history()
    show.say("reading the evidence", now=True)
    collect.from_sql(evidence, stage)
    collect.from_ledger(evidence, stage.ledger, deaths.found)
    collect.from_logs(evidence, stage.home)
    stage.close()
    adversary.close()
    show.say("judging", now=True)


def _wait_up(kit: Taskkit, options: Options) -> None:
    deadline = time.monotonic() + UP_PATIENCE
    nodes = kit.center.nodes
    while len(nodes.schedulers()) < options.schedulers or len(nodes.workers()) < options.workers:
        if time.monotonic() > deadline:
            raise SystemExit("the schedulers and workers did not come up")
        time.sleep(0.1)


def _storm(
    stage: Stage, kit: Taskkit, crew: Crew, options: Options, evidence: Evidence, show: Show
) -> Adversary:
    """Load and faults side by side, until both have ended."""
    blows = plan(options.seed, options.seconds, _with_spare(options.faults), server=stage.mariadb is not None)
    producer = Load(kit, options.tasks, options.seconds, options.seed)
    adversary = Adversary(stage, crew, blows, evidence.began)
    producer.start()
    storm = threading.Thread(target=adversary.run, name="adversary", daemon=True)
    storm.start()
    try:
        while storm.is_alive() or time.monotonic() < evidence.began + options.seconds:
            storm.join(0.5)
            time.sleep(0.1)
            done = sum(fault.hit for fault in list(adversary.done))
            told = f"{len(producer.accepted)} of {options.tasks} tasks accepted"
            show.say(f"{told}, {done} of {len(blows)} faults")
        producer.finish()
    except BaseException:
        adversary.give_up()
        raise
    evidence.accepted = sorted(set(producer.accepted))
    evidence.refused, evidence.unknown = producer.refused, producer.unknown
    evidence.load_ended = time.monotonic()
    return adversary


def _with_spare(faults: int) -> int:
    """Some faults find nobody to hit."""
    return faults + max(2, faults // 7) if faults else 0


def _settle(stage: Stage, kit: Taskkit, options: Options, evidence: Evidence, show: Show) -> None:
    """Wait until every task has ended and every occurrence up to now is answered for; then end the periodic ones."""
    evidence.horizon = int(kit.center.now().timestamp())
    deadline = time.monotonic() + options.settle
    behind = BEHIND["sqlite" if stage.mariadb is None else "mysql"].format(evidence.horizon)
    while time.monotonic() < deadline:
        stage.check()
        left, late = stage.query(WAITING)[0][0], stage.query(behind)[0][0]
        show.say(
            f"the faults are over; {left} of {stage.query(ALL)[0][0]} tasks and {late} occurrences to go"
        )
        if not left and not late:
            break
        time.sleep(0.5)
    _cancel_periodic(stage, kit, evidence)


def _cancel_periodic(stage: Stage, kit: Taskkit, evidence: Evidence) -> None:
    for one in evidence.periodic:
        with contextlib.suppress(TaskkitError):
            kit.operations.cancel(one.task, "chaos")
    deadline = time.monotonic() + CANCEL_PATIENCE
    while time.monotonic() < deadline:
        if not stage.query("SELECT COUNT(*) FROM task_center WHERE task_type = 1 AND status <> 6")[0][0]:
            return
        time.sleep(0.2)
