"""Dispatch of what must be looked at first: expired, not completed, late; and what firing records."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from taskkit.center import TaskCenter
from taskkit.states import Status
from tests.centers import (
    Clock,
    dispatch,
    failed,
    instant,
    messages,
    new,
    occurrences,
    on_clock,
    periodic,
    plain_insert,
    sql,
    task,
)

pytest_plugins = ["tests.center_fixtures"]


def test_a_task_that_expired_before_it_could_start_is_cancelled_and_not_dispatched(
    center: TaskCenter,
) -> None:
    now = center.now()
    gone, good = center.intake.insert(
        [new(expires_at=now - timedelta(seconds=1)), new(expires_at=now + timedelta(hours=1))]
    )
    batch = dispatch(center)
    assert ([w.id for w in batch.won], batch.expired) == ([good], [gone])
    found = task(center, gone)
    assert (found.status, found.last_result) == (Status.CANCELLED, "expired before it could start")


@pytest.mark.parametrize(
    "values",
    [
        {"queue": "q", "cron_expr": "* * * * *"},
        {"queue": "q", "cron_expr": "* * * * *", "task_type": 1},
        {"queue": ""},
    ],
    ids=["cron without a type", "cron without a plan", "no queue"],
)
def test_a_row_that_nobody_completed_is_handed_to_the_planner_and_not_dispatched(
    center: TaskCenter, values: dict[str, Any]
) -> None:
    task_id = plain_insert(center, task_code="mail", plan_next_run_at="2026-01-01 00:00:00", **values)
    batch = dispatch(center, values["queue"])
    assert (batch.won, batch.unadopted) == ([], [task_id])
    assert center.plan.adopt_ids(batch.unadopted) == 1
    found = task(center, task_id)
    assert (found.queue, found.task_type) == (values["queue"] or "mail", 1 if "cron_expr" in values else 0)
    assert (found.occurrence_at is not None) == ("cron_expr" in values)
    assert dispatch(center, found.queue).unadopted == []


@pytest.mark.parametrize(
    ("misfire", "late", "misfired"),
    [
        ("once", 59, False),
        ("once", 60, True),
        ("once", 3600, True),
        ("skip", 59, False),
        ("skip", 60, True),
        ("all", 59, False),
        ("all", 3600, False),
    ],
)
def test_sched_05_a_late_occurrence_is_dispatched_or_left_to_the_planner_by_its_policy(
    center_url: str, misfire: str, late: int, misfired: bool
) -> None:
    clock = Clock(instant(2026, 6, 1, 12, 0, 30))
    center = on_clock(center_url, clock)
    (task_id,) = center.intake.insert([periodic(clock.at, misfire=misfire)])
    clock.at = instant(2026, 6, 1, 12, 1) + timedelta(seconds=late)
    batch = dispatch(center)
    assert (batch.misfired, [w.id for w in batch.won]) == (([task_id], []) if misfired else ([], [task_id]))
    center.close()


def test_sched_05_an_unwanted_late_run_of_a_daily_task_is_left_to_the_planner(center_url: str) -> None:
    clock = Clock(instant(2026, 6, 1, 11))
    center = on_clock(center_url, clock)
    skip, once = center.intake.insert([periodic(clock.at, "0 12 * * *", misfire=m) for m in ("skip", "once")])
    clock.at = instant(2026, 6, 1, 16)
    batch = dispatch(center)
    assert (batch.misfired, [w.id for w in batch.won]) == ([skip], [once])
    center.close()


def test_rule_20_an_occurrence_fires_with_its_first_attempt_and_its_lateness_is_recorded_once(
    center_url: str,
) -> None:
    """planned → fired in the dispatch transaction of the first attempt that was not put back, whatever follows."""
    clock = Clock(instant(2026, 6, 1, 12))
    center = on_clock(center_url, clock)
    (task_id,) = center.intake.insert([periodic(clock.at, "0 13 * * *")])
    center.plan.sweep()
    clock.at = instant(2026, 6, 1, 13, 0, 2)
    refused = dispatch(center)
    center.dispatch.put_back(refused.won, refused.token)
    assert occurrences(center, task_id, "fired") == []
    assert [one.planned_at for one in occurrences(center, task_id, "planned")][:1] == [
        instant(2026, 6, 1, 13)
    ]
    clock.move(seconds=10)
    (claimed,) = center.worker_desk("host:1:a").claim(messages(dispatch(center))).won
    assert (claimed.attempt, claimed.occurrence_at) == (2, instant(2026, 6, 1, 13))
    center.worker_desk("host:1:a").finish([failed(claimed)])
    clock.move(seconds=6)
    (again,) = dispatch(center).won
    assert (again.attempt, task(center, task_id).occurrence_at) == (3, instant(2026, 6, 1, 13))
    (fired,) = occurrences(center, task_id, "fired")
    assert (fired.planned_at, fired.fired_at) == (instant(2026, 6, 1, 13), instant(2026, 6, 1, 13, 0, 12))
    assert (fired.late_s, fired.attempt) == (pytest.approx(12.0), 2)
    center.close()


@pytest.mark.parametrize("state", ["fired", "skipped", "missed"])
def test_rule_20_guarantee_4_an_occurrence_that_is_settled_does_not_fire_again(
    center_url: str, state: str
) -> None:
    """Somebody set the row back by hand: the planner moves it on, and the scan does not turn on the spot."""
    clock = Clock(instant(2026, 6, 1, 12))
    center = on_clock(center_url, clock)
    (task_id,) = center.intake.insert([periodic(clock.at, "0 13 * * *")])
    sql(
        center,
        "INSERT INTO task_occurrence (task_id, planned_at, state, fired_at) "
        "VALUES (:i, '2026-06-01 13:00:00.000000', :s, '2026-06-01 13:00:00')",
        i=task_id,
        s=state,
    )
    clock.at = instant(2026, 6, 1, 13, 0, 1)
    batch = dispatch(center)
    assert (batch.won, batch.misfired) == ([], [task_id])
    center.plan.plan_ids(batch.misfired)
    assert task(center, task_id).occurrence_at == instant(2026, 6, 2, 13)
    center.close()
