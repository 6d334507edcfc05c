"""Fire times against two independent answers: a walk through every minute with zoneinfo, and cronsim."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim
from hypothesis import given, settings
from hypothesis import strategies as st

from taskkit.cron import parse

WINDOWS = [
    ("America/New_York", "2026-03-07"),
    ("America/New_York", "2026-10-31"),
    ("Europe/Berlin", "2026-03-28"),
    ("Europe/Dublin", "2026-10-24"),
    ("Australia/Lord_Howe", "2026-04-04"),
    ("Australia/Lord_Howe", "2026-10-03"),
    ("Pacific/Chatham", "2026-09-26"),
    ("Antarctica/Troll", "2026-10-24"),
    ("Asia/Kathmandu", "2026-02-28"),
    ("UTC", "2028-02-28"),
]
NOT_ON_THE_HOUR = (
    "Australia/Lord_Howe",
    "Pacific/Chatham",
)  # cronsim goes by whole hours and misses one here
AT_MIDNIGHT = [
    ("America/Nuuk", "2024-03-30"),
    ("America/Nuuk", "2024-10-26"),
    ("Asia/Beirut", "2026-03-28"),
    ("America/Santiago", "2026-09-05"),
    ("America/Santiago", "2026-04-04"),
    ("America/Havana", "2026-10-31"),
    ("America/St_Johns", "2006-10-28"),
    ("America/Sao_Paulo", "2018-11-03"),
    ("America/Scoresbysund", "2024-03-30"),
]
LENGTH = timedelta(days=2)


class Wanted(NamedTuple):
    """An expression with the values its fields mean, known without any parser."""

    text: tuple[str, ...]
    values: tuple[frozenset[int], ...]

    def on(self, local: datetime) -> bool:
        minutes, hours, days, months, weekdays = self.values
        if local.minute not in minutes or local.hour not in hours or local.month not in months:
            return False
        checks = (local.day in days, local.isoweekday() % 7 in weekdays)
        return all(checks) if self.text[2][0] == "*" or self.text[4][0] == "*" else any(checks)

    @property
    def elapsed(self) -> bool:
        return self.text[0][0] == "*" or self.text[1][0] == "*"


def a_field(low: int, high: int) -> st.SearchStrategy[tuple[str, frozenset[int]]]:
    """Text of one field and its values: star, step, list, range, range with step."""
    values = st.integers(low, high)
    steps = st.integers(1, high - low + 1)
    lists = st.lists(values, min_size=1, max_size=3)
    spans = st.tuples(values, values).map(sorted).filter(lambda span: span[0] < span[1])
    stepped = spans.flatmap(lambda span: st.tuples(st.just(span), st.integers(1, span[1] - span[0] + 1)))
    return st.one_of(
        st.just(("*", frozenset(range(low, high + 1)))),
        steps.map(lambda n: (f"*/{n}", frozenset(range(low, high + 1, n)))),
        lists.map(lambda found: (",".join(map(str, found)), frozenset(found))),
        spans.map(lambda span: (f"{span[0]}-{span[1]}", frozenset(range(span[0], span[1] + 1)))),
        stepped.map(lambda s: (f"{s[0][0]}-{s[0][1]}/{s[1]}", frozenset(range(s[0][0], s[0][1] + 1, s[1])))),
    )


def any_day(low: int, high: int) -> st.SearchStrategy[tuple[str, frozenset[int]]]:
    """Mostly a star, so that days with clock changes match."""
    star = st.just(("*", frozenset(range(low, high + 1))))
    return st.one_of(star, star, star, a_field(low, high))


LATE = st.sampled_from(
    [("23", frozenset([23])), ("22-23", frozenset([22, 23])), ("0,23", frozenset([0, 23]))]
)
EXPRESSIONS = st.tuples(
    a_field(0, 59),
    st.one_of(a_field(0, 23), st.integers(0, 3).map(lambda hour: (str(hour), frozenset([hour]))), LATE),
    any_day(1, 31),
    st.just(("*", frozenset(range(1, 13)))),
    any_day(0, 6),
).map(lambda fields: Wanted(tuple(text for text, _ in fields), tuple(values for _, values in fields)))


@lru_cache(maxsize=64)
def minutes(zone: str, day: str) -> tuple[tuple[datetime, datetime], ...]:
    """Every minute of a window: the instant and what the local clock shows."""
    start, clock = window(zone, day)[0], ZoneInfo(zone)
    instants = (start + timedelta(minutes=n) for n in range(1, LENGTH // timedelta(minutes=1) + 1))
    return tuple((instant, instant.astimezone(clock).replace(tzinfo=None)) for instant in instants)


@lru_cache(maxsize=64)
def shown(zone: str, day: str) -> tuple[tuple[datetime, tuple[datetime, ...], datetime], ...]:
    """Every local minute around a window: its instants (none, one or two), and the first instant from there on."""
    found: dict[datetime, list[datetime]] = {}
    for instant, local in minutes(zone, day):
        found.setdefault(local, []).append(instant)
    first, last = min(found), max(found)
    locals_ = [first + timedelta(minutes=n) for n in range((last - first) // timedelta(minutes=1) + 1)]
    answer, following = [], found[last][0]
    for local in reversed(locals_):
        following = found.get(local, [following])[0]
        answer.append((local, tuple(found.get(local, ())), following))
    return tuple(answer)


def window(zone: str, day: str) -> tuple[datetime, datetime]:
    """From local noon of a day on; clocks do not change near its ends."""
    start = datetime.fromisoformat(f"{day}T12:00").replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)
    return start, start + LENGTH


def walked(wanted: Wanted, zone: str, day: str, gap: str, overlap: str) -> list[datetime]:
    """The fire times of a window by looking at every single minute."""
    if wanted.elapsed:
        return [instant for instant, local in minutes(zone, day) if wanted.on(local)]
    fires = set()
    for local, instants, following in shown(zone, day):
        if not wanted.on(local):
            continue
        if not instants:
            fires |= {following} if gap == "after" else set()
        else:
            fires |= {"first": {instants[0]}, "second": {instants[-1]}, "both": set(instants)}[overlap]
    return sorted(fires)


@settings(max_examples=300, deadline=None)
@given(
    EXPRESSIONS,
    st.sampled_from(WINDOWS + AT_MIDNIGHT),
    st.sampled_from(["after", "skip"]),
    st.sampled_from(["first", "second", "both"]),
    st.integers(0, LENGTH // timedelta(seconds=1)),
)
def test_fire_times_are_those_of_a_walk_through_every_minute(
    wanted: Wanted, zone_and_day: tuple[str, str], gap: str, overlap: str, offset: int
) -> None:
    right = walked(wanted, *zone_and_day, gap, overlap)
    start, end = window(*zone_and_day)
    schedule = parse(" ".join(wanted.text), zone_and_day[0], gap=gap, overlap=overlap)
    assert schedule.between(start, end, 10_000) == right
    somewhere = start + timedelta(seconds=offset)
    later, earlier = [t for t in right if t > somewhere], [t for t in right if t <= somewhere]
    assert schedule.next(somewhere) == later[0] if later else schedule.next(somewhere) > end
    assert schedule.latest(somewhere, end) == (later[-1] if later else None, len(later))
    assert schedule.latest(start, somewhere) == (earlier[-1] if earlier else None, len(earlier))


@settings(max_examples=60, deadline=None)
@given(EXPRESSIONS, st.sampled_from([window for window in WINDOWS if window[0] not in NOT_ON_THE_HOUR]))
def test_cronsim_agrees_around_clock_changes(wanted: Wanted, zone_and_day: tuple[str, str]) -> None:
    zone, day = zone_and_day
    start, end = window(zone, day)
    assert parse(" ".join(wanted.text), zone).between(start, end, 10_000) == simulated(
        wanted.text, zone, start, end
    )


def simulated(text: tuple[str, ...], zone: str, start: datetime, end: datetime) -> list[datetime]:
    found = set()
    for fire in CronSim(" ".join(text), start.astimezone(ZoneInfo(zone))):
        if fire.astimezone(UTC) > end:
            break
        found.add(fire.astimezone(UTC))
    return sorted(found)


@pytest.mark.parametrize("zone", ["UTC", "Asia/Shanghai", "America/New_York"])
@pytest.mark.parametrize(
    "expression",
    [
        "0 9 L * *",
        "0 9 7,14,21,L * *",
        "0 9 * * 5L",
        "0 9 * * 1#2",
        "0 9 * * MON#1,WED#3",
        "0 9 13 * FRI",
        "0 9 */2 * 1",
        "0 9 31 * *",
        "0 9 29 2 *",
        "0 9 1-7 JAN,JUL MON-FRI",
        "0 9 1 */5 *",
        "15,45 9-17/2 * * 1-5",
        "30 2 * * 0",
        "0 9 * * 7",
        "0 9 L 2 1",
        "5-55/10 23 1,15 * *",
    ],
)
def test_cronsim_agrees_over_three_years(expression: str, zone: str) -> None:
    start = datetime(2026, 1, 1, 12, tzinfo=UTC)
    end = start + timedelta(days=1100)
    right = simulated(tuple(expression.split()), zone, start, end)
    schedule = parse(expression, zone)
    assert schedule.between(start, end, 10_000) == right
    assert schedule.latest(start, end) == (right[-1] if right else None, len(right))
