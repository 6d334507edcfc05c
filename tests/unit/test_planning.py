"""Which occurrence comes next: after a run, after downtime, across clock changes; what is skipped and why."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from taskkit.cron import Schedule, parse
from taskkit.errors import CronError
from taskkit.planning import (
    ALL_LIMIT,
    RECORD_LIMIT,
    NextUp,
    after_run,
    ahead,
    catch_up,
    digest,
    first,
    latest_fires,
    schedule_of,
    within,
)

MINUTELY = parse("* * * * *")
NOON = parse("0 12 * * *")
GRACE = timedelta(seconds=60)


def at(text: str, day: int = 1) -> datetime:
    """``10:01`` or ``10:01:30`` of a day in March 2026."""
    hour, minute, second = (*map(int, text.split(":")), 0)[:3]
    return datetime(2026, 3, day, hour, minute, second, tzinfo=UTC)


def clock(instants: list[datetime]) -> list[str]:
    return [f"{one:%H:%M}" for one in instants]


def test_the_first_occurrence_is_strictly_in_the_future() -> None:
    assert first(MINUTELY, at("10:00")) == NextUp(at("10:01"), at("10:02"))
    assert first(MINUTELY, at("10:00:59")) == NextUp(at("10:01"), at("10:02"))


@pytest.mark.parametrize(
    ("misfire", "occurrence", "dispatched", "ended", "next_at", "passed"),
    [
        # in time: the next one of the calendar, whatever the run took within its interval
        ("once", "10:01", "10:01", "10:01:01", "10:02", []),
        ("once", "10:01", "10:01", "10:01:59", "10:02", []),
        # it ended exactly when the next was due: that one passed while it ran
        ("once", "10:01", "10:01", "10:02", "10:03", ["10:02"]),
        # 70 s on a grid of 60 s; never two at once, the skipped one is recorded, the grid stays
        ("once", "10:02", "10:02", "10:03:10", "10:04", ["10:03"]),
        ("once", "10:04", "10:04", "10:05:10", "10:06", ["10:05"]),
        ("skip", "10:02", "10:02", "10:05:30", "10:06", ["10:03", "10:04", "10:05"]),
        # all: what had passed before it started still comes, what passes while it runs does not
        ("all", "10:01", "10:05:10", "10:05:20", "10:02", []),
        ("all", "10:04", "10:05:10", "10:05:20", "10:05", []),
        ("all", "10:05", "10:05:30", "10:07:10", "10:08", ["10:06", "10:07"]),
        # a run by hand stands for no occurrence: the next of the calendar, and what passed meanwhile is skipped
        ("once", None, "10:01:17", "10:01:18", "10:02", []),
        ("once", None, "10:01:17", "10:03:05", "10:04", ["10:02", "10:03"]),
        ("all", None, "10:01:17", "10:03:05", "10:04", ["10:02", "10:03"]),
        ("once", None, None, "10:01:18", "10:02", []),
        # an occurrence that was started before its time does not come a second time
        ("once", "10:05", "10:01", "10:01:30", "10:06", []),
    ],
)
def test_what_follows_a_run(
    misfire: str, occurrence: str | None, dispatched: str | None, ended: str, next_at: str, passed: list[str]
) -> None:
    began = dispatched and at(dispatched)
    up = after_run(MINUTELY, misfire, occurrence and at(occurrence), began or None, at(ended))  # type: ignore[arg-type]
    assert (f"{up.occurrence_at:%H:%M}", clock(up.passed)) == (next_at, passed)
    assert up.next_fire_at == MINUTELY.next(up.occurrence_at)
    assert up.reason == ("still running" if passed else up.reason)


def test_sched_10_a_the_run_time_and_a_run_by_hand_never_shift_the_rhythm() -> None:
    """Anchored at 02:02:00, 1.2 s each, a run by hand at 02:30:17: the 60th is at 03:02:00."""
    occurrence, fired = at("02:02"), 0
    while fired < 60:
        up = after_run(MINUTELY, "once", occurrence, occurrence, occurrence + timedelta(seconds=1.2))
        if up.occurrence_at == at("02:31"):
            by_hand = at("02:30:17")
            up = after_run(MINUTELY, "once", None, by_hand, by_hand + timedelta(seconds=1.2))
        assert up.passed == []
        occurrence, fired = up.occurrence_at, fired + 1
    assert occurrence == at("03:02")


def test_sched_05_six_hours_of_downtime_cost_360_fires_and_give_one_run_and_359_skipped() -> None:
    """A minutely job, down from 10:00:30 to 16:00:30."""
    up = catch_up(MINUTELY, "once", at("10:01"), at("16:00:30"), GRACE)
    assert up is not None
    assert (up.occurrence_at, up.next_fire_at) == (at("16:00"), at("16:01"))
    assert len(up.passed) == 359
    assert (up.passed[0], up.passed[-1], up.reason) == (at("10:01"), at("15:59"), "misfire policy once")
    assert after_run(MINUTELY, "once", at("16:00"), at("16:00:31"), at("16:00:32")) == first(
        MINUTELY, at("16:00:32")
    )


def test_sched_05_a_daily_job_that_was_due_in_the_downtime_runs_once_and_late() -> None:
    assert catch_up(NOON, "once", at("12:00"), at("16:00:30"), GRACE) is None
    assert after_run(NOON, "once", at("12:00"), at("16:00:31"), at("16:00:40")).occurrence_at == at(
        "12:00", 2
    )


def test_sched_05_without_catch_up_nothing_runs_late_and_the_next_is_in_the_future() -> None:
    """Misfire policy skip, after the same downtime."""
    up = catch_up(MINUTELY, "skip", at("10:01"), at("16:00:30"), GRACE)
    assert up is not None
    assert (up.occurrence_at, len(up.passed), up.reason) == (at("16:01"), 360, "misfire policy skip")
    daily = catch_up(NOON, "skip", at("12:00"), at("16:00:30"), GRACE)
    assert daily is not None
    assert (daily.occurrence_at, daily.passed) == (at("12:00", 2), [at("12:00")])


@pytest.mark.parametrize(
    ("misfire", "occurrence", "now", "moves_to", "passed"),
    [
        ("once", "10:05", "10:04:59", None, 0),
        ("once", "10:05", "10:05", None, 0),
        ("once", "10:05", "10:05:59", None, 0),
        ("once", "10:05", "10:06", "10:06", 1),
        ("once", "10:05", "10:06:40", "10:06", 1),
        ("once", "10:05", "10:08", "10:08", 3),
        ("skip", "10:05", "10:05:59", None, 0),
        ("skip", "10:05", "10:06", "10:06", 1),
        ("skip", "10:05", "10:06:01", "10:07", 2),
        ("skip", "10:05", "10:08", "10:09", 4),
        ("all", "10:05", "10:05:59", None, 0),
        ("all", "10:05", "10:08", None, 0),
        ("all", "10:05", "11:44:30", None, 0),
        ("all", "10:05", "11:45", "10:06", 1),
        ("all", "10:05", "11:50", "10:11", 6),
    ],
)
def test_sched_05_what_a_misfire_policy_makes_of_a_late_occurrence(
    misfire: str, occurrence: str, now: str, moves_to: str | None, passed: int
) -> None:
    up = catch_up(MINUTELY, misfire, at(occurrence), at(now), GRACE)
    if moves_to is None:
        assert up is None
        return
    assert up is not None
    assert (up.occurrence_at, len(up.passed)) == (at(moves_to), passed)
    assert all(at(occurrence) <= one < up.occurrence_at for one in up.passed)
    if misfire == "all":
        assert len(MINUTELY.between(up.occurrence_at, at(now), 1000)) + 1 == ALL_LIMIT


@pytest.mark.parametrize("misfire", ["once", "skip", "all"])
def test_a_year_of_every_second_is_counted_and_not_walked_through(misfire: str) -> None:
    every, now = parse("* * * * * *"), at("12:00")
    up = catch_up(every, misfire, now - timedelta(days=365), now, GRACE)
    assert up is not None
    assert len(up.passed) == RECORD_LIMIT + 1
    assert up.passed[0] == now - timedelta(days=365)
    assert up.passed[-1] == up.occurrence_at - timedelta(seconds=1)
    seconds = int((up.occurrence_at - up.passed[0]).total_seconds())
    assert f"{seconds} in all" in up.reason
    assert len(up.reason) <= 100


def test_the_latest_fires_are_the_latest_even_where_they_come_in_clumps() -> None:
    clumps = parse("0-4 9 * * 1")
    found = latest_fires(clumps, at("00:00"), at("00:00", 31), 7)
    assert found == clumps.between(at("00:00"), at("00:00", 31), 1000)[-7:]
    assert latest_fires(clumps, at("00:00"), at("00:00"), 7) == []


def test_an_occurrence_of_another_schedule_is_passed_over_too() -> None:
    up = catch_up(MINUTELY, "once", at("10:00:30"), at("10:02:10"), GRACE)
    assert up is not None
    assert up.passed == [at("10:00:30"), at("10:01")]


@pytest.mark.parametrize("misfire", ["once", "skip", "all"])
def test_catching_up_twice_changes_nothing_more(misfire: str) -> None:
    up = catch_up(MINUTELY, misfire, at("10:01"), at("16:00:30"), GRACE)
    assert up is not None
    assert catch_up(MINUTELY, misfire, up.occurrence_at, at("16:00:30"), GRACE) is None


NEW_YORK = "America/New_York"


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("schedule", "occurrence", "follows"),
    [
        # 02:30 does not exist on 8 March: right after the gap, and the day after at its time again
        (parse("30 2 * * *", NEW_YORK), "2026-03-07T07:30", "2026-03-08T07:00"),
        (parse("30 2 * * *", NEW_YORK), "2026-03-08T07:00", "2026-03-09T06:30"),
        (parse("30 2 * * *", NEW_YORK, gap="skip"), "2026-03-07T07:30", "2026-03-09T06:30"),
        # 01:30 comes twice on 1 November
        (parse("30 1 * * *", NEW_YORK), "2026-11-01T05:30", "2026-11-02T06:30"),
        (parse("30 1 * * *", NEW_YORK, overlap="second"), "2026-10-31T05:30", "2026-11-01T06:30"),
        (parse("30 1 * * *", NEW_YORK, overlap="both"), "2026-11-01T05:30", "2026-11-01T06:30"),
        # an interval keeps its pace
        (parse("0 * * * *", NEW_YORK), "2026-11-01T05:00", "2026-11-01T06:00"),
        (parse("0 9 * * *", "Asia/Shanghai"), "2026-02-28T01:00", "2026-03-01T01:00"),
    ],
)
def test_the_next_occurrence_across_a_clock_change(schedule: Schedule, occurrence: str, follows: str) -> None:
    was = utc(occurrence)
    up = after_run(schedule, "once", was, was, was + timedelta(seconds=1))
    assert up.occurrence_at == utc(follows)


@pytest.mark.parametrize(
    ("cron", "down", "back", "runs_at", "skipped"),
    [
        # spring: 02:00 to 03:00 local does not exist, so 5 hours of the wall clock are 4 of the hourly job's
        ("0 * * * *", "2026-03-08T05:00", "2026-03-08T09:30", "2026-03-08T09:00", 4),
        # autumn: both 01:00s count
        ("0 * * * *", "2026-11-01T04:00", "2026-11-01T07:30", "2026-11-01T07:00", 3),
        ("30 1 * * *", "2026-10-31T05:30", "2026-11-02T12:00", "2026-11-02T06:30", 2),
    ],
)
def test_what_was_missed_over_a_clock_change_is_counted_rightly(
    cron: str, down: str, back: str, runs_at: str, skipped: int
) -> None:
    up = catch_up(parse(cron, NEW_YORK), "once", utc(down), utc(back), GRACE)
    assert up is not None
    assert (up.occurrence_at, len(up.passed)) == (utc(runs_at), skipped)


@pytest.mark.parametrize(
    ("cron", "hours", "most", "count"),
    [
        ("* * * * *", 24, 100, 100),
        ("*/30 * * * *", 24, 100, 48),
        ("0 12 * * *", 24, 100, 1),
        ("0 0 1 1 *", 24, 100, 1),
        ("0 0 29 2 *", 24, 100, 1),
    ],
)
def test_occurrences_ahead_are_the_next_one_and_a_day_up_to_a_limit(
    cron: str, hours: float, most: int, count: int
) -> None:
    schedule, now = parse(cron), at("10:00:30")
    found = ahead(schedule, now, hours, most)
    assert found == schedule.upcoming(now, count)


def test_what_a_database_cannot_hold_is_refused_by_name_and_the_one_after_is_cut_short() -> None:
    last = datetime(2038, 1, 19, 3, 14, 7, tzinfo=UTC)
    leap_sunday = parse("0 0 29 2 */7")
    up = first(leap_sunday, at("00:00"))
    assert (up.occurrence_at.year, up.next_fire_at.year) == (2032, 2060)
    assert within(up, last) == NextUp(up.occurrence_at, last)
    assert within(first(NOON, at("10:00")), last) == first(NOON, at("10:00"))
    with pytest.raises(CronError, match="2060-02-29") as refused:
        within(first(leap_sunday, up.occurrence_at), last)
    assert refused.value.field == "cron"


def test_the_digest_changes_with_everything_that_changes_the_fire_times() -> None:
    base = ("0 2 * * *", "UTC", "after", "first", "UTC")
    others = [
        ("0 3 * * *", *base[1:]),
        (base[0], "Asia/Shanghai", *base[2:]),
        (*base[:2], "skip", *base[3:]),
        (*base[:3], "both", base[4]),
    ]
    digests = {digest(schedule_of(*one), "once") for one in [base, *others]}
    digests.add(digest(schedule_of(*base), "all"))
    assert len(digests) == 6
    assert digest(schedule_of("0  2 * * *", None, "after", "first", "UTC"), "once") in digests
