"""Fire times that went wrong elsewhere, with the exact instants that are right."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from taskkit.cron import parse
from taskkit.errors import CronError

DST = [
    pytest.param(
        "30 2 * * *",
        "America/New_York",
        "2026-03-06T17:00Z",
        "03-07T07:30 03-08T07:00 03-09T06:30 03-10T06:30 03-11T06:30",
        id="fixed time in the gap",
    ),
    pytest.param(
        "5 2 * * *",
        "Europe/Berlin",
        "2026-03-28T00:00Z",
        "03-28T01:05 03-29T01:00 03-30T00:05 03-31T00:05",
        id="fixed time in Berlin's gap",
    ),
    pytest.param(
        "0 16 * * *",
        "America/New_York",
        "2026-03-06T22:00Z",
        "03-07T21:00 03-08T20:00 03-09T20:00 03-10T20:00",
        id="far from the gap",
    ),
    pytest.param(
        "30 1 * * *",
        "America/New_York",
        "2026-10-30T16:00Z",
        "10-31T05:30 11-01T05:30 11-02T06:30 11-03T06:30 11-04T06:30",
        id="fixed time in the repeated hour",
    ),
    pytest.param(
        "0 * * * *",
        "America/New_York",
        "2026-11-01T03:30Z",
        "11-01T04:00 11-01T05:00 11-01T06:00 11-01T07:00 11-01T08:00",
        id="every hour through the repeated one",
    ),
    pytest.param(
        "*/20 * * * *",
        "America/New_York",
        "2026-11-01T05:30Z",
        "11-01T05:40 11-01T06:00 11-01T06:20 11-01T06:40 11-01T07:00",
        id="a step through the repeated hour",
    ),
    pytest.param(
        "*/30 * * * *",
        "Australia/Lord_Howe",
        "2026-04-04T13:45Z",
        "04-04T14:00 04-04T14:30 04-04T15:00 04-04T15:30 04-04T16:00",
        id="a step through half an hour repeated",
    ),
]

MONTH_ENDS = [
    ("0 0 31 * *", "UTC", "2026-01-01T00:00Z", "01-31T00 03-31T00 05-31T00 07-31T00 08-31T00"),
    ("0 0 30 * *", "UTC", "2026-01-30T00:00Z", "03-30T00 04-30T00 05-30T00 06-30T00 07-30T00"),
    ("0 0 L * *", "UTC", "2027-01-15T00:00Z", "01-31T00 02-28T00 03-31T00 04-30T00 05-31T00"),
    ("0 0 7,14,21,L * *", "UTC", "2026-02-06T00:00Z", "02-07T00 02-14T00 02-21T00 02-28T00 03-07T00"),
    ("0 0 L * *", "Asia/Shanghai", "2026-02-27T15:59Z", "02-27T16 03-30T16 04-29T16"),
    ("0 0 1 */5 *", "UTC", "2026-01-01T00:00Z", "06-01T00 11-01T00 01-01T00 06-01T00 11-01T00"),
    ("0 0 29 2 *", "UTC", "2026-01-01T00:00Z", "02-29T00 02-29T00"),
]

DAY_OR_WEEKDAY = [
    ("0 12 13 * 5", "2026-01-01T00:00Z", "01-02T12 01-09T12 01-13T12 01-16T12 01-23T12"),
    ("48 14 31 6 0", "2026-06-01T00:00Z", "06-07T14:48 06-14T14:48 06-21T14:48"),
    ("0 0 30 2 1", "2026-01-01T00:00Z", "02-02T00 02-09T00 02-16T00"),
    ("0 12 */2 * 1", "2026-01-01T00:00Z", "01-05T12 01-19T12 02-09T12 02-23T12 03-09T12"),
    ("0 0 13 * */2", "2026-01-01T00:00Z", "01-13T00 06-13T00 08-13T00 09-13T00 10-13T00"),
    ("0 0 1-31 * 1", "2026-01-01T00:00Z", "01-02T00 01-03T00 01-04T00"),
    ("0 0 * * 7", "2026-01-01T00:00Z", "01-04T00 01-11T00 01-18T00"),
    ("0 0 * * 5-7", "2026-01-01T00:00Z", "01-02T00 01-03T00 01-04T00 01-09T00"),
    ("0 0 ? * MON", "2026-01-01T00:00Z", "01-05T00 01-12T00"),
    ("0 0 L * 5", "2026-01-25T00:00Z", "01-30T00 01-31T00 02-06T00"),
    ("0 0 * * 5#2", "2026-01-01T00:00Z", "01-09T00 02-13T00 03-13T00"),
    ("0 0 * * 5L", "2026-01-01T00:00Z", "01-30T00 02-27T00 03-27T00"),
    ("0 0 * * LFRI,MON#1", "2026-01-01T00:00Z", "01-05T00 01-30T00 02-02T00"),
    ("0 0 1 * 5#2", "2026-01-01T00:00Z", "01-09T00 02-01T00 02-13T00"),
    ("0 0 * * 1#5", "2026-01-01T00:00Z", "03-30T00 06-29T00 08-31T00"),
]

SHANGHAI = [
    ("0 9 * * *", "2026-02-27T01:00:00Z", "02-28T01:00 03-01T01:00 03-02T01:00 03-03T01:00 03-04T01:00"),
    ("30 0 1 * *", "2026-02-28T16:00Z", "02-28T16:30 03-31T16:30 04-30T16:30 05-31T16:30 06-30T16:30"),
    ("0 0 * * 1", "2026-03-01T15:00Z", "03-01T16:00 03-08T16:00 03-15T16:00"),
]


def instant(text: str) -> datetime:
    return datetime.fromisoformat(text)


def shown(fires: list[datetime], like: str) -> str:
    """Fire times as the tables write them: to the hour or to the minute."""
    form = "%m-%dT%H:%M" if ":" in like else "%m-%dT%H"
    assert all(fire.tzinfo is UTC and fire.second == fire.microsecond == 0 for fire in fires)
    return " ".join(fire.strftime(form) for fire in fires)


@pytest.mark.parametrize(("expression", "zone", "after", "right"), [*DST, *MONTH_ENDS])
def test_fire_times_are_right(expression: str, zone: str, after: str, right: str) -> None:
    fires = parse(expression, zone).upcoming(instant(after), len(right.split()))
    assert shown(fires, right) == right


@pytest.mark.parametrize(("expression", "after", "right"), DAY_OR_WEEKDAY)
def test_days_combine_as_in_debian_cron(expression: str, after: str, right: str) -> None:
    fires = parse(expression).upcoming(instant(after), len(right.split()))
    assert shown(fires, right) == right


def test_a_step_of_five_months_starts_anew_each_year() -> None:
    fires = parse("0 0 1 */5 *").upcoming(instant("2026-01-01T00:00Z"), 5)
    assert [(fire.year, fire.month) for fire in fires] == [
        (2026, 6),
        (2026, 11),
        (2027, 1),
        (2027, 6),
        (2027, 11),
    ]


@pytest.mark.parametrize("expression", ["0 0 30 2 *", "0 0 31 2,4,6,9,11 *", "0 0 31 4 *", "0 0 0 30 2 ?"])
def test_what_can_never_fire_is_refused_and_named(expression: str) -> None:
    with pytest.raises(CronError, match="never fires") as refusal:
        parse(expression)
    assert refusal.value.field == "cron"
    assert expression.replace("?", "*") in str(refusal.value)


@pytest.mark.parametrize("expression", ["0 0 29 2 *", "0 0 30 2 1", "0 0 30 1,2 *", "0 0 29 2 MON#5"])
def test_what_fires_seldom_is_taken(expression: str) -> None:
    assert parse(expression).next(instant("2026-01-01T00:00Z"))


PROGRAM = """
from datetime import datetime
from taskkit.cron import parse
for expression, after, count in {cases!r}:
    fires = parse(expression, "Asia/Shanghai").upcoming(datetime.fromisoformat(after), count)
    print(" ".join(f.strftime("%m-%dT%H:%M") for f in fires))
"""


@pytest.mark.parametrize("process_zone", ["UTC", "Asia/Shanghai", "America/New_York"])
def test_the_zone_of_the_process_does_not_matter(process_zone: str) -> None:
    cases = [(expression, after, len(right.split())) for expression, after, right in SHANGHAI]
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(cases=cases)],
        env={**os.environ, "TZ": process_zone},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert run.stdout.splitlines() == [right for _, _, right in SHANGHAI]


def test_the_zone_of_the_start_does_not_matter() -> None:
    schedule = parse("0 9 * * *", "Asia/Shanghai")
    start = instant("2026-02-27T01:00:00Z")
    starts = [start, start.astimezone(), instant("2026-02-26T20:00:00-05:00")]
    assert {schedule.next(same) for same in starts} == {instant("2026-02-28T01:00:00Z")}


def test_six_hours_of_downtime_are_counted_and_the_last_missed_minute_is_found() -> None:
    down, up = instant("2026-01-05T10:00:30Z"), instant("2026-01-05T16:00:30Z")
    every_minute, at_noon = parse("* * * * *"), parse("0 12 * * *")
    assert every_minute.latest(down, up) == (instant("2026-01-05T16:00:00Z"), 360)
    assert every_minute.next(up) == instant("2026-01-05T16:01:00Z")
    assert at_noon.latest(down, up) == (instant("2026-01-05T12:00:00Z"), 1)
    assert at_noon.latest(up, up + timedelta(hours=1)) == (None, 0)


def test_the_next_time_stays_on_the_grid_however_long_a_run_took() -> None:
    schedule = parse("*/2 * * * *")
    finished = instant("2026-01-05T02:02:00Z") + timedelta(seconds=70)
    assert schedule.next(finished) == instant("2026-01-05T02:04:00Z")


def test_restarts_lose_no_quarter_of_an_hour() -> None:
    schedule, start = parse("*/15 * * * *"), instant("2026-01-05T00:00Z")
    seen = {schedule.next(start + timedelta(minutes=5 * n)) for n in range(24)}
    assert sorted(seen) == [start + timedelta(minutes=15 * n) for n in range(1, 9)]
