"""The time axis: instants are drawn in UTC and read in the window's zone, so that a change of clocks neither folds nor tears."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

import pandas as pd
from matplotlib.axes import Axes

STEPS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200)
STEPS_DAYS = (1, 2, 7, 14, 28, 91, 364)
MOST_TICKS = 9
DAY_S = 86_400


def mark(axes: Axes, since: datetime, until: datetime, zone: str) -> None:
    """Give the axis its limits, its ticks and its label."""
    found = ticks(since, until, zone)
    axes.set_xlim(place(since), place(until))
    axes.set_xticks([place(at) for at, _ in found], [text for _, text in found])
    axes.set_xlabel(f"time ({zone})", loc="right", fontsize=8)


def place(at: object) -> float:
    """Where an instant stands on the axis: days of real time since 1970."""
    return float(pd.Timestamp(at).timestamp()) / DAY_S


def ticks(since: datetime, until: datetime, zone: str) -> list[tuple[datetime, str]]:
    """Instants from since to until with what a clock of the zone says; the offset from UTC where it changes."""
    clock = ZoneInfo(zone)
    length = (until - since).total_seconds()
    step = next((s for s in STEPS_S if length / s <= MOST_TICKS), None)
    found = (
        _by_day(since, until, clock, length) if step is None else list(_of_clock(since, until, clock, step))
    )
    return _named(found, clock, step)


def _of_clock(since: datetime, until: datetime, clock: tzinfo, step: int) -> Iterator[datetime]:
    """Every ``step`` seconds from the beginning of each day on."""
    for day in _days(since, until, clock):
        at, next_day = _midnight(day, clock), _midnight(day + timedelta(days=1), clock)
        while at < next_day:
            if since <= at <= until:
                yield at
            at += timedelta(seconds=step)


def _by_day(since: datetime, until: datetime, clock: tzinfo, length: float) -> list[datetime]:
    step = next((d for d in STEPS_DAYS if length / DAY_S / d <= MOST_TICKS), STEPS_DAYS[-1])
    starts = (_midnight(day, clock) for day in _days(since, until, clock) if day.toordinal() % step == 0)
    return [at for at in starts if since <= at <= until]


def _days(since: datetime, until: datetime, clock: tzinfo) -> Iterator[date]:
    day, last = since.astimezone(clock).date(), until.astimezone(clock).date()
    while day <= last:
        yield day
        day += timedelta(days=1)


def _midnight(day: date, clock: tzinfo) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=clock).astimezone(UTC)


def _named(found: list[datetime], clock: tzinfo, step: int | None) -> list[tuple[datetime, str]]:
    named, before = [], None
    offsets = {at.astimezone(clock).utcoffset() for at in found}
    for at in found:
        local = at.astimezone(clock)
        lines = [] if step is None else [f"{local:%H:%M:%S}" if step < 60 else f"{local:%H:%M}"]
        if before is None or local.date() != before.date():
            lines.append(f"{local.day} {local:%b}")
        if len(offsets) > 1 and (before is None or local.utcoffset() != before.utcoffset()):
            lines.append(local.isoformat()[-6:])
        named.append((at, "\n".join(lines)))
        before = local
    return named
