"""How many tasks of a queue or of a key may run at once, and how many may start in a time: pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from math import ceil

import msgspec

from taskkit.clock import EPOCH
from taskkit.errors import InputError
from taskkit.names import check_name, check_whole

ANY = "*"
"""At the end of a limit's name: each queue or key that begins so has a limit of its own."""
OVER = "over a limit: "
"""How the reason of a task begins that is held by a limit."""
MOST = 1_000_000
LONGEST_PERIOD = 86_400
OLD_S, LATE_S = 4.0, 5.0
"""A process that has not looked what is set for 4 s looks before it dispatches. So what is dispatched more than 5 s
after a limit was set has gone by it."""
STEPS = 200
"""Starts are remembered to a 200th of the period, by the last one of each."""
CATCH_UP = 10
"""After a delay of the grantor, starts of a tenth of the period are made up for."""
UNITS = {"s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400}
RATE = re.compile(r"(?P<rate>\d+)\s*/\s*(?P<count>\d*)\s*(?P<unit>s|sec|m|min|h|d)")
PLACES = re.compile(r"\{(\w+)\}")


class Scope(StrEnum):
    """What a limit is about: the tasks with a ``limit_key``, or those of a queue."""

    KEY = "key"
    QUEUE = "queue"


@dataclass(frozen=True, slots=True)
class Limit:
    """At most ``concurrency`` at once, and at most ``rate`` starts in any ``period`` seconds; None is no limit.

    ``since`` is the instant at which it was first set.
    """

    scope: Scope
    name: str
    concurrency: int | None = None
    rate: int | None = None
    period: int = 1
    since: datetime | None = None

    def __str__(self) -> str:
        return f"{self.scope} {self.name}"

    @property
    def bounds(self) -> tuple[str, str]:
        """From which name on, and up to which, it may be about a queue or key."""
        start = self.name.removesuffix(ANY)
        return start, start + ("\x01" if start == self.name else "\U0010ffff")

    @property
    def terms(self) -> str:
        """``5 at once, 100/s``."""
        told = [] if self.concurrency is None else [f"{self.concurrency} at once"]
        return ", ".join(told + ([] if self.rate is None else [shown_rate(self.rate, self.period)]))


def make_limit(
    *, queue: str | None, key: str | None, concurrency: int | None = None, rate: str | None = None
) -> Limit:
    """A limit as a person states it; raises InputError that names what is wrong."""
    scope, name = named(queue=queue, key=key)
    if concurrency is None and rate is None:
        raise InputError("concurrency", "give it, or rate, or both; without either there is no limit")
    if concurrency is not None:
        check_whole(concurrency, "concurrency", 1, MOST)
    starts, period = (None, 1) if rate is None else parse_rate(rate)
    return Limit(scope, name, concurrency, starts, period)


def named(*, queue: str | None, key: str | None) -> tuple[Scope, str]:
    """Which limit is meant; raises InputError unless it is exactly one."""
    if (queue is None) == (key is None):
        raise InputError("queue", "name either a queue or a key")
    if queue is not None:
        return Scope.QUEUE, check_name(queue, "queue")
    return Scope.KEY, check_name(key, "key", 190)


def parse_rate(text: object) -> tuple[int, int]:
    """``100/s``, ``30/10s``, ``5000/h`` as starts and seconds; raises InputError."""
    found = RATE.fullmatch(text.strip().lower()) if isinstance(text, str) else None
    if found is None:
        raise InputError("rate", f"must be like 100/s, 600/min, 5000/h or 30/10s, not {text!r}")
    rate = check_whole(int(found["rate"]), "rate", 1, MOST)
    period = int(found["count"] or 1) * UNITS[found["unit"]]
    if not 1 <= period <= LONGEST_PERIOD:
        raise InputError("rate", f"its period must be from 1 second to 1 day, not {period} s")
    return rate, period


def shown_rate(rate: int, period: int) -> str:
    """A rate as :func:`parse_rate` reads it."""
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60)):
        if period % length == 0:
            count = period // length
            return f"{rate}/{'' if count == 1 else count}{unit}"
    return f"{rate}/{'' if period == 1 else period}s"


def check_limit_key(value: object) -> str:
    """A key that a task may carry; a ``*`` at its end would read like a limit for many keys."""
    key = check_name(value, "limit_key", 190)
    if key.endswith(ANY):
        raise InputError("limit_key", f"must not end with {ANY}: {key!r}")
    return key


def fill_key(template: str, payload: object) -> str:
    """A handler's ``limit_key`` with the payload's values in it: ``customer:{customer_id}``."""

    def value(place: re.Match[str]) -> str:
        found = payload.get(place[1]) if isinstance(payload, dict) else None
        if isinstance(found, bool) or not isinstance(found, int | str) or found == "":
            raise InputError(
                "limit_key", f"{template!r} needs {place[1]} to be text or a whole number, not {found!r}"
            )
        return str(found)

    return PLACES.sub(value, template)


class LimitBook:
    """All limits that are set, and which of them is about a queue or a key: its own one, else the closest ``…*``."""

    def __init__(self, limits: Iterable[Limit] = (), as_of: datetime | None = None) -> None:
        self.as_of = as_of
        """The database's clock when they were read."""
        self._exact: dict[tuple[Scope, str], Limit] = {}
        self._open: list[Limit] = []
        for limit in limits:
            if limit.name.endswith(ANY):
                self._open.append(limit)
            self._exact[limit.scope, limit.name] = limit
        self._open.sort(key=lambda limit: -len(limit.name))
        self.newest = max((limit.since for limit in self if limit.since is not None), default=None)
        """When the newest limit was set."""

    def __iter__(self) -> Iterator[Limit]:
        return iter(self._exact.values())

    def __bool__(self) -> bool:
        return bool(self._exact)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LimitBook) and self._exact == other._exact

    __hash__ = None  # type: ignore[assignment]

    def is_old(self, now: datetime) -> bool:
        """Whether it is too old to dispatch by: others do not expect somebody to go by it any more."""
        return self.as_of is not None and now - self.as_of > timedelta(seconds=OLD_S)

    def find(self, scope: Scope, name: str | None) -> Limit | None:
        """The limit of a queue, or of a key; a task without a key has none of a key."""
        if not name:
            return None
        exact = self._exact.get((scope, name))
        if exact is not None:
            return exact
        return next((x for x in self._open if x.scope is scope and name.startswith(x.name[:-1])), None)

    def covers(self, queue: str, key: str | None) -> bool:
        """Whether tasks of this queue with this key have any limit."""
        return self.find(Scope.KEY, key) is not None or self.find(Scope.QUEUE, queue) is not None


@dataclass(slots=True)
class Starts:
    """The starts of the last period under one limit, in microseconds since 1970, each step's at its last instant.

    ``next_at`` is when the next one is due at an even pace.
    """

    counts: list[tuple[int, int]] = field(default_factory=list)
    next_at: float = 0.0

    @classmethod
    def decode(cls, text: str | None) -> Starts:
        """What :meth:`encode` wrote; nothing is known where nothing was, or something else, was written."""
        try:
            counts, next_at = msgspec.json.decode(text or "", type=tuple[list[tuple[int, int]], float])
        except msgspec.DecodeError:
            return cls()
        return cls(counts, next_at)

    def encode(self) -> str:
        """As JSON."""
        return msgspec.json.encode((self.counts, self.next_at)).decode()

    def room(self, limit: Limit, now: datetime) -> int:
        """How many may start now: as the pace has it, and never more than the rate in any period."""
        if limit.rate is None:
            return MOST
        at, step = _micros(now), _period(limit) / limit.rate
        due = int((at - self._base(limit, at)) // step) + 1
        return max(0, min(due, limit.rate - sum(count for _, count in self._known(limit, at))))

    def take(self, limit: Limit, now: datetime, count: int) -> None:
        """So many start now."""
        if limit.rate is None or not count:
            return
        at, period = _micros(now), _period(limit)
        self.next_at = self._base(limit, at) + count * period / limit.rate
        known, width = self._known(limit, at), max(1, period // STEPS)
        if known and known[-1][0] // width == at // width:
            count += known.pop()[1]
        self.counts = [*known, (at, count)]

    def next(self, limit: Limit, now: datetime) -> datetime:
        """When the next one may start, if none starts before."""
        at = _micros(now)
        due = self._base(limit, at)
        over = sum(count for _, count in self._known(limit, at)) - (limit.rate or MOST) + 1
        for then, count in self._known(limit, at):
            if over <= 0:
                break
            over, due = over - count, max(due, then + _period(limit))
        return EPOCH + timedelta(microseconds=ceil(due))

    def _base(self, limit: Limit, at: int) -> float:
        """When the next start is due; what was missed for longer than the catch-up is lost."""
        period = _period(limit)
        ahead = at + period  # a clock that was set back must not stop everything
        return self.next_at if at - period / CATCH_UP < self.next_at <= ahead else at - period / CATCH_UP

    def _known(self, limit: Limit, at: int) -> list[tuple[int, int]]:
        period = _period(limit)
        return [(then, count) for then, count in self.counts if at - period < then <= at + period]


def _micros(value: datetime) -> int:
    return (value - EPOCH) // timedelta(microseconds=1)


def _period(limit: Limit) -> int:
    return limit.period * 1_000_000
