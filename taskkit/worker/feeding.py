"""Which child gets which task, and how many tasks are wanted: prefetch by milliseconds of work, not by count."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence

from taskkit.model import Claimed
from taskkit.settings import Worker
from taskkit.worker.frames import ChildJob, HandlerInfo
from taskkit.worker.scaling import ServiceTimes
from taskkit.worker.slots import Slot

UNKNOWN_SECONDS = 0.1
LEARNING = 0.2
SHORTEST = 5e-5
AT_HAND = 1.0
"""Seconds: what usually takes longer is not fetched before a child is free; the time of a fetch is nothing to it."""
HELD = 1.0
"""Seconds that a claimed task waits here for a child; then it goes back, perhaps to another worker, if it would wait
for so long again or every child is held up for that long by what it runs. What is only forecast sends nothing back: one job that a busy machine held up is no slow code."""


class Feeder:
    """Places tasks on children by what their codes usually take."""

    def __init__(self, settings: Worker, handlers: Mapping[str, HandlerInfo]) -> None:
        self.settings, self.handlers = settings, handlers
        self.budget = settings.prefetch_ms / 1000
        self._usual: dict[str, float] = {}
        self.at_once = {"sync": 1, "async": settings.async_concurrency, "thread": settings.threads}
        """How many jobs of each mode a child runs at a time."""
        self._means = dict.fromkeys(self.at_once, UNKNOWN_SECONDS)
        self._draining = False
        self._waits: dict[int, float] = {}
        """Since when the tasks that are left over have been waiting here."""
        self.times: ServiceTimes | None = None

    def learn(self, code: str, seconds: float) -> None:
        """A task of this code took so long."""
        seconds = max(seconds, SHORTEST)
        usual = self._usual.get(code)
        self._usual[code] = seconds if usual is None else usual + LEARNING * (seconds - usual)
        mode = self._mode(code)
        if self.times is not None:
            self.times.note(seconds, self.part(mode))
        self._means[mode] += LEARNING * (seconds - self._means[mode])

    def usual(self, code: str) -> float:
        """Seconds that a task of this code usually takes."""
        return self._usual.get(code, UNKNOWN_SECONDS)

    def _mode(self, code: str) -> str:
        """How the handler of a code runs: ``sync``, ``async`` or ``thread``."""
        mode = self.handlers[code].mode
        return "sync" if mode == "thread" and self.settings.threads == 1 else mode

    def part(self, mode: str) -> float:
        """The part of a child that a task of this mode occupies."""
        return 1 / self.at_once.get(mode, 1)

    def room(self, slots: Sequence[Slot], now: float) -> int:
        """How many more tasks the children can use soon."""
        if self._draining or _one_runs_alone(slots):
            return 0
        room, most = 0, self.settings.max_prefetch
        for slot in slots:
            if not slot.usable or slot.alone:
                continue
            room += min(self._left(slot), max(self._at_once_more(slot), self._ahead(slot, now)))
            if room >= most:
                return most
        return room

    def one_starves(self, slots: Sequence[Slot]) -> bool:
        """Whether a child could begin something at once; called in every turn."""
        for slot in slots:
            if slot.jobs and slot.mode == "sync":
                continue
            if slot.usable and not slot.alone and min(self._left(slot), self._at_once_more(slot)) > 0:
                return True
        return False

    def _left(self, slot: Slot) -> int:
        """How many more tasks it may be given before it is replaced."""
        limit = self.settings.max_tasks_per_child
        return limit - slot.served - len(slot.jobs) if limit else sys.maxsize

    def _at_once_more(self, slot: Slot) -> int:
        """How many more it would begin at once."""
        if slot.mode in {"async", "thread"}:
            # doubled step by step: what comes may be of another mode, and would wait here for its own children
            return min(self.at_once[slot.mode] - len(slot.jobs), max(1, len(slot.jobs)))
        return 0 if slot.jobs else 1

    def _ahead(self, slot: Slot, now: float) -> int:
        """How many more it would begin within the budget."""
        spare = self.budget - slot.load(now)
        if spare <= 0:
            return 0
        mean = self._means[slot.mode or "sync"]
        more = spare * slot.lanes / mean
        # of what takes longer than the budget, the next one is at hand when the running one is about to end
        count = math.ceil(more) if mean < AT_HAND else int(more)
        return count if slot.mode in {"", "sync"} else min(count, len(slot.places))

    def place(self, tasks: Sequence[Claimed], slots: Sequence[Slot], now: float) -> list[Claimed]:
        """Give tasks to children, in order; returns those for which there is no place now.

        Called with all that wait, also when that is nothing: what wanted the worker for itself may have gone.
        """
        self._draining = False
        if not tasks or _one_runs_alone(slots):
            return list(tasks)
        alone = next((task for task in tasks if _wants_all(task)), None)
        if alone is not None:
            return self._place_alone(alone, tasks, slots)
        free = [slot for slot in slots if slot.usable and not slot.alone and self._left(slot) > 0]
        loads = {slot.number: slot.load(now) for slot in free}
        batches: dict[int, list[ChildJob]] = {}
        left: list[Claimed] = []
        blocked: set[str] = set()
        for task in tasks:
            mode = "suspect" if task.suspect else self._mode(task.task_code)
            slot = None if mode in blocked else self._choose(mode, free, loads)
            if slot is None:
                if mode not in blocked:
                    blocked.add(mode)
                    self._let_run_dry(mode, free, loads)
                left.append(task)
                continue
            estimate = self.usual(task.task_code)
            job = slot.prepare(task, self._mode(task.task_code), estimate)
            batches.setdefault(slot.number, []).append(job)
            loads[slot.number] += estimate / slot.lanes
            slot.alone = task.suspect
            if task.suspect or self._left(slot) <= 0:
                free.remove(slot)
        for slot in slots:
            if slot.number in batches:
                slot.give(batches[slot.number])
        return left

    def _place_alone(self, alone: Claimed, tasks: Sequence[Claimed], slots: Sequence[Slot]) -> list[Claimed]:
        """A task that was lost twice with its worker waits until nothing else runs here, and then runs alone."""
        slot = None if any(slot.jobs for slot in slots) else next((s for s in slots if s.idle), None)
        self._draining = slot is None
        if slot is None:
            return list(tasks)
        job = slot.prepare(alone, self._mode(alone.task_code), self.usual(alone.task_code))
        slot.alone = True
        slot.give([job])
        return [task for task in tasks if task is not alone]

    def excess(self, tasks: Sequence[Claimed], slots: Sequence[Slot], now: float) -> set[int]:
        """Ids of the left over tasks that go back: they have waited for HELD seconds, and by their codes would again.

        Called with all that are left over, in each turn in which there are any.
        """
        if self._draining or _one_runs_alone(slots):
            return {task.id for task in tasks if not _is_patient(task)}
        self._waits = {task.id: self._waits.get(task.id, now) for task in tasks}
        usable = [slot for slot in slots if slot.usable]
        moving = sum(slot.overdue(now) <= HELD for slot in usable)
        # of one job after another: a child of async or blocking ones would fetch others in their place
        stuck = bool(usable) and not moving and all(slot.mode == "sync" for slot in usable)
        room = HELD * max(1, moving)
        beyond = set()
        for task in tasks:
            room -= self._usual.get(task.task_code, 0.0)
            if (room < 0 or stuck) and now - self._waits[task.id] >= HELD and not _is_patient(task):
                beyond.add(task.id)
        return beyond

    def share_back(
        self, slots: Sequence[Slot], now: float, put_first: Callable[[Iterable[Claimed]], None]
    ) -> None:
        """Take back what waits in a child behind a long task when another idles, or when nobody knows how long it will be."""
        idle = any(slot.idle for slot in slots)
        for slot in slots:
            if len(slot.jobs) <= slot.lanes:
                continue
            if (idle and slot.load(now) > 2 * self.budget) or slot.overdue(now) > HELD:
                put_first(given.task for given in slot.take_back())

    def _choose(self, mode: str, free: Sequence[Slot], loads: Mapping[int, float]) -> Slot | None:
        if mode == "suspect":
            return next((slot for slot in free if slot.idle), None)
        if mode == "sync":
            return self._least_busy(free, loads)
        alike = [s for s in free if s.mode == mode]
        if at_once := [s for s in alike if len(s.jobs) < self.at_once[mode]]:
            return min(at_once, key=lambda s: len(s.jobs))
        if idle := next((s for s in free if not s.jobs), None):
            return idle
        soon = [s for s in alike if s.places and loads[s.number] < self.budget]
        return min(soon, key=lambda s: loads[s.number], default=None)

    def _least_busy(self, free: Sequence[Slot], loads: Mapping[int, float]) -> Slot | None:
        """The child with the least to do of those that run one job after another; called for every task."""
        found, least, fewest = None, self.budget, 0
        for slot in free:
            load, jobs = loads[slot.number], len(slot.jobs)
            if jobs and (slot.mode != "sync" or load >= self.budget):
                continue
            if found is None or load < least or (load == least and jobs < fewest):
                found, least, fewest = slot, load, jobs
        return found

    def _let_run_dry(self, mode: str, free: list[Slot], loads: Mapping[int, float]) -> None:
        """Tasks of a mode wait: until it has its share of the children, the least busy of the others gets no more."""
        modes = {slot.mode for slot in free if slot.mode} | {mode}
        others = [slot for slot in free if slot.mode != mode]
        if others and (len(free) - len(others)) * len(modes) < len(free):
            free.remove(min(others, key=lambda s: (loads[s.number], len(s.jobs))))


def _is_patient(task: Claimed) -> bool:
    """Waits here for a child, or the worker, that is idle: elsewhere it would have to wait as well."""
    return task.suspect or _wants_all(task)


def _wants_all(task: Claimed) -> bool:
    """Lost twice with its worker: perhaps it kills them, so it must not take neighbours with it."""
    return task.lost_count > 1


def _one_runs_alone(slots: Iterable[Slot]) -> bool:
    return any(slot.alone and any(_wants_all(g.task) for g in slot.jobs.values()) for slot in slots)
