"""The evidence by task, and what the records say about who died, stood still or was told to stop."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from bench.chaos.evidence import Death, Effect, Evidence, Fault, Move, Periodic, Process, Run, Task

T = TypeVar("T", Move, Run, Effect)
ENDED = {3, 5, 6}
PERIODIC = 1
SLACK = 0.1
"""Seconds by which the database's clock and ours may be apart."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that must not have happened, and to which task."""

    task: int
    text: str


def by_task(things: Iterable[T]) -> dict[int, list[T]]:
    """Records grouped by their task, in their order."""
    found: dict[int, list[T]] = defaultdict(list)
    for thing in things:
        found[thing.task].append(thing)
    return found


def pid_of(worker: str | None) -> int | None:
    """The process behind a worker's id, ``host:pid:random``."""
    words = (worker or "").split(":")
    return int(words[1]) if len(words) == 3 and words[1].isdigit() else None


@dataclass
class Case:
    """One run's evidence with its indexes."""

    evidence: Evidence
    tasks: dict[int, Task] = field(init=False)
    moves: dict[int, list[Move]] = field(init=False)
    runs: dict[tuple[int, int], Run] = field(init=False)
    effects: dict[int, list[Effect]] = field(init=False)
    periodic: dict[int, Periodic] = field(init=False)

    def __post_init__(self) -> None:
        evidence = self.evidence
        self.tasks = {task.id: task for task in evidence.tasks}
        self.moves = by_task(evidence.moves)
        self.runs = {(run.task, run.attempt): run for run in evidence.runs}
        self.effects = by_task(sorted(evidence.effects, key=lambda effect: effect.start))
        self.periodic = {one.task: one for one in evidence.periodic}
        self._deaths: dict[int, list[Death]] = defaultdict(list)
        for death in evidence.deaths:
            self._deaths[death.pid].append(death)
        self._processes: dict[int, list[Process]] = defaultdict(list)
        for process in evidence.processes:
            self._processes[process.pid].append(process)
        self._faults = sorted(
            (fault for fault in evidence.faults if fault.hit), key=lambda fault: fault.began
        )
        self._longest = max((fault.ended - fault.began for fault in self._faults), default=0.0)

    def child_died(self, pid: int, after: float, before: float) -> bool:
        """Whether the death of this child is recorded in between."""
        return any(after - SLACK <= death.at <= before + SLACK for death in self._deaths[pid])

    def worker_died(self, worker: str, before: float) -> bool:
        """Whether the worker with this id is recorded to have ended by then."""
        return any(
            p.died is not None and p.died <= before + SLACK for p in self._processes[pid_of(worker) or 0]
        )

    def worker_told(self, worker: str, before: float) -> bool:
        """Whether the worker with this id was asked to stop in order by then."""
        return any(
            p.told is not None and p.told <= before + SLACK for p in self._processes[pid_of(worker) or 0]
        )

    def worker_frozen(self, worker: str, after: float, before: float) -> bool:
        """Whether the worker with this id stood still at some time in between."""
        pid = pid_of(worker)
        return any(f.victim == pid for f in self.faults_in(after, before, {"freeze worker"}))

    def faults_in(self, after: float, before: float, kinds: Iterable[str] | None = None) -> list[Fault]:
        """Faults of these kinds that were under way at some time in between."""
        after, before = after - SLACK, before + SLACK
        first = bisect_left(self._faults, after - self._longest, key=lambda fault: fault.began)
        wanted = None if kinds is None else set(kinds)
        found = []
        for fault in self._faults[first:]:
            if fault.began > before:
                break
            if fault.ended >= after and (wanted is None or fault.kind in wanted):
                found.append(fault)
        return found
