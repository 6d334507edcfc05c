"""Who begins when: tasks in the order of their arrival, a number of slots that changes, priorities and limits. Pure.

Exact for the instants and lengths given: the recursion of Kiefer and Wolfowitz on a heap of the instants at which slots
become free, a few tenths of a microsecond a task with one class, a few microseconds with limits.
"""

from __future__ import annotations

import heapq
import math
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
CHUNK = 1 << 18
NEVER = math.inf


@dataclass(slots=True)
class Slots:
    """Instants at which a slot opens, and at which one closes: it ends what it runs and begins nothing more."""

    opens: Sequence[float]
    closes: Sequence[float] = ()
    free: list[float] = field(init=False)
    ahead: list[float] = field(init=False)

    def __post_init__(self) -> None:
        self.free = [*sorted(self.opens), NEVER]
        self.ahead = [NEVER, *sorted(self.closes, reverse=True)]

    def settle(self, at: float) -> float:
        """The instant from ``at`` on at which a slot is free, after those that close until then have gone."""
        free, ahead = self.free, self.ahead
        now = max(at, free[0])
        while now >= ahead[-1] and now < NEVER:
            ahead.pop()
            heapq.heappop(free)
            now = max(at, free[0])
        return now


def starts(arrive: Floats, service: Floats, slots: Slots) -> Floats:
    """When each of the tasks begins, first come first served; ``arrive`` is sorted; never is infinity."""
    found = np.empty(len(arrive))
    for first in range(0, len(arrive), CHUNK):
        part = slice(first, first + CHUNK)
        found[part] = _served(arrive[part].tolist(), service[part].tolist(), slots)
    return found


def _served(arrive: list[float], service: list[float], slots: Slots) -> list[float]:
    free, close = slots.free, slots.ahead[-1]
    found: list[float] = []
    replace, keep = heapq.heapreplace, found.append
    for at, length in zip(arrive, service, strict=True):
        now = free[0]
        if now < at:  # noqa: PLR1730 - a call of max() takes longer than all the rest
            now = at
        if now >= close:
            now = slots.settle(at)
            close = slots.ahead[-1]
        replace(free, now + length)
        keep(now)
    return found


def starts_by_rank(arrive: Floats, service: Floats, rank: Ints, slots: Slots) -> Floats:
    """The same where a lower rank goes first among those that wait; a run is never broken off."""
    total = len(arrive)
    keys = array("q", (rank * total + np.arange(total)).tobytes())
    coming, lengths = array("d", arrive.tobytes()), array("d", service.tobytes())
    found = array("d", [NEVER]) * total
    ready: list[int] = []
    push, pop, replace, free, ahead = (
        heapq.heappush,
        heapq.heappop,
        heapq.heapreplace,
        slots.free,
        slots.ahead,
    )
    number = 0
    while ready or number < total:
        now = free[0]
        if not ready and coming[number] > now:
            now = coming[number]
        if now >= ahead[-1]:
            now = slots.settle(now)
        if now == NEVER:
            break
        while number < total and coming[number] <= now:
            push(ready, keys[number])
            number += 1
        one = pop(ready) % total
        found[one] = now
        replace(free, now + lengths[one])
    return np.frombuffer(found)


def starts_limited(
    arrive: Floats, service: Floats, rank: Ints, group: Ints, slots: Slots, limits: Mapping[int, int]
) -> Floats:
    """The same where no more than so many of a group run at once; who is held up by that holds up nobody else."""
    total = len(arrive)
    keys = array("q", (rank * total + np.arange(total)).tobytes())
    coming, lengths = (array("d", one.tobytes()) for one in (arrive, service))
    lines = [GroupLine(limits.get(number, total)) for number in range(int(group.max(initial=-1)) + 1)]
    own = array("q", group.tobytes())
    found = array("d", [NEVER]) * total
    number, left, clock = 0, total, -NEVER
    push, pop = heapq.heappush, heapq.heappop
    while left:
        clock = max(clock, slots.free[0])
        if clock >= slots.ahead[-1]:
            clock = slots.settle(clock)
        if clock == NEVER:
            break
        while number < total and coming[number] <= clock:
            push(lines[own[number]].ready, keys[number])
            number += 1
        line = _first(lines, clock)
        if line is None:
            clock = _next(lines, coming[number] if number < total else NEVER)
            continue
        one = pop(line.ready) % total
        found[one] = clock
        heapq.heapreplace(slots.free, clock + lengths[one])
        if line.limit < total:
            push(line.ends, clock + lengths[one])
        left -= 1
    return np.frombuffer(found)


@dataclass(slots=True)
class GroupLine:
    """Those of one group: who waits, and when each of those that run ends (kept only where there is a limit)."""

    limit: int
    ready: list[int] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)


def _first(lines: Sequence[GroupLine], now: float) -> GroupLine | None:
    """The line whose first may begin now and goes before the others'."""
    best, key = None, 0
    for line in lines:
        if not line.ready or (best is not None and line.ready[0] > key):
            continue
        ends = line.ends
        while ends and ends[0] <= now:
            heapq.heappop(ends)
        if len(ends) < line.limit:
            best, key = line, line.ready[0]
    return best


def _next(lines: Sequence[GroupLine], arrival: float) -> float:
    """When somebody can begin who cannot now: the next arrival, or the end of one whose line waits."""
    return min([arrival, *(line.ends[0] for line in lines if line.ready)])


def largest_backlog(arrive: Floats, begun: Floats) -> tuple[int, float]:
    """How many waited at most, and when that was first; (0, 0) when nobody ever waited."""
    if not len(arrive):
        return 0, 0.0
    order = np.sort(begun)
    waiting = np.arange(1, len(arrive) + 1) - np.searchsorted(order, arrive, side="right")
    most = int(waiting.max())
    return (most, float(arrive[int(waiting.argmax())])) if most > 0 else (0, 0.0)


def empty_after(arrive: Floats, begun: Floats, since: float) -> float | None:
    """The first instant from ``since`` on at which nobody waits; None when somebody waits for ever."""
    order = np.sort(begun)
    if not len(order) or order[-1] <= since:
        return since
    later = order[(order >= since) & (order < NEVER)]
    waiting = np.searchsorted(arrive, later, side="right") - np.searchsorted(order, later, side="right")
    empty = np.flatnonzero(waiting <= 0)
    return float(later[empty[0]]) if len(empty) else None
