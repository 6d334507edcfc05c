"""Cancellations that persons asked for: what waits never starts, what runs is stopped."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping

from taskkit.clock import monotonic
from taskkit.states import Outcome
from taskkit.worker.ends import Ends
from taskkit.worker.limits import Limits
from taskkit.worker.pool import Pool
from taskkit.worker.slots import Given, ParentVerdict, Slot

CANCELLED = ParentVerdict(Outcome.CANCELLED, "cancelled by a person")


class Cancels:
    """Asked for in any thread, carried out in the hub's."""

    def __init__(self, slots: Mapping[int, Slot], pool: Pool, ends: Ends, limits: Limits) -> None:
        self.slots, self.pool, self.ends, self.limits = slots, pool, ends, limits
        self._asked: deque[tuple[int, int]] = deque()

    def ask(self, task_id: int, attempt: int) -> None:
        """A person wants this attempt to end."""
        self._asked.append((task_id, attempt))

    def carry_out(self) -> None:
        """End what was asked for, among what waits and among the jobs of the children."""
        wanted = {self._asked.popleft() for _ in range(len(self._asked))}
        if not wanted:
            return
        self._end_waiting(wanted)
        for slot in list(self.slots.values()):
            for given in reversed(slot.take_back()):
                if _key(given) in wanted:
                    self.ends.unstarted(given.task, CANCELLED)
                else:
                    self.pool.put_first([given.task])
            for given in list(slot.jobs.values()):
                if _key(given) in wanted:
                    self.limits.stop(slot, given, CANCELLED, monotonic())

    def _end_waiting(self, wanted: Collection[tuple[int, int]]) -> None:
        waiting = self.pool.take_all()
        self.pool.put_first(task for task in waiting if (task.id, task.attempt) not in wanted)
        for task in waiting:
            if (task.id, task.attempt) in wanted:
                self.ends.unstarted(task, CANCELLED)


def _key(given: Given) -> tuple[int, int]:
    return given.task.id, given.task.attempt
