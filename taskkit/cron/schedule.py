"""A schedule: expression, zone and policy, checked by `parse`; it knows its fire times and counts them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property, lru_cache
from itertools import islice
from typing import Literal, NamedTuple, cast
from zoneinfo import ZoneInfo

from taskkit.clock import EPOCH
from taskkit.cron.fields import normalise, refuse
from taskkit.cron.pattern import DAY_S, Pattern
from taskkit.cron.reading import read
from taskkit.cron.zones import END_YEAR, FIRST_YEAR, Stretch, stretches, year_start
from taskkit.errors import CronError
from taskkit.zone import load_zone

Gap = Literal["after", "skip"]
Overlap = Literal["first", "second", "both"]

_FIRST, _END = year_start(FIRST_YEAR), year_start(END_YEAR)


class _Window(NamedTuple):
    """Local times low <= t < high of one offset; ``late``: the instant of a fire made up for after a gap."""

    offset: int
    low: int
    high: int
    late: int | None


@dataclass(frozen=True)
class Schedule:
    """When a periodic task fires; made by `parse`. All instants are aware, UTC and whole seconds."""

    expression: str
    timezone: str
    gap: Gap = "after"
    overlap: Overlap = "first"

    @cached_property
    def pattern(self) -> Pattern:
        """The expression as a calendar of local times."""
        return read(self.expression)

    @cached_property
    def zone(self) -> ZoneInfo:
        """The time zone whose clock the expression speaks of."""
        return load_zone(self.timezone)

    def next(self, after: datetime) -> datetime:
        """The first fire time strictly after an instant; raises CronError when there is none before 2100."""
        found = next(self._fires(second_of(after) + 1, _END), None)
        if found is None:
            refuse(self.expression, f"has no fire time between {after.isoformat()} and {END_YEAR}")
        return _instant(found)

    def upcoming(self, after: datetime, count: int) -> list[datetime]:
        """The first ``count`` fire times strictly after an instant; fewer when the calendar ends."""
        fires = self._fires(second_of(after) + 1, _END)
        return [_instant(found) for found in islice(fires, max(count, 0))]

    def between(self, after: datetime, until: datetime, limit: int) -> list[datetime]:
        """The first ``limit`` fire times in after < t <= until."""
        fires = self._fires(second_of(after) + 1, second_of(until, "until") + 1)
        return [_instant(found) for found in islice(fires, max(limit, 0))]

    def latest(self, after: datetime, until: datetime) -> tuple[datetime | None, int]:
        """The last fire time in after < t <= until, and how many there are; counted, not walked through."""
        last, total = None, 0
        for window in self._windows(second_of(after) + 1, second_of(until, "until") + 1):
            if count := self._count(window):
                last, total = window, total + count
        return (None if last is None else _instant(self._last(last))), total

    def made_up(self, stretch: Stretch) -> bool:
        """Whether the moment at which a gap ends is a fire time in place of those that the gap swallowed."""
        if stretch.gap_from is None or self.pattern.elapsed or self.gap == "skip":
            return False
        own = self.pattern.first(stretch.local_start, stretch.local_start + 1)
        return own is None and self._lost(stretch.gap_from, stretch.local_start)

    def _lost(self, low: int, high: int) -> bool:
        """Whether a gap cost fire times; those of whole dates do not count if the task fires that day anyway."""
        first_whole, after_whole = -(-low // DAY_S), high // DAY_S
        if first_whole >= after_whole:
            return self.pattern.first(low, high) is not None
        ends = ((low, first_whole * DAY_S), (after_whole * DAY_S, high))
        if any(self.pattern.count(*end) for end in ends):
            return True
        return not self.pattern.on(after_whole) and self.pattern.first(low, high) is not None

    def _fires(self, first: int, end: int) -> Iterator[int]:
        """The fire times in first <= t < end, as instants, in order."""
        for window in self._windows(first, end):
            if window.late is not None:
                yield window.late
            local = self.pattern.first(window.low, window.high)
            while local is not None:
                yield local - window.offset
                local = self.pattern.first(local + 1, window.high)

    def _windows(self, first: int, end: int) -> Iterator[_Window]:
        for stretch in stretches(self.zone, first, min(end, _END)):
            low, high = self._counting(stretch)
            late = stretch.start if stretch.start >= first and self.made_up(stretch) else None
            offset = stretch.offset
            yield _Window(offset, max(low, first + offset), min(high, end + offset), late)

    def _counting(self, stretch: Stretch) -> tuple[int, int]:
        """The local times of a stretch that fire: one copy of a repeated one, unless policy or pace wants both."""
        low, high = stretch.local_start, stretch.local_end
        if self.pattern.elapsed or self.overlap == "both":
            return low, high
        return (stretch.shown_until, high) if self.overlap == "first" else (low, stretch.again_from)

    def _count(self, window: _Window) -> int:
        return self.pattern.count(window.low, window.high) + (window.late is not None)

    def _last(self, window: _Window) -> int:
        local = self.pattern.last(window.low, window.high)
        return cast("int", window.late) if local is None else local - window.offset


def parse(
    expression: str,
    timezone: str = "UTC",
    *,
    gap: str = "after",
    overlap: str = "first",
    after: datetime | None = None,
) -> Schedule:
    """Check an expression, a zone and a policy; raises CronError, whose field names what is wrong.

    An expression that can never fire is refused, with ``after`` also one that does not fire after that instant.
    An ``H`` is refused too: `resolve_hash` first. Schedules are cached, so parsing again costs next to nothing.
    """
    if not isinstance(timezone, str):
        raise CronError("timezone", f"must be text, not {type(timezone).__name__}")
    schedule = _parse(normalise(expression), timezone, gap, overlap)
    if after is not None:
        schedule.next(after)
    return schedule


@lru_cache(maxsize=4096)
def _parse(normalised: str, timezone: str, gap: str, overlap: str) -> Schedule:
    _check_choice("dst_gap", gap, ("after", "skip"))
    _check_choice("dst_overlap", overlap, ("first", "second", "both"))
    schedule = Schedule(normalised, timezone, cast("Gap", gap), cast("Overlap", overlap))
    load_zone(timezone)
    if schedule.pattern.first(0, _END) is None:
        refuse(normalised, "never fires: no such day comes in any year; check day-of-month against month")
    return schedule


def _check_choice(field: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise CronError(field, f"{str(value)[:40]!a} is not a choice; write {' or '.join(choices)}")


def second_of(instant: datetime, field: str = "after") -> int:
    """The whole second of an aware instant, cut down, at most the calendar's end; before 1900 is refused."""
    if not isinstance(instant, datetime) or instant.utcoffset() is None:
        raise CronError(
            field, f"{str(instant)[:40]!a} has no time zone; pass an aware datetime such as datetime.now(UTC)"
        )
    second = (instant - EPOCH) // timedelta(seconds=1)
    if second < _FIRST:
        raise CronError(field, f"{instant} lies before {FIRST_YEAR}")
    return min(second, _END)


def _instant(second: int) -> datetime:
    return (EPOCH + timedelta(seconds=second)).astimezone(UTC)
