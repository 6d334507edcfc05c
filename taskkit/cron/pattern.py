"""The calendar of an expression: which local times match, found and counted by arithmetic, without a zone.

Local times are whole seconds since 1970-01-01 00:00 on the local clock; days are counted from that date.
"""

from __future__ import annotations

import calendar
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from functools import lru_cache

DAY_S = 86_400
_EPOCH_DAY = date(1970, 1, 1).toordinal()
LAST = "l"
"""The last day of a month, or the last weekday of its kind in it."""
Value = int | str


def day_of(day: int) -> date:
    """The date of a day counted from 1970-01-01."""
    return date.fromordinal(day + _EPOCH_DAY)


@dataclass(frozen=True, eq=False)
class Times:
    """The times of day of an expression, by rank: every matching hour with every minute and second."""

    hours: Sequence[int]
    minutes: Sequence[int]
    seconds: Sequence[int]

    def __len__(self) -> int:
        return len(self.hours) * len(self.minutes) * len(self.seconds)

    def rank(self, second_of_day: int) -> int:
        """How many matching times of a day come before this one."""
        minute_of_day, second = divmod(second_of_day, 60)
        hour, minute = divmod(minute_of_day, 60)
        h, in_hour = _place(self.hours, hour)
        m, in_minute = _place(self.minutes, minute) if in_hour else (0, False)
        s = bisect_left(self.seconds, second) if in_minute else 0
        return (h * len(self.minutes) + m) * len(self.seconds) + s

    def at(self, rank: int) -> int:
        """The matching second of day that ``rank`` others precede."""
        rest, s = divmod(rank, len(self.seconds))
        h, m = divmod(rest, len(self.minutes))
        return self.hours[h] * 3600 + self.minutes[m] * 60 + self.seconds[s]


def _place(values: Sequence[int], value: int) -> tuple[int, bool]:
    place = bisect_left(values, value)
    return place, place < len(values) and values[place] == value


@dataclass(frozen=True, eq=False)
class Days:
    """The days of an expression; ``both`` tells whether day-of-month and day-of-week must both match."""

    months: frozenset[int]
    days: frozenset[Value]
    weekdays: frozenset[int]
    nth: frozenset[tuple[int, Value]]
    both: bool

    def match(self, day: int, weekday: int, last: int) -> bool:
        """Whether a day matches in a month of ``last`` days; weekday 0 is Sunday."""
        of_month = day in self.days or (day == last and LAST in self.days)
        of_week = weekday in self.weekdays or self._match_nth(day, weekday, last)
        return (of_month and of_week) if self.both else (of_month or of_week)

    def _match_nth(self, day: int, weekday: int, last: int) -> bool:
        nth = (weekday, (day + 6) // 7) in self.nth
        return nth or (day + 7 > last and (weekday, LAST) in self.nth)


@lru_cache(maxsize=16_384)
def days_in(days: Days, year: int, month: int) -> tuple[int, ...]:
    """The matching days of one month, ascending."""
    if month not in days.months:
        return ()
    first, last = calendar.monthrange(year, month)
    return tuple(day for day in range(1, last + 1) if days.match(day, (first + day) % 7, last))


@dataclass(frozen=True, eq=False)
class Pattern:
    """An expression as a set of local times; ``elapsed``: it follows elapsed time through clock changes."""

    times: Times
    days: Days
    elapsed: bool

    def first(self, low: int, high: int) -> int | None:
        """The first matching local time in low <= t < high."""
        stop = -(-high // DAY_S)
        day, second = divmod(low, DAY_S)
        found = self._first_day(day, stop)
        rank = self.times.rank(second) if found == day else 0
        if rank == len(self.times):
            found, rank = self._first_day(day + 1, stop), 0
        at = high if found is None else found * DAY_S + self.times.at(rank)
        return at if at < high else None

    def last(self, low: int, high: int) -> int | None:
        """The last matching local time in low <= t < high."""
        day, second = divmod(high, DAY_S)
        found = self._last_day(low // DAY_S, day + 1)
        rank = self.times.rank(second) if found == day else len(self.times)
        if rank == 0:
            found, rank = self._last_day(low // DAY_S, day), len(self.times)
        at = low - 1 if found is None else found * DAY_S + self.times.at(rank - 1)
        return at if at >= low else None

    def count(self, low: int, high: int) -> int:
        """How many matching local times there are in low <= t < high."""
        if high <= low:
            return 0
        first_day, second = divmod(low, DAY_S)
        last_day, end = divmod(high, DAY_S)
        whole = self._count_days(first_day, last_day) * len(self.times)
        before = self.times.rank(second) if self.on(first_day) else 0
        return whole - before + (self.times.rank(end) if self.on(last_day) else 0)

    def on(self, day: int) -> bool:
        """Whether anything matches on this day."""
        date_ = day_of(day)
        return date_.day in days_in(self.days, date_.year, date_.month)

    def _first_day(self, day: int, stop: int) -> int | None:
        while day < stop:
            date_ = day_of(day)
            days = days_in(self.days, date_.year, date_.month)
            place = bisect_left(days, date_.day)
            if place < len(days):
                return day + days[place] - date_.day
            day += _rest_of_month(date_)
        return None

    def _last_day(self, start: int, stop: int) -> int | None:
        day = stop - 1
        while day >= start:
            date_ = day_of(day)
            days = days_in(self.days, date_.year, date_.month)
            place = bisect_left(days, date_.day + 1)
            if place:
                return day - date_.day + days[place - 1]
            day -= date_.day
        return None

    def _count_days(self, day: int, stop: int) -> int:
        total = 0
        while day < stop:
            date_ = day_of(day)
            days = days_in(self.days, date_.year, date_.month)
            rest = min(_rest_of_month(date_), stop - day)
            total += bisect_left(days, date_.day + rest) - bisect_left(days, date_.day)
            day += rest
        return total


def _rest_of_month(date_: date) -> int:
    """Days from this one to the end of its month, itself included."""
    return calendar.monthrange(date_.year, date_.month)[1] - date_.day + 1
