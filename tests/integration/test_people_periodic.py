"""What a person may do to a periodic task: its rhythm stays."""

from __future__ import annotations

from datetime import timedelta

import pytest

from taskkit.center import TaskCenter
from taskkit.errors import IllegalMove
from taskkit.states import Status
from tests.centers import (
    NOON,
    Clock,
    dispatch,
    failed,
    instant,
    messages,
    occurrences,
    periodic,
    succeeded,
    task,
)

pytest_plugins = ["tests.center_fixtures"]

W1 = "host-1:11:aaaa"


def test_sched_10_a_run_now_of_a_periodic_task_keeps_its_rhythm(moving: TaskCenter, clock: Clock) -> None:
    """Every minute at :00, 1.2 s each, a run by hand at 12:18:17."""
    (task_id,) = moving.intake.insert([periodic(NOON)])
    desk, ran = moving.worker_desk(W1), []
    for minute in range(1, 31):
        clock.at = NOON + timedelta(minutes=minute)
        for by_hand in (False, True) if minute == 18 else (False,):
            if by_hand:
                clock.at = NOON + timedelta(minutes=minute, seconds=17)
                assert moving.people.run_now(task_id, "ann") == Status.PENDING
            (claimed,) = desk.claim(messages(dispatch(moving))).won
            ran.append(claimed.occurrence_at)
            clock.move(seconds=1.2)
            desk.finish([succeeded(claimed)])
    assert ran[18] is None
    assert [at for at in ran if at] == [NOON + timedelta(minutes=m) for m in range(1, 31)]
    assert len(occurrences(moving, task_id, "fired")) == 30
    assert occurrences(moving, task_id, "skipped") == occurrences(moving, task_id, "missed") == []


def test_sched_10_c_times_that_pass_during_a_run_by_hand_are_skipped_and_not_missed(
    moving: TaskCenter, clock: Clock
) -> None:
    (task_id,) = moving.intake.insert([periodic(NOON)])
    moving.plan.sweep()
    clock.move(seconds=30)
    moving.people.run_now(task_id, "ann")
    (claimed,) = moving.worker_desk(W1).claim(messages(dispatch(moving))).won
    clock.move(seconds=140)
    moving.plan.sweep()
    moving.worker_desk(W1).finish([succeeded(claimed)])
    moving.plan.sweep()
    assert task(moving, task_id).occurrence_at == NOON + timedelta(minutes=3)
    skipped = occurrences(moving, task_id, "skipped")
    assert [(o.planned_at.minute, o.reason) for o in skipped] == [(1, "still running"), (2, "still running")]
    assert occurrences(moving, task_id, "missed") == []


def test_run_now_of_a_periodic_task_whose_occurrence_is_due_runs_that_occurrence(
    moving: TaskCenter, clock: Clock
) -> None:
    (task_id,) = moving.intake.insert([periodic(NOON)])
    clock.move(minutes=1, seconds=0.3)
    moving.people.run_now(task_id, "ann")
    (claimed,) = moving.worker_desk(W1).claim(messages(dispatch(moving))).won
    assert claimed.occurrence_at == NOON + timedelta(minutes=1)
    assert len(occurrences(moving, task_id, "fired")) == 1


def test_run_now_of_a_failed_periodic_task_repeats_its_occurrence_at_once(
    moving: TaskCenter, clock: Clock
) -> None:
    (task_id,) = moving.intake.insert([periodic(NOON, "0 * * * *")])
    clock.move(hours=1)
    desk = moving.worker_desk(W1)
    (claimed,) = desk.claim(messages(dispatch(moving))).won
    desk.finish([failed(claimed, delay=600.0)])
    moving.people.run_now(task_id, "ann")
    (again,) = desk.claim(messages(dispatch(moving))).won
    assert (again.attempt, again.occurrence_at) == (2, claimed.occurrence_at)


def test_resume_of_a_periodic_task_goes_to_the_next_future_occurrence_and_starts_anew(
    moving: TaskCenter, clock: Clock
) -> None:
    (task_id,) = moving.intake.insert([periodic(NOON, "0 * * * *", max_retry=3)])
    clock.move(hours=1)
    desk = moving.worker_desk(W1)
    (claimed,) = desk.claim(messages(dispatch(moving))).won
    desk.finish([failed(claimed, delay=1.0)])
    clock.move(seconds=2)
    assert dispatch(moving).won
    moving.people.pause(task_id, "ann")
    clock.move(hours=5)
    moving.people.resume(task_id, "ann")
    found = task(moving, task_id)
    assert found.plan_next_run_at == found.occurrence_at == instant(2026, 6, 1, 19)
    assert (found.next_fire_at, found.retry_count) == (instant(2026, 6, 1, 20), 0)
    clock.at = instant(2026, 6, 1, 19)
    (again,) = desk.claim(messages(dispatch(moving))).won
    assert again.occurrence_at == clock.at
    assert len(occurrences(moving, task_id, "fired")) == 2


def test_a_cancelled_periodic_task_that_is_retried_runs_at_once_and_then_by_its_rhythm(
    moving: TaskCenter, clock: Clock
) -> None:
    (task_id,) = moving.intake.insert([periodic(NOON, "0 * * * *")])
    moving.people.cancel(task_id, "ann")
    clock.move(hours=3, minutes=10)
    moving.people.retry(task_id, "ann")
    desk = moving.worker_desk(W1)
    (claimed,) = desk.claim(messages(dispatch(moving))).won
    assert claimed.occurrence_at is None
    desk.finish([succeeded(claimed)])
    assert task(moving, task_id).occurrence_at == instant(2026, 6, 1, 16)


def test_a_periodic_task_is_never_given_up(moving: TaskCenter, clock: Clock) -> None:
    moving.intake.insert([periodic(NOON)])
    clock.move(minutes=1)
    desk = moving.worker_desk(W1)
    (claimed,) = desk.claim(messages(dispatch(moving))).won
    desk.finish([failed(claimed)])
    with pytest.raises(IllegalMove, match="a periodic task is not given up"):
        moving.people.give_up(claimed.id, "ann")
    assert task(moving, claimed.id).status == Status.FAILED
