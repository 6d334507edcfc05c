"""Fire times of imported jobs, against cronsim and against a walk through every minute."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim

from taskkit.crontab import Job, decode, read

DATA = Path(__file__).parents[3] / "shared" / "data"
CRONTABS = sorted((DATA / "crontabs").glob("*")) if DATA.is_dir() else []
NICKNAMES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
START = datetime(2026, 2, 27, 22, 58, 30, tzinfo=UTC)


def job(text: str, timezone: str = "UTC") -> Job:
    """The only job of a text."""
    (found,) = read(text + "\n", name="crontab.txt", system=False, timezone=timezone).jobs
    return found


def matches(expression: str, local: datetime) -> bool:
    """Whether cron fires at a local minute; written from crontab(5) and Debian's star rule alone."""
    fields = expression.split()
    lows = (0, 0, 1, 1, 0)
    minute, hour, day, month, weekday = map(values, fields, lows)
    days = [local.day in day, bool({local.isoweekday() % 7, local.isoweekday()} & weekday)]
    both = fields[2].startswith("*") or fields[4].startswith("*")
    return (
        local.minute in minute
        and local.hour in hour
        and local.month in month
        and (all if both else any)(days)
    )


@cache
def values(field: str, first: int) -> set[int]:
    found: set[int] = set()
    for number, name in enumerate("sun mon tue wed thu fri sat".split()):
        field = field.lower().replace(name, str(number))
    for item in field.split(","):
        span, _, step = item.partition("/")
        low, _, high = (f"{first}-59" if span == "*" else span).partition("-")
        found |= set(range(int(low), int(high or low) + 1, int(step or 1)))
    return found


REAL = sorted(
    {
        job.expression
        for path in CRONTABS
        for job in read(decode(path.read_bytes()), name="", timezone="UTC").jobs
    }
)
EXPRESSIONS = [
    *REAL,
    "5-55/10 1,13 * * Mon-fri",
    "0 4 1,15 * 5",
    "30 3 13 * fri",
    "0 12 * * 0",
    "0 12 * * 7",
    "0 12 * * 5-7",
    "007 09 28 02 *",
    "0 0 */2 * 1",
]


@pytest.mark.parametrize("written", EXPRESSIONS)
def test_fire_times_agree_with_cronsim(written: str) -> None:
    expression = NICKNAMES.get(written, written)
    upcoming = job(f"{written} x").upcoming(START, 20)
    simulated = CronSim(expression, START)
    assert upcoming == [next(simulated) for _ in range(20)]


@pytest.mark.parametrize("written", EXPRESSIONS)
def test_fire_times_agree_with_a_walk_through_every_minute(written: str) -> None:
    zone, expression = ZoneInfo("Asia/Shanghai"), NICKNAMES.get(written, written)
    minutes = (START.replace(second=0) + timedelta(minutes=n) for n in range(1, 3 * 1440 + 1))
    walked = [minute for minute in minutes if matches(expression, minute.astimezone(zone))]
    *fires, beyond = job(f"{written} x", "Asia/Shanghai").upcoming(START, len(walked) + 1)
    assert fires == walked
    assert beyond > START + timedelta(days=3) - timedelta(minutes=1)


def test_a_fixed_time_in_the_skipped_hour_fires_right_after_it() -> None:
    fires = job("CRON_TZ=America/New_York\n30 2 * * * x").upcoming(datetime(2026, 3, 6, 17, tzinfo=UTC), 3)
    assert [f"{fire:%m-%dT%H:%M}" for fire in fires] == ["03-07T07:30", "03-08T07:00", "03-09T06:30"]
