"""What proves a loss: messages absent in two passes, heartbeats that stood still under a healthy observer's eyes. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

LONGEST_GAP = 5.0
"""Seconds between two looks, beyond which nobody knows what happened meanwhile: everything begins anew."""
LOOKS = 3

K = TypeVar("K", bound=Hashable)


class Absences(Generic[K]):
    """Messages that were not in their lists: lost when they are still absent ``patience`` seconds later."""

    def __init__(self, patience: float) -> None:
        self.patience = patience
        self._since: dict[K, float] = {}
        self._looked = float("-inf")

    def look(self, now: float, absent: Iterable[K]) -> list[K]:
        """Note what is absent at the monotonic second ``now``, and return what has been so for long enough."""
        if now - self._looked > LONGEST_GAP:
            self._since.clear()
        self._looked = now
        self._since = {key: self._since.get(key, now) for key in absent}
        return [key for key, since in self._since.items() if now - since >= self.patience]

    def forget(self) -> None:
        """SQL or the broker could not be reached: what was seen before proves nothing."""
        self._since.clear()


@dataclass(slots=True)
class Sight:
    """A heartbeat counter that stands still since a monotonic second, seen in so many looks."""

    count: int
    since: float
    looks: int = 1


@dataclass(frozen=True, slots=True)
class Deaths:
    """Workers that are dead; ``doubted`` are those that would be, were they not more than half of all."""

    dead: list[str] = field(default_factory=list)
    doubted: list[str] = field(default_factory=list)


class Heartbeats:
    """Counters of heartbeats: a worker is dead when its own stood still for ``patience`` seconds in three looks."""

    def __init__(self, patience: float) -> None:
        self.patience = patience
        self._sights: dict[str, Sight] = {}
        self._looked = float("-inf")

    def look(self, now: float, counts: Mapping[str, int]) -> Deaths:
        """Take in the counters at the monotonic second ``now``; the caller has just committed a write of its own."""
        if now - self._looked > LONGEST_GAP:
            self._sights.clear()
        self._looked = now
        self._sights = {worker: self._seen(worker, count, now) for worker, count in counts.items()}
        dead = self._still(now, self.patience)
        if 2 * len(dead) <= len(counts):
            return Deaths(dead)
        long_dead = self._still(now, 2 * self.patience)
        return Deaths(long_dead, [worker for worker in dead if worker not in long_dead])

    def _seen(self, worker: str, count: int, now: float) -> Sight:
        known = self._sights.get(worker)
        if known is None or known.count != count:
            return Sight(count, now)
        known.looks += 1
        return known

    def _still(self, now: float, patience: float) -> list[str]:
        return [
            worker
            for worker, sight in self._sights.items()
            if now - sight.since >= patience and sight.looks >= LOOKS
        ]
