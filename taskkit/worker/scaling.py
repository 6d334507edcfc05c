"""How many children a worker should have: by Little's law, and with calm. Pure.

Little's law (J. Little, "A proof for the queuing formula L = λW", 1961): on average L = λ · W are in service when λ
arrive a second and each takes W seconds. L is what can be seen, the children that are busy on average; so many keep up
with what arrives. To work off besides what waits within T seconds takes as many more as it is seconds of work, over T:

    wanted = busy + min(waiting · share, waiting · seconds / T)

``seconds`` is the time of a child that a task takes and ``share`` the part of a child that it occupies: for an async task
of 1 s, a hundred of which run in a child at a time, 0.01 s and 0.01. There is never use for more than the tasks can
occupy. The calm is that of the autoscalers of Kubernetes (a tolerance, and a window of stabilisation for going down):
up as soon as two looks in a row want clearly more; down one child at a time, once no look within T' wanted as many.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from math import ceil

TOLERANCE = 0.1
"""More is wanted when the need is a tenth above what there is; fewer, when they would be busy for nine tenths at most."""
SMOOTH = 0.3
STEPS_DOWN = 4
"""A quarter of the calm lies between two children that go."""
MOST_CALM = 8
"""A child that is missed soon after it went makes the next one stay for twice as long, at most for so many times."""
KEEP = 0.98
"""The mean of service times is that of the last fifty tasks or so: what ended longest ago counts least."""
UNKNOWN_SECONDS = 0.1
LONGEST_GAP = 5.0
"""Seconds between two looks, beyond which nobody knows what was wanted meanwhile."""


class ServiceTimes:
    """How long a task occupies a child, by those that ended lately and those that run: all their time over the ended.

    That is the most likely mean of exponential times some of which are still under way: so a long task counts before it
    has ended, and one long among many short ones does not count for all of them.
    """

    def __init__(self) -> None:
        self._ended = self._time = self._parts = 0.0

    def note(self, seconds: float, part: float) -> None:
        """A task has ended that occupied this part of a child for so many seconds."""
        self._ended = self._ended * KEEP + 1
        self._time = self._time * KEEP + seconds * part
        self._parts = self._parts * KEEP + part

    def means(self, running: float, parts: float, count: int) -> tuple[float, float]:
        """Child-seconds and part of a child of a task; what is given is the same of those under way, and their number."""
        if not self._ended:
            return max(running, UNKNOWN_SECONDS), parts / count if count else 1.0
        return (self._time + running) / self._ended, (self._parts + parts) / (self._ended + count)


@dataclass(frozen=True, slots=True)
class Bounds:
    """At least and at most so many children; in how many seconds a backlog is to be worked off; how long the calm is."""

    least: int
    most: int
    backlog_s: float
    calm_s: float


@dataclass(frozen=True, slots=True)
class Demand:
    """What is so at a monotonic second: how many children there are to be, how many are busy, what waits."""

    at: float
    children: int
    busy: float
    waiting: float
    seconds: float
    share: float = 1.0


@dataclass(frozen=True, slots=True)
class Change:
    """How many children there are to be from now on, and why."""

    wanted: int
    why: str


def need(busy: float, look: Demand, backlog_s: float) -> float:
    """How many children the work of this moment could use, as the formula above says."""
    return busy + look.waiting * min(look.share, look.seconds / backlog_s)


class Staffing:
    """Decides look by look; remembers what was needed lately, and what became of the last child that went."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self.calm_s = bounds.calm_s
        self._busy: float | None = None
        self._last: int | None = None
        self._enough: deque[tuple[float, int]] = deque()
        self._looked = self._since = self._changed = self._went = float("-inf")

    def decide(self, look: Demand) -> Change | None:
        """What follows from a look; None to leave it as it is."""
        self._note(look)
        needed = need(self._busy or 0.0, look, self.bounds.backlog_s)
        enough = self._within(ceil(needed / (1 - TOLERANCE)))
        self._enough.append((look.at, enough))
        more = self._within(ceil(needed)) if needed > look.children * (1 + TOLERANCE) else look.children
        wanted, self._last = min(more, look.children if self._last is None else self._last), more
        if wanted > look.children:
            return self._up(look, wanted, needed)
        if look.children > self.bounds.least and self._is_calm(look):
            return self._down(look)
        return None

    def _note(self, look: Demand) -> None:
        """After a gap everything begins anew."""
        if look.at - self._looked > LONGEST_GAP:
            self._enough.clear()
            self._since, self._last, self._busy = look.at, None, None
        self._looked = look.at
        self._busy = look.busy if self._busy is None else self._busy + SMOOTH * (look.busy - self._busy)
        while self._enough and look.at - self._enough[0][0] > self.calm_s:
            self._enough.popleft()

    def _is_calm(self, look: Demand) -> bool:
        """Whether one child fewer was enough for as long as the calm is, and the last change is some time ago."""
        return (
            look.at - self._since >= self.calm_s
            and look.at - self._changed >= self.calm_s / STEPS_DOWN
            and max(enough for _, enough in self._enough) < look.children
        )

    def _up(self, look: Demand, wanted: int, needed: float) -> Change:
        if look.at - self._went <= 2 * self.calm_s:
            self.calm_s = min(2 * self.calm_s, MOST_CALM * self.bounds.calm_s)
        elif look.at - self._went > 2 * MOST_CALM * self.bounds.calm_s:
            self.calm_s = self.bounds.calm_s
        self._changed, self._last = look.at, None
        return Change(
            wanted,
            f"{needed:.1f} are needed: {self._busy:.1f} are busy, and {look.waiting:.0f} tasks wait, "
            f"{look.waiting * look.seconds:.1f} s of work to be done in {self.bounds.backlog_s:g} s",
        )

    def _down(self, look: Demand) -> Change:
        self._changed, self._went, self._last = look.at, look.at, None
        most = max(enough for _, enough in self._enough)
        return Change(look.children - 1, f"{most} were enough for the last {self.calm_s:g} s")

    def _within(self, count: int) -> int:
        return min(max(count, self.bounds.least), self.bounds.most)
