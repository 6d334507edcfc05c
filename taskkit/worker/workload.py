"""What a worker's children have to do: how many of them are busy, and how long a task takes; for those that scale it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice

from taskkit.worker.feeding import Feeder
from taskkit.worker.pool import Pool
from taskkit.worker.scaling import ServiceTimes
from taskkit.worker.slots import Slot

SAMPLE_S = 0.05
LOOK_S = 1.0
"""A look is the mean of the samples since the last one."""
MOST_RUNNING = 100


@dataclass(frozen=True, slots=True)
class Load:
    """A look: children that are busy, tasks that wait here for one, child-seconds and part of a child of a task."""

    busy: float
    pooled: int
    seconds: float
    share: float


class Workload:
    """Samples the children in the hub's thread; ``load`` may be read from any, and is None before the first look."""

    def __init__(self, slots: Mapping[int, Slot], pool: Pool, feeder: Feeder) -> None:
        self.slots, self.pool, self.feeder = slots, pool, feeder
        self.times = feeder.times = ServiceTimes()
        self.load: Load | None = None
        self._busy, self._samples = 0.0, 0
        self._sample_at, self._look_at = 0.0, 0.0

    def sample(self, now: float) -> None:
        """A sample, and now and then a look, if it is time."""
        if now < self._sample_at:
            return
        self._sample_at = now + SAMPLE_S
        self._busy += sum(self._occupied(slot) for slot in self.slots.values())
        self._samples += 1
        if now >= self._look_at:
            self._look_at = now + LOOK_S
            self.load = self._look(now)
            self._busy, self._samples = 0.0, 0

    def _occupied(self, slot: Slot) -> float:
        return min(1.0, len(slot.jobs) * self.feeder.part(slot.mode)) if slot.jobs else 0.0

    def _look(self, now: float) -> Load:
        running, parts, count = 0.0, 0.0, 0
        for slot in self.slots.values():
            part = self.feeder.part(slot.mode)
            for given in islice(slot.perhaps_running(), MOST_RUNNING):
                started = slot.started(given)
                if started is not None:
                    running, parts, count = running + (now - started) * part, parts + part, count + 1
        seconds, share = self.times.means(running, parts, count)
        return Load(self._busy / self._samples, len(self.pool), seconds, share)
