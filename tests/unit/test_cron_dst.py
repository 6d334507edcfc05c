"""Clock changes: what the policies do, in ordinary and in odd zones, and how a schedule explains it."""

from __future__ import annotations

import pickle
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

import pytest

from taskkit.cron import Schedule, explain, parse

NEW_YORK = "America/New_York"
SPRING, AUTUMN = datetime(2026, 3, 7, 17, tzinfo=UTC), datetime(2026, 10, 31, 17, tzinfo=UTC)


def fires(schedule: Schedule, after: datetime, hours: float = 24) -> list[str]:
    """The fire times of the hours after an instant, in UTC."""
    found = schedule.between(after, after + timedelta(hours=hours), 1000)
    return [fire.strftime("%d %H:%M") for fire in found]


@pytest.mark.parametrize(
    ("expression", "gap", "right"),
    [
        ("30 2 * * *", "after", ["08 07:00"]),
        ("30 2 * * *", "skip", []),
        ("0,30 2 * * *", "after", ["08 07:00"]),
        ("0 2,3 * * *", "after", ["08 07:00"]),
        ("0 2,3 * * *", "skip", ["08 07:00"]),
        ("30 2,3 * * *", "after", ["08 07:00", "08 07:30"]),
        ("0 30 2 * * *", "after", ["08 07:00"]),
        ("* 30 2 * * *", "after", ["08 07:00"]),
        ("*/30 2 * * *", "after", []),
        ("15 */2 * * *", "after", ["07 17:15", "07 19:15", "07 21:15", "07 23:15", "08 01:15", "08 03:15"]),
    ],
)
def test_a_time_that_does_not_exist(expression: str, gap: str, right: list[str]) -> None:
    schedule = parse(expression, NEW_YORK, gap=gap)
    assert [f for f in fires(schedule, SPRING) if f < "08 05" or "08 06:59" < f < "08 08"] == right


@pytest.mark.parametrize(
    ("expression", "overlap", "right"),
    [
        ("30 1 * * *", "first", ["01 05:30"]),
        ("30 1 * * *", "second", ["01 06:30"]),
        ("30 1 * * *", "both", ["01 05:30", "01 06:30"]),
        ("0 30 1 * * *", "first", ["01 05:30"]),
        ("0,30 1 * * *", "first", ["01 05:00", "01 05:30"]),
        ("0,30 1 * * *", "second", ["01 06:00", "01 06:30"]),
        ("0,30 1 * * *", "both", ["01 05:00", "01 05:30", "01 06:00", "01 06:30"]),
        ("*/30 1 * * *", "first", ["01 05:00", "01 05:30", "01 06:00", "01 06:30"]),
        ("*/30 1 * * *", "second", ["01 05:00", "01 05:30", "01 06:00", "01 06:30"]),
        ("59 0 * * *", "second", ["01 04:59"]),
        ("0 2 * * *", "second", ["01 07:00"]),
    ],
)
def test_a_time_that_comes_twice(expression: str, overlap: str, right: list[str]) -> None:
    assert fires(parse(expression, NEW_YORK, overlap=overlap), AUTUMN) == right


def test_the_copy_that_does_not_count_is_passed_over_from_within_the_repeated_hour() -> None:
    first, second = parse("30 1 * * *", NEW_YORK), parse("30 1 * * *", NEW_YORK, overlap="second")
    between_copies = datetime(2026, 11, 1, 5, 45, tzinfo=UTC)
    assert first.next(between_copies) == datetime(2026, 11, 2, 6, 30, tzinfo=UTC)
    assert second.next(between_copies) == datetime(2026, 11, 1, 6, 30, tzinfo=UTC)


@lru_cache
def existing_dates(zone: str, year: int) -> list[date]:
    """The dates of a year that the zone's clock shows, seen by looking every hour."""
    start = datetime(year, 1, 1, tzinfo=ZoneInfo(zone)).astimezone(UTC)
    hours = (start + timedelta(hours=n) for n in range(367 * 24))
    return sorted({day for hour in hours if (day := hour.astimezone(ZoneInfo(zone)).date()).year == year})


@pytest.mark.parametrize("overlap", ["first", "second"])
@pytest.mark.parametrize("time", ["0 0", "30 0", "15 1", "30 2", "59 23"])
@pytest.mark.parametrize(
    ("zone", "year"),
    [
        (NEW_YORK, 2026),
        ("Europe/Dublin", 2026),
        ("Australia/Lord_Howe", 2026),
        ("Pacific/Chatham", 2026),
        ("Antarctica/Troll", 2026),
        ("Africa/Casablanca", 2026),
        ("Asia/Beirut", 2026),
        ("America/Santiago", 2026),
        ("America/Havana", 2026),
        ("America/St_Johns", 2006),
        ("Pacific/Apia", 2011),
        ("Pacific/Kwajalein", 1993),
        ("Pacific/Kwajalein", 1969),
        ("Africa/Monrovia", 1972),
        ("Asia/Shanghai", 1986),
        ("Asia/Kathmandu", 1986),
    ],
)
def test_a_daily_task_fires_once_on_every_local_date(zone: str, year: int, time: str, overlap: str) -> None:
    schedule, clock = parse(f"{time} * * *", zone, overlap=overlap), ZoneInfo(zone)
    start, end = (datetime(y, 1, 1, tzinfo=clock) for y in (year, year + 1))
    just_before = start - timedelta(seconds=1)
    dates = [fire.astimezone(clock).date() for fire in schedule.between(just_before, end, 400)]
    assert [day for day in dates if day.year == year] == existing_dates(zone, year)


def test_a_date_that_was_left_out_is_made_up_for_only_where_nothing_else_fires() -> None:
    before, end_of_gap = datetime(2011, 12, 29, 20, tzinfo=UTC), datetime(2011, 12, 30, 10, tzinfo=UTC)
    monthly, daily = parse("0 9 30 * *", "Pacific/Apia"), parse("0 9 * * *", "Pacific/Apia")
    assert monthly.next(before) == end_of_gap
    assert daily.next(before) == datetime(2011, 12, 30, 19, tzinfo=UTC)
    assert parse("0 9 30 * *", "Pacific/Apia", gap="skip").next(before).date() == date(2012, 1, 29)


def test_a_gap_up_to_midnight_ends_on_the_next_date() -> None:
    schedule = parse("30 23 * * *", "America/Nuuk")
    assert fires(schedule, datetime(2024, 3, 30, 2, tzinfo=UTC), 48) == ["31 01:00", "01 00:30"]


def test_old_offsets_are_those_of_their_time_and_new_ones_are_whole() -> None:
    monrovia = parse("0 9 * * *", "Africa/Monrovia")
    assert monrovia.next(datetime(1972, 1, 5, tzinfo=UTC)) == datetime(1972, 1, 5, 9, 44, 30, tzinfo=UTC)
    assert monrovia.next(datetime(1972, 1, 7, tzinfo=UTC)) == datetime(1972, 1, 7, 9, tzinfo=UTC)
    shanghai = parse("0 9 * * *", "Asia/Shanghai").upcoming(datetime(1970, 1, 1, tzinfo=UTC), 25_000)
    assert {fire.astimezone(ZoneInfo("Asia/Shanghai")).strftime("%H:%M") for fire in shanghai} == {"09:00"}
    assert {(fire.hour, fire.minute) for fire in shanghai} == {(1, 0), (0, 0)}


def test_years_of_every_second_are_counted_exactly() -> None:
    every_second, every_minute = parse("* * * * * *", NEW_YORK), parse("* * * * *", NEW_YORK)
    start = datetime(2026, 1, 1, tzinfo=UTC)
    assert every_second.latest(start, start + timedelta(days=30)) == (start + timedelta(days=30), 2_592_000)
    assert every_second.latest(start, start + timedelta(days=3652))[1] == 3652 * 86_400
    assert every_minute.latest(start, start + timedelta(days=365))[1] == 525_600


def test_what_is_counted_is_what_fires() -> None:
    start, end = datetime(2026, 2, 20, 3, 4, 5, tzinfo=UTC), datetime(2026, 11, 20, 2, 30, tzinfo=UTC)
    for expression in ("30 1,2 * * *", "0,30 * * * *", "15 10 1-20 * 1", "*/7 2-3 * * *"):
        for overlap in ("first", "second", "both"):
            schedule = parse(expression, NEW_YORK, overlap=overlap)
            found = schedule.between(start, end, 100_000)
            assert schedule.latest(start, end) == (found[-1], len(found))


def test_a_fire_made_up_after_a_gap_is_counted_at_both_edges() -> None:
    schedule, at = parse("30 2 * * *", NEW_YORK), datetime(2026, 3, 8, 7, tzinfo=UTC)
    second = timedelta(seconds=1)
    assert schedule.latest(at - second, at) == (at, 1)
    assert schedule.latest(at, at + second) == (None, 0)
    assert schedule.latest(at - timedelta(minutes=1), at - second) == (None, 0)
    assert schedule.latest(at, at - second) == (None, 0)
    assert schedule.next(at) > at


def test_fractions_of_a_second_do_not_hide_or_repeat_a_fire() -> None:
    schedule, at = parse("* * * * * *"), datetime(2026, 1, 1, 0, 0, 5, tzinfo=UTC)
    tiny = timedelta(microseconds=1)
    assert schedule.next(at - tiny) == at
    assert schedule.next(at + tiny) == schedule.next(at) == at + timedelta(seconds=1)
    assert schedule.between(at - tiny, at, 5) == [at]
    assert schedule.between(at - timedelta(seconds=1), at - tiny, 5) == []


def test_limits_are_kept() -> None:
    schedule, start = parse("* * * * *"), datetime(2026, 1, 1, tzinfo=UTC)
    assert len(schedule.between(start, start + timedelta(days=1), 7)) == 7
    assert schedule.between(start, start + timedelta(days=1), 0) == schedule.upcoming(start, -1) == []
    assert len(parse("0 0 29 2 *").upcoming(datetime(2090, 1, 1, tzinfo=UTC), 9)) == 2


def test_a_schedule_is_a_value() -> None:
    schedule = parse("30 2 * * *", NEW_YORK, gap="skip")
    assert schedule is parse(" 30  2 * * *", NEW_YORK, gap="skip")
    assert schedule != parse("30 2 * * *", NEW_YORK)
    copy = pickle.loads(pickle.dumps(schedule))  # noqa: S301  our own bytes
    assert copy == schedule
    assert copy.next(SPRING) == schedule.next(SPRING)


def test_the_explanation_shows_utc_local_time_and_the_gap() -> None:
    lines = explain("30 2 * * *", NEW_YORK, SPRING - timedelta(days=1), 3)
    assert [line.utc.isoformat() for line in lines] == [
        "2026-03-07T07:30:00+00:00",
        "2026-03-08T07:00:00+00:00",
        "2026-03-09T06:30:00+00:00",
    ]
    assert [line.local.isoformat() for line in lines] == [
        "2026-03-07T02:30:00-05:00",
        "2026-03-08T03:00:00-04:00",
        "2026-03-09T02:30:00-04:00",
    ]
    assert [line.note for line in lines] == [
        "",
        "clock goes forward: 02:30 does not exist, fires at 03:00",
        "",
    ]


@pytest.mark.parametrize(
    ("expression", "zone", "after", "policy", "notes"),
    [
        ("30 1 * * *", NEW_YORK, AUTUMN, {}, ["clock goes back: first of two 01:30", ""]),
        ("30 1 * * *", NEW_YORK, AUTUMN, {"overlap": "second"}, ["clock goes back: second of two 01:30", ""]),
        (
            "30 1 * * *",
            NEW_YORK,
            AUTUMN,
            {"overlap": "both"},
            ["clock goes back: first of two 01:30", "clock goes back: second of two 01:30", ""],
        ),
        (
            "30 2 * * *",
            NEW_YORK,
            SPRING,
            {"gap": "skip"},
            ["clock goes forward: 2026-03-08 02:30 does not exist, left out", ""],
        ),
        ("0 16 * * *", NEW_YORK, AUTUMN, {}, ["", "clock goes back on this day: 02:00 to 01:00", ""]),
        ("0 16 * * *", NEW_YORK, SPRING, {}, ["", "clock goes forward on this day: 02:00 to 03:00", ""]),
        ("0 */3 * * *", "UTC", SPRING, {}, ["", ""]),
        (
            "*/30 0,2,3 * * *",
            NEW_YORK,
            datetime(2026, 3, 8, 6, tzinfo=UTC),
            {},
            [
                "clock goes forward: 02:00 to 02:30 do not exist",
                "clock goes forward on this day: 02:00 to 03:00",
            ],
        ),
        (
            "10 0 2 * * *",
            NEW_YORK,
            SPRING,
            {},
            ["clock goes forward: 02:00:10 does not exist, fires at 03:00", ""],
        ),
        (
            "0 9 * * *",
            "Pacific/Apia",
            datetime(2011, 12, 29, 20, tzinfo=UTC),
            {},
            ["clock goes forward: 2011-12-30 09:00 does not exist, left out", ""],
        ),
        (
            "0 9 30 * *",
            "Pacific/Apia",
            datetime(2011, 12, 29, 20, tzinfo=UTC),
            {},
            ["clock goes forward: 2011-12-30 09:00 does not exist, fires at 00:00", ""],
        ),
    ],
)
def test_the_explanation_marks_what_the_policy_did(
    expression: str, zone: str, after: datetime, policy: dict[str, str], notes: list[str]
) -> None:
    assert [line.note for line in explain(expression, zone, after, len(notes), **policy)] == notes
