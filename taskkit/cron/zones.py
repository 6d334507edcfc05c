"""Time zones as stretches of one UTC offset, and what the local clock repeats or leaves out between them.

Instants are whole seconds since 1970 UTC; local times are whole seconds on the local clock (instant + offset).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from zoneinfo import TZPATH, ZoneInfo

from taskkit.clock import EPOCH

FIRST_YEAR, END_YEAR = 1900, 2100
"""The calendar known here: from the first instant of the one year up to the first of the other, in UTC."""

_DAY_S = 86_400
_MARGIN_S = 2 * _DAY_S  # longer than any shift of a clock (Kwajalein and Apia: one day)


@dataclass(frozen=True)
class Stretch:
    """A time of one UTC offset, with what its neighbours show on the local clock.

    Local times before ``shown_until`` were shown already, those from ``again_from`` on will be shown again;
    ``gap_from`` to ``local_start`` was never shown. Cut at the year's ends, where nothing need change.
    """

    start: int
    end: int
    offset: int
    shown_until: int
    again_from: int
    gap_from: int | None

    @property
    def local_start(self) -> int:
        """The first local time it shows."""
        return self.start + self.offset

    @property
    def local_end(self) -> int:
        """The local time at which it ends, not shown any more."""
        return self.end + self.offset


def tzdata_version() -> str:
    """The version of the time zone data in use: the system's, such as ``2026b``, or the tzdata package's."""
    for folder in TZPATH:
        if found := _system_version(Path(folder)):
            return found
    from importlib.metadata import PackageNotFoundError, version  # a tenth of what a child's start takes

    try:
        return version("tzdata")
    except PackageNotFoundError:
        return "unknown"


def _system_version(folder: Path) -> str | None:
    try:
        with (folder / "tzdata.zi").open(encoding="ascii") as lines:
            found = re.match(r"# version (\S+)", lines.readline())
    except (OSError, ValueError):
        return None
    return found[1] if found else None


def year_start(year: int) -> int:
    """The first instant of a year, in UTC."""
    return (datetime(year, 1, 1, tzinfo=UTC) - EPOCH) // timedelta(seconds=1)


def year_of(instant: int) -> int:
    """The year of an instant, in UTC."""
    return (EPOCH + timedelta(seconds=instant)).year


def stretches(zone: ZoneInfo, first: int, end: int) -> Iterator[Stretch]:
    """The stretches that share an instant with first <= t < end, in order."""
    for year in range(max(year_of(first), FIRST_YEAR), min(year_of(end - 1) + 1, END_YEAR)):
        for stretch in _stretches_of_year(zone, year):
            if stretch.start < end and stretch.end > first:
                yield stretch


@lru_cache(maxsize=2048)
def _stretches_of_year(zone: ZoneInfo, year: int) -> tuple[Stretch, ...]:
    first, end = year_start(year), year_start(year + 1)
    pieces = _pieces(zone, first - _MARGIN_S, end + _MARGIN_S)
    inside = [n for n, (start, stop, _) in enumerate(pieces) if start < end and stop > first]
    return tuple(_stretch(pieces, n, first, end) for n in inside)


def _stretch(pieces: list[tuple[int, int, int]], n: int, first: int, end: int) -> Stretch:
    """Piece n cut to first..end, looking at the pieces before and after it."""
    piece_start, piece_end, offset = pieces[n]
    start, stop = max(piece_start, first), min(piece_end, end)
    shown = max((e + o for _, e, o in pieces[:n]), default=start + offset)
    again = min((s + o for s, _, o in pieces[n + 1 :]), default=stop + offset)
    return Stretch(
        start,
        stop,
        offset,
        shown_until=max(shown, start + offset),
        again_from=min(again, stop + offset),
        gap_from=shown if start == piece_start and shown < start + offset else None,
    )


def _pieces(zone: ZoneInfo, first: int, end: int) -> list[tuple[int, int, int]]:
    """(start, end, offset) of every time of one offset; changes lie days apart, so one look a day finds all."""
    pieces = []
    start, offset = first, _offset(zone, first)
    for day in range(first, end, _DAY_S):
        seen = _offset(zone, day)
        if seen != offset:
            change = _change(zone, day - _DAY_S, day, offset)
            pieces.append((start, change, offset))
            start, offset = change, seen
    return [*pieces, (start, end, offset)]


def _change(zone: ZoneInfo, low: int, high: int, offset: int) -> int:
    """The first instant in low < t <= high that does not have the offset."""
    while high - low > 1:
        middle = (low + high) // 2
        if _offset(zone, middle) == offset:
            low = middle
        else:
            high = middle
    return high


def _offset(zone: ZoneInfo, instant: int) -> int:
    offset = (EPOCH + timedelta(seconds=instant)).astimezone(zone).utcoffset()
    return 0 if offset is None else offset // timedelta(seconds=1)
