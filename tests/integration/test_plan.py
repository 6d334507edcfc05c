"""The planner: occurrences ahead by the calendar, edits by hand, several planners at once."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from taskkit.center import TaskCenter
from taskkit.center.occurrences import settle
from taskkit.cron import parse
from taskkit.states import OccurrenceState
from tests.centers import (
    NOON,
    Clock,
    at_once,
    columns,
    dispatch,
    instant,
    messages,
    occurrences,
    on_clock,
    periodic,
    plain_insert,
    sql,
    succeeded,
    task,
)
from tests.planned import W1, adopt, run_once

pytest_plugins = ["tests.center_fixtures"]


@pytest.mark.parametrize(
    ("cron", "count"), [("* * * * *", 100), ("*/30 * * * *", 48), ("0 9 * * *", 1), ("0 0 1 1 *", 1)]
)
def test_rule_21_occurrences_are_written_ahead_the_next_one_and_a_day_up_to_100(
    moving: TaskCenter, cron: str, count: int
) -> None:
    """Absence can only be noticed by something that expected presence."""
    (task_id,) = moving.intake.insert([periodic(NOON, cron)])
    for _ in range(3):
        moving.plan.sweep()
    assert [o.planned_at for o in occurrences(moving, task_id, "planned")] == parse(cron).upcoming(
        NOON, count
    )


def test_rule_21_occurrences_are_written_by_the_calendar_even_while_the_task_is_stuck(
    moving: TaskCenter, clock: Clock
) -> None:
    """So that a stuck task still has occurrences that did not fire."""
    (task_id,) = moving.intake.insert([periodic(NOON, "*/10 * * * *")])
    moving.plan.sweep()
    clock.move(minutes=10)
    (claimed,) = moving.worker_desk(W1).claim(messages(dispatch(moving))).won
    for _ in range(30):
        clock.move(hours=1)
        moving.plan.sweep()
    planned = [o.planned_at for o in occurrences(moving, task_id, "planned")]
    assert planned == parse("*/10 * * * *").upcoming(NOON + timedelta(minutes=10), len(planned))
    assert planned[-1] >= clock.at + timedelta(hours=6)
    moving.worker_desk(W1).finish([succeeded(claimed)])
    moving.plan.sweep()
    assert all(o.planned_at > clock.at for o in occurrences(moving, task_id, "planned"))
    assert len(occurrences(moving, task_id, "skipped")) == 180


def test_rule_15_guarantee_4_two_planners_at_once_write_nothing_twice(center_url: str) -> None:
    clocks = [Clock(NOON), Clock(NOON)]
    planners = [on_clock(center_url, clock) for clock in clocks]
    ids = planners[0].intake.insert([periodic(NOON, misfire=m) for m in ("once", "skip", "all")])
    plain = [plain_insert(planners[0], task_code="mail", cron_expr="*/2 * * * *") for _ in range(5)]
    for minutes in (0, 30, 31):
        for clock in clocks:
            clock.at = NOON + timedelta(minutes=minutes, seconds=20)
        adopted = at_once(2, lambda n: adopt(planners[n]))
        at_once(2, lambda n: planners[n].plan.sweep())
        assert sum(adopted) == (5 if minutes == 0 else 0)
    once, skip, every = (task(planners[0], i) for i in ids)
    assert [t.occurrence_at for t in (once, skip, every)] == [
        NOON + timedelta(minutes=31), NOON + timedelta(minutes=31), NOON + timedelta(minutes=1),
    ]  # fmt: skip
    settled = [(o.planned_at, o.state) for o in occurrences(planners[0], once.id, "skipped")]
    assert settled == [(NOON + timedelta(minutes=m), "skipped") for m in range(1, 31)]
    assert {columns(planners[0], i, "queue")[0] for i in plain} == {"mail"}
    for planner in planners:
        planner.close()


def test_rule_21_a_planner_that_was_stopped_does_not_move_a_task_that_went_on_without_it(
    moving: TaskCenter, center_url: str, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A compare-and-set on occurrence_at; status alone would not tell."""
    (task_id,) = moving.intake.insert([periodic(NOON)])
    clock.at = NOON + timedelta(minutes=5, seconds=1)
    other, decide = on_clock(center_url, clock), moving.plan._next_up

    def stop_here(*arguments: Any) -> Any:
        decided = decide(*arguments)
        other.plan.sweep()
        assert run_once(other) == [NOON + timedelta(minutes=5)]
        return decided

    monkeypatch.setattr(moving.plan, "_next_up", stop_here)
    moving.plan.sweep()
    found = task(moving, task_id)
    assert found.plan_next_run_at == found.occurrence_at == NOON + timedelta(minutes=6)
    assert len(occurrences(moving, task_id, "fired")) == 1
    other.close()


def test_rule_20_what_has_fired_stays_fired_whatever_is_settled_later(
    moving: TaskCenter, clock: Clock
) -> None:
    (task_id,) = moving.intake.insert([periodic(NOON)])
    moving.plan.sweep()
    clock.move(minutes=1)
    assert run_once(moving) == [clock.at]
    both = [clock.at, clock.at + timedelta(minutes=1)]
    moving.database.write(
        lambda c: settle(c, moving.database, task_id, both, OccurrenceState.SKIPPED, "late planner")
    )
    (fired,) = occurrences(moving, task_id, "fired")
    (skipped,) = occurrences(moving, task_id, "skipped")
    assert (fired.planned_at, fired.reason) == (both[0], None)
    assert (skipped.planned_at, skipped.reason) == (both[1], "late planner")


def test_rule_21_an_expression_edited_by_hand_is_planned_anew(moving: TaskCenter, clock: Clock) -> None:
    (task_id,) = moving.intake.insert([periodic(NOON, "0 9 * * *")])
    moving.plan.sweep()
    sql(moving, "UPDATE task_center SET cron_expr = '30 * * * *' WHERE id = :i", i=task_id)
    moving.plan.sweep()
    found = task(moving, task_id)
    assert found.plan_next_run_at == found.occurrence_at == instant(2026, 6, 1, 12, 30)
    assert found.next_fire_at == instant(2026, 6, 1, 13, 30)
    planned = [o.planned_at for o in occurrences(moving, task_id, "planned")]
    assert planned == parse("30 * * * *").upcoming(NOON, 24)
    sql(moving, "UPDATE task_center SET timezone = 'Asia/Kolkata' WHERE id = :i", i=task_id)
    moving.plan.sweep()
    assert task(moving, task_id).occurrence_at == instant(2026, 6, 1, 13)
    assert occurrences(moving, task_id, "planned")[0].planned_at == instant(2026, 6, 1, 13)


def test_an_edit_while_an_occurrence_is_late_does_not_hang_the_task(moving: TaskCenter, clock: Clock) -> None:
    """Its next fire time was that of the old schedule: the scan would hand it to the planner for ever."""
    (task_id,) = moving.intake.insert([periodic(NOON)])
    moving.plan.sweep()
    clock.move(minutes=3)
    sql(moving, "UPDATE task_center SET cron_expr = '0 9 * * *' WHERE id = :i", i=task_id)
    moving.plan.sweep()
    assert run_once(moving) == [NOON + timedelta(minutes=1)]
    assert task(moving, task_id).occurrence_at == instant(2026, 6, 2, 9)


def test_rule_21_new_time_zone_data_plan_every_task_anew(
    moving: TaskCenter, monkeypatch: pytest.MonkeyPatch
) -> None:
    (task_id,) = moving.intake.insert([periodic(NOON)])
    moving.plan.sweep()
    before = sql(moving, "SELECT digest FROM task_schedule WHERE task_id = :i", i=task_id)
    monkeypatch.setattr("taskkit.planning.tzdata_version", lambda: "2099z")
    moving.plan.sweep()
    assert sql(moving, "SELECT digest FROM task_schedule WHERE task_id = :i", i=task_id) != before
    assert task(moving, task_id).occurrence_at == NOON + timedelta(minutes=1)
