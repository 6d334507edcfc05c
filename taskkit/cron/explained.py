"""A schedule explained: its next fire times in UTC and local time, with what clock changes do to them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from taskkit.cron.pattern import DAY_S, day_of
from taskkit.cron.schedule import Schedule, parse, second_of
from taskkit.cron.zones import Stretch, stretches


@dataclass(frozen=True)
class Explained:
    """One fire time; ``note`` is empty unless a clock change falls on its day or since the one before."""

    utc: datetime
    local: datetime
    note: str


def explain(
    expression: str,
    timezone: str,
    after: datetime,
    count: int,
    *,
    gap: str = "after",
    overlap: str = "first",
) -> list[Explained]:
    """The next fire times strictly after an instant, with notes; raises CronError like `parse`."""
    schedule = parse(expression, timezone, gap=gap, overlap=overlap)
    fires = schedule.upcoming(after, count)
    return [_explained(schedule, *pair) for pair in pairwise([after, *fires])]


def _explained(schedule: Schedule, previous: datetime, fire: datetime) -> Explained:
    at = second_of(fire)
    notes = _left_out(schedule, second_of(previous) + 1, at)
    notes += _of_fire(schedule, at) or ([] if notes else _of_day(schedule, at))
    return Explained(fire, fire.astimezone(schedule.zone), "; ".join(notes))


def _left_out(schedule: Schedule, first: int, at: int) -> list[str]:
    """The local times that gaps swallowed in first..at with no fire time in their place."""
    found = [
        s for s in stretches(schedule.zone, first, at + 1) if s.start >= first and not schedule.made_up(s)
    ]
    today = _local(schedule, at) // DAY_S
    notes = [_lost(schedule, stretch, today) for stretch in found]
    end = "" if schedule.pattern.elapsed else ", left out"
    return [f"clock goes forward: {note}{end}" for note in notes if note]


def _of_fire(schedule: Schedule, at: int) -> list[str]:
    """What the policy did to this very fire time."""
    stretch = next(stretches(schedule.zone, at, at + 1))
    local = at + stretch.offset
    if at == stretch.start and schedule.made_up(stretch):
        return [f"clock goes forward: {_lost(schedule, stretch, local // DAY_S)}, fires at {_clock(local)}"]
    if local < stretch.shown_until:
        return [f"clock goes back: second of two {_clock(local)}"]
    if local >= stretch.again_from:
        return [f"clock goes back: first of two {_clock(local)}"]
    return []


def _of_day(schedule: Schedule, at: int) -> list[str]:
    """The clock changes on the local day of a fire time that they do not touch."""
    near = list(stretches(schedule.zone, at - 2 * DAY_S, at + 2 * DAY_S))
    today = _local(schedule, at) // DAY_S
    changes = [(s.start + before.offset, s.local_start) for before, s in pairwise(near)]
    return [
        f"clock goes {'forward' if old < new else 'back'} on this day: {_clock(old)} to {_clock(new)}"
        for old, new in changes
        if old != new and min(old, new) // DAY_S <= today <= (max(old, new) - 1) // DAY_S
    ]


def _lost(schedule: Schedule, stretch: Stretch, today: int) -> str:
    """The matching local times in the gap before a stretch: ``02:30 does not exist``; empty if there are none."""
    low, high = stretch.gap_from, stretch.local_start
    if low is None or (first := schedule.pattern.first(low, high)) is None:
        return ""
    last = schedule.pattern.last(low, high)
    date = "" if first // DAY_S == today else f"{day_of(first // DAY_S)} "
    if last is None or last == first:
        return f"{date}{_clock(first)} does not exist"
    return f"{date}{_clock(first)} to {_clock(last)} do not exist"


def _local(schedule: Schedule, at: int) -> int:
    return at + next(stretches(schedule.zone, at, at + 1)).offset


def _clock(local: int) -> str:
    """A local time as people read it: ``02:30``, with seconds only where there are some."""
    minutes, second = divmod(local % DAY_S, 60)
    hour, minute = divmod(minutes, 60)
    return f"{hour:02}:{minute:02}" + (f":{second:02}" if second else "")
