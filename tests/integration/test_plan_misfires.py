"""Times that nobody fired: misfire policies from end to end, paused, cancelled and deleted tasks."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from taskkit.center import TaskCenter
from taskkit.cron import parse
from taskkit.states import Status
from tests.centers import (
    NOON,
    Clock,
    dispatch,
    failed,
    in_status,
    instant,
    messages,
    occurrences,
    on_clock,
    periodic,
    sql,
    succeeded,
    task,
)
from tests.planned import W1, run_once

pytest_plugins = ["tests.center_fixtures"]


def test_sched_05_downtime_of_six_hours_end_to_end(
    moving: TaskCenter, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One run of the minutely job, one each of 41 daily ones; or none; or all up to a limit."""
    monkeypatch.setattr("taskkit.planning.ALL_LIMIT", 10)
    clock.at = instant(2026, 6, 1, 10, 0, 20)
    policies = {"once": 1, "skip": 0, "all": 10}
    minutely = {m: moving.intake.insert([periodic(clock.at, misfire=m)])[0] for m in policies}
    daily = moving.intake.insert([periodic(clock.at, "0 12 * * *")] * 41)
    moving.plan.sweep()
    back = clock.at = instant(2026, 6, 1, 16, 0, 30)
    ran: dict[int, list[datetime]] = {i: [] for i in [*minutely.values(), *daily]}
    for turn in range(15):
        if turn < 2:
            moving.plan.sweep()
        batch = dispatch(moving)
        desk = moving.worker_desk(W1)
        won = desk.claim(messages(batch)).won
        for claimed in won:
            assert claimed.occurrence_at is not None
            ran[claimed.id].append(claimed.occurrence_at)
        desk.finish([succeeded(claimed) for claimed in won])
        if not won and not batch.misfired:
            break
    assert {m: len(ran[i]) for m, i in minutely.items()} == policies
    assert ran[minutely["once"]] == [instant(2026, 6, 1, 16)]
    assert ran[minutely["all"]] == parse("* * * * *").upcoming(instant(2026, 6, 1, 15, 50), 10)
    assert all(ran[i] == [instant(2026, 6, 1, 12)] for i in daily)
    skipped = {m: occurrences(moving, i, "skipped") for m, i in minutely.items()}
    assert {m: len(o) for m, o in skipped.items()} == {"once": 359, "skip": 360, "all": 350}
    assert {o.reason for o in skipped["once"]} == {"misfire policy once"}
    for task_id in minutely.values():
        assert task(moving, task_id).occurrence_at == instant(2026, 6, 1, 16, 1)
        states = [o for o in moving.read.occurrences(task_id, 1000) if o.planned_at <= back]
        assert len(states) == 360
        assert {o.state for o in states} <= {"fired", "skipped"}
    (late,) = occurrences(moving, daily[0], "fired")
    assert (late.late_s, late.reason) == (pytest.approx(4 * 3600 + 30), None)


def test_sched_05_a_late_task_keeps_its_place_in_the_line(moving: TaskCenter, clock: Clock) -> None:
    (task_id,) = moving.intake.insert([periodic(NOON)])
    moving.plan.sweep()
    clock.move(minutes=30)
    moving.plan.sweep()
    found = task(moving, task_id)
    assert found.occurrence_at == NOON + timedelta(minutes=30)
    assert found.plan_next_run_at == NOON + timedelta(minutes=1)


def test_a_paused_task_neither_runs_nor_catches_up_and_its_times_are_recorded(
    moving: TaskCenter, clock: Clock
) -> None:
    (task_id,) = moving.intake.insert([periodic(NOON, "*/10 * * * *", misfire="all")])
    moving.plan.sweep()
    moving.people.pause(task_id, "ann", "holidays")
    clock.move(hours=2, seconds=61)
    moving.plan.sweep()
    assert run_once(moving) == []
    skipped = occurrences(moving, task_id, "skipped")
    assert [o.planned_at for o in skipped] == parse("*/10 * * * *").upcoming(NOON, 12)
    assert {o.reason for o in skipped} == {"held: paused by ann: holidays"}
    moving.people.resume(task_id, "ann")
    moving.plan.sweep()
    assert run_once(moving) == []
    assert task(moving, task_id).occurrence_at == instant(2026, 6, 1, 14, 10)
    clock.at = instant(2026, 6, 1, 14, 10)
    assert run_once(moving) == [clock.at]


def test_a_cancelled_task_is_not_planned_any_further(moving: TaskCenter, clock: Clock) -> None:
    (task_id,) = moving.intake.insert([periodic(NOON, "*/10 * * * *")])
    moving.plan.sweep()
    moving.people.cancel(task_id, "ann")
    planned = len(occurrences(moving, task_id, "planned"))
    clock.move(hours=48)
    moving.plan.sweep()
    assert occurrences(moving, task_id, "planned") == []
    assert {o.reason for o in occurrences(moving, task_id, "skipped")} == {"cancelled"}
    assert len(moving.read.occurrences(task_id, 1000)) == planned


def test_times_nobody_fired_are_missed_and_those_of_deleted_tasks_do_not_stay_open(
    moving: TaskCenter, clock: Clock
) -> None:
    kept, gone = moving.intake.insert([periodic(NOON, "*/10 * * * *"), periodic(NOON, "*/10 * * * *")])
    moving.plan.sweep()
    clock.move(minutes=25)
    sql(moving, "DELETE FROM task_center WHERE id = :i", i=gone)
    sql(
        moving,
        "UPDATE task_center SET occurrence_at = '2026-06-01 12:30:00.000000', "
        "plan_next_run_at = '2026-06-01 12:30:00', next_fire_at = '2026-06-01 12:40:00' WHERE id = :i",
        i=kept,
    )
    moving.plan.sweep()
    missed = occurrences(moving, kept, "missed")
    assert [(o.planned_at.minute, o.reason) for o in missed] == [
        (10, "no scheduler fired it in time"),
        (20, "no scheduler fired it in time"),
    ]
    assert {o.reason for o in occurrences(moving, gone, "skipped")} == {"the task is gone"}
    assert sql(moving, "SELECT task_id FROM task_schedule") == [(kept,)]


def test_old_times_of_one_stuck_task_do_not_keep_those_of_others_open(
    moving: TaskCenter, clock: Clock
) -> None:
    """More of them than one look takes in."""
    stuck, other = moving.intake.insert([periodic(NOON, "* * * * * *"), periodic(NOON, "*/10 * * * *")])
    moving.plan.sweep()
    clock.move(seconds=1)
    moving.worker_desk(W1).claim(messages(dispatch(moving)))
    for _ in range(13):
        clock.move(seconds=50)
        moving.plan.sweep()
    assert len([o for o in occurrences(moving, stuck, "planned") if o.planned_at < clock.at]) > 500
    moving.people.cancel(other, "ann")
    clock.move(seconds=61)
    moving.plan.sweep()
    assert [o.reason for o in occurrences(moving, other, "skipped")] == ["cancelled"]


def test_more_skipped_times_than_are_written_down_are_told_by_number(
    moving: TaskCenter, clock: Clock
) -> None:
    (task_id,) = moving.intake.insert([periodic(NOON, "* * * * * *")])
    clock.move(hours=6)
    moving.plan.sweep()
    skipped = occurrences(moving, task_id, "skipped")
    assert len(skipped) == 1001
    assert "21599 in all" in (skipped[-1].reason or "")


@pytest.mark.parametrize(
    ("cron", "day", "runs"),
    [
        ("30 2 * * *", (2026, 3, 7), ["07 07:30", "08 07:00", "09 06:30"]),
        ("30 1 * * *", (2026, 10, 31), ["31 05:30", "01 05:30", "02 06:30"]),
    ],
)
def test_a_daily_task_runs_once_on_each_date_across_a_clock_change(
    center_url: str, cron: str, day: tuple[int, int, int], runs: list[str]
) -> None:
    clock = Clock(instant(*day))
    center = on_clock(center_url, clock)
    center.intake.insert([periodic(clock.at, cron, "America/New_York")])
    ran: list[datetime | None] = []
    for _ in range(36):
        center.plan.sweep()
        ran += run_once(center)
        clock.move(hours=2)
    assert [f"{at:%d %H:%M}" for at in ran if at] == runs
    center.close()


def test_the_planner_leaves_alone_what_runs_or_waits_for_a_retry(moving: TaskCenter, clock: Clock) -> None:
    ids = [in_status(moving, s, plan_next_run_at=clock.at) for s in (Status.RUNNING, Status.FAILED)]
    (cron,) = moving.intake.insert([periodic(NOON)])
    moving.plan.sweep()
    clock.move(minutes=1)
    desk = moving.worker_desk("host:1:a")
    assert desk.finish([failed(one) for one in desk.claim(messages(dispatch(moving))).won]) == []
    before = [task(moving, i) for i in [*ids, cron]]
    clock.move(minutes=30)
    moving.plan.sweep()
    moving.plan.plan_ids([*ids, cron])
    assert [task(moving, i) for i in [*ids, cron]] == before
