"""What proves a loss: messages absent in two passes, heartbeats that stood still under a healthy observer's eyes. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

LONGEST_GAP = 5.0
"""Seconds between two looks, beyond which nobody knows what happened meanwhile: everything begins anew."""
LOOKS = 3

K = TypeVar("K", bound=Hashable)


class Absences(Generic[K]):
    """Messages that were not in their lists: lost when they are still absent ``patience`` seconds later.

    A pass may take long, so it is given with its begin and its end: an absence counts from the end of the pass that
    saw it first to the begin of the one that sees it again, and a gap is what lies between two passes.
    """

    def __init__(self, patience: float) -> None:
        self.patience = patience
        self._since: dict[K, float] = {}
        self._looked = float("-inf")

    def look(self, begun: float, absent: Iterable[K], ended: float) -> list[K]:
        """Note what is absent by a pass between two monotonic seconds; return what has been so for long enough."""
        if begun - self._looked > LONGEST_GAP:
            self._since.clear()
        self._looked = ended
        self._since = {key: self._since.get(key, ended) for key in absent}
        return [key for key, since in self._since.items() if begun - since >= self.patience]

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
class DeadWorkers:
    """Workers that are dead; ``doubted`` are those that would be, were they not more than half of all."""

    dead: list[str] = field(default_factory=list)
    doubted: list[str] = field(default_factory=list)


class Heartbeats:
    """Counters of heartbeats: a worker is dead when its own stood still for ``patience`` seconds in three looks.

    Where more than half of those that lived at the time fell silent together, within ``patience`` seconds of each
    other, they are waited for as long again: then the database or the network is the likelier cause.
    """

    def __init__(self, patience: float) -> None:
        self.patience = patience
        self._sights: dict[str, Sight] = {}
        self._looked = float("-inf")

    def look(self, now: float, counts: Mapping[str, int], ages: Mapping[str, float]) -> DeadWorkers:
        """Take in the counters at the monotonic second ``now``, and the ages of the heartbeats by the database's clock.

        The caller has just committed a write of its own.
        """
        if now - self._looked > LONGEST_GAP:
            self._sights.clear()
        self._looked = now
        self._sights = {worker: self._seen(worker, count, now) for worker, count in counts.items()}
        still = self._still(now, self.patience)
        long_still = set(self._still(now, 2 * self.patience))
        doubted = [one for one in still if one not in long_still and self._together(one, still, ages)]
        return DeadWorkers([one for one in still if one not in doubted], doubted)

    def ended(self, now: float) -> None:
        """What followed from the look is done: the observer was at work till now, if that took no longer than a gap may."""
        if now - self._looked <= LONGEST_GAP:
            self._looked = now

    def _together(self, one: str, still: Sequence[str], ages: Mapping[str, float]) -> bool:
        """Whether more than half of those that lived when this one fell silent did so with it."""
        fell = [other for other in still if abs(ages[other] - ages[one]) <= self.patience]
        lived = [other for other in ages if ages[other] <= ages[one] + self.patience]
        return 2 * len(fell) > len(lived)

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
