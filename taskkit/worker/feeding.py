"""Which child gets which task, and how many tasks are wanted: prefetch by milliseconds of work, not by count."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from taskkit.model import Claimed
from taskkit.settings import Worker
from taskkit.worker.frames import HandlerInfo, Job
from taskkit.worker.slots import Slot

UNKNOWN_SECONDS = 0.1
LEARNING = 0.2
SHORTEST = 5e-5


class Feeder:
    """Places tasks on children by what their codes usually take."""

    def __init__(self, settings: Worker, handlers: Mapping[str, HandlerInfo]) -> None:
        self.settings, self.handlers = settings, handlers
        self.budget = settings.prefetch_ms / 1000
        self._usual: dict[str, float] = {}
        self._mean = UNKNOWN_SECONDS

    def learn(self, code: str, seconds: float) -> None:
        """A task of this code took so long."""
        seconds = max(seconds, SHORTEST)
        usual = self._usual.get(code)
        self._usual[code] = seconds if usual is None else usual + LEARNING * (seconds - usual)
        self._mean += LEARNING * (seconds - self._mean)

    def usual(self, code: str) -> float:
        """Seconds that a task of this code usually takes."""
        return self._usual.get(code, UNKNOWN_SECONDS)

    def mode(self, task: Claimed) -> str:
        """How the task's handler runs: ``sync``, ``async`` or ``thread``."""
        mode = self.handlers[task.task_code].mode
        return "sync" if mode == "thread" and self.settings.threads == 1 else mode

    def room(self, slots: Iterable[Slot], now: float) -> int:
        """How many more tasks the children can use soon."""
        room = 0
        for slot in slots:
            if not slot.usable or slot.alone:
                continue
            if slot.mode in {"async", "thread"}:
                room += self._limit(slot.mode) - len(slot.jobs)
            else:
                spare = self.budget - slot.load(now)
                more = int(spare / self._mean) if spare > 0 else 0
                room += max(more, 0 if slot.jobs else 1)
        return min(room, self.settings.max_prefetch)

    def place(self, tasks: Sequence[Claimed], slots: Sequence[Slot], now: float) -> list[Claimed]:
        """Give tasks to children, in order; returns those for which there is no place now."""
        loads = {slot.number: slot.load(now) for slot in slots if slot.usable}
        batches: dict[int, list[Job]] = {}
        left: list[Claimed] = []
        blocked: set[str] = set()
        for task in tasks:
            mode = self.mode(task)
            slot = None if mode in blocked else self._choose(task, mode, slots, loads, blocked)
            if slot is None:
                left.append(task)
                if not task.suspect:
                    blocked.add(mode)
                continue
            estimate = self.usual(task.task_code)
            batches.setdefault(slot.number, []).append(slot.prepare(task, mode, estimate))
            slot.alone = task.suspect
            loads[slot.number] += estimate
        for slot in slots:
            if slot.number in batches:
                slot.give(batches[slot.number])
        return left

    def share_back(
        self, slots: Sequence[Slot], now: float, put_first: Callable[[Iterable[Claimed]], None]
    ) -> None:
        """When a child idles, take back what waits behind a long task in another."""
        if not any(slot.idle for slot in slots):
            return
        for slot in slots:
            if slot.mode == "sync" and len(slot.jobs) > 1 and slot.load(now) > 2 * self.budget:
                put_first(given.task for given in slot.take_back())

    def _choose(
        self, task: Claimed, mode: str, slots: Sequence[Slot], loads: Mapping[int, float], blocked: set[str]
    ) -> Slot | None:
        if task.suspect:
            return next((slot for slot in slots if slot.idle), None)
        free = [slot for slot in slots if slot.usable and not slot.alone]
        if mode == "sync":
            able = [s for s in free if not s.jobs or (s.mode == "sync" and loads[s.number] < self.budget)]
            return min(able, key=lambda s: loads[s.number], default=None)
        alike = [s for s in free if s.mode == mode and len(s.jobs) < self._limit(mode)]
        if "sync" in blocked and alike:
            # a plain task waits for a child of its own: let the least busy of these run dry
            alike.remove(min(alike, key=lambda s: len(s.jobs)))
        if alike:
            return min(alike, key=lambda s: len(s.jobs))
        return next((s for s in free if not s.jobs), None)

    def _limit(self, mode: str) -> int:
        return self.settings.async_concurrency if mode == "async" else self.settings.threads
