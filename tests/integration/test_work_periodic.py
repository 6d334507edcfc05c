"""Retries and occurrences: what a row stands for after an attempt has ended."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from taskkit.center import TaskCenter
from taskkit.model import Claimed
from taskkit.states import DEFAULT_RETRY, Move, Outcome, RetryPolicy, Status, judge
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
    sql,
    start,
    succeeded,
    task,
)

pytest_plugins = ["tests.center_fixtures"]

W1, W2 = "host-1:11:aaaa", "host-2:22:bbbb"


def attempts(
    center: TaskCenter, clock: Clock, task_id: int, until: float, policy: RetryPolicy
) -> list[float]:
    """Seconds after the first at which a task that always fails was started."""
    begun, starts, desk = clock.at, [], center.worker_desk(W1)
    while (clock.at - begun).total_seconds() <= until:
        for claimed in desk.claim(messages(dispatch(center))).won:
            starts.append((clock.at - begun).total_seconds())
            verdict = judge(
                Outcome.FAILED, periodic=False, retry_count=claimed.retry_count, max_retry=claimed.max_retry,
                policy=policy, rng=random.Random(1),
            )  # fmt: skip
            end = failed(claimed, delay=verdict.delay)
            desk.finish([replace(end, move=verdict.move, retry_count=verdict.retry_count)])
        following = task(center, task_id).plan_next_run_at
        wait = (following - clock.at).total_seconds() if following and following > clock.at else 1000
        clock.move(seconds=wait)
    return starts


@pytest.mark.parametrize(
    ("most", "starts"), [(3, [0, 5, 35, 155]), (0, [0]), (1, [0, 5])], ids=["3", "0", "1"]
)
def test_retries_start_after_5_30_and_120_seconds_and_then_the_task_is_given_up(
    center_url: str, most: int, starts: list[float]
) -> None:
    clock = Clock(instant(2026, 6, 1, 12))
    center = on_clock(center_url, clock)
    (task_id,) = center.intake.insert([new(max_retry=most, plan_next_run_at=clock.at)])
    assert attempts(center, clock, task_id, 2000, RetryPolicy(jitter=0)) == starts
    found = task(center, task_id)
    assert (found.status, found.retry_count, found.attempt) == (Status.GIVEN_UP, most, most + 1)
    assert len(center.read.runs([task_id])) == most + 1
    center.close()


def test_a_restart_in_the_back_off_neither_shortens_nor_repeats_it(center_url: str) -> None:
    """The delay is an instant in the row, not a countdown in a process."""
    before, after = TaskCenter(center_url), TaskCenter(center_url)
    (claimed,) = start(before, W1)
    before.worker_desk(W1).finish([failed(claimed, delay=30.0)])
    before.close()
    planned = task(after, claimed.id).plan_next_run_at
    assert dispatch(after).won == []
    assert task(after, claimed.id).plan_next_run_at == planned
    after.close()


def test_300_requeues_by_hand_overflow_nothing(center: TaskCenter) -> None:
    """retry_count is a byte; attempt counts on."""
    (task_id,) = center.intake.insert([new(max_retry=255)])
    sql(center, "UPDATE task_center SET retry_count = 255, attempt = 299 WHERE id = :i", i=task_id)
    desk = center.worker_desk(W1)
    for _ in range(2):
        (claimed,) = desk.claim(messages(center.dispatch.claim([task_id]))).won
        verdict = judge(
            Outcome.FAILED, periodic=False, retry_count=claimed.retry_count, max_retry=claimed.max_retry,
            policy=DEFAULT_RETRY, rng=random.Random(1),
        )  # fmt: skip
        end = failed(claimed, delay=verdict.delay)
        desk.finish([replace(end, move=verdict.move, retry_count=verdict.retry_count)])
        if verdict.move is Move.FAIL:
            center.people.give_up(task_id, "ann")
        center.people.retry(task_id, "ann")
    found = task(center, task_id)
    assert (found.attempt, found.retry_count, found.status) == (301, 0, Status.PENDING)


def periodic_run(center: TaskCenter, clock: Clock, **fields: Any) -> Claimed:
    """A minutely task, planned ahead, whose first occurrence runs."""
    center.intake.insert([periodic(clock.at, **fields)])
    center.plan.sweep()
    clock.at = instant(2026, 6, 1, 12, 1)
    (claimed,) = center.worker_desk(W1).claim(messages(dispatch(center))).won
    return claimed


def test_a_periodic_task_that_ends_stands_for_its_next_occurrence(center_url: str) -> None:
    clock = Clock(instant(2026, 6, 1, 12))
    center = on_clock(center_url, clock)
    claimed = periodic_run(center, clock, max_retry=1)
    clock.move(seconds=1.2)
    center.worker_desk(W1).finish([succeeded(claimed)])
    found = task(center, claimed.id)
    assert (found.status, found.retry_count) == (Status.PENDING, 0)
    assert found.plan_next_run_at == found.occurrence_at == instant(2026, 6, 1, 12, 2)
    assert found.next_fire_at == instant(2026, 6, 1, 12, 3)
    (fired,) = occurrences(center, claimed.id, "fired")
    assert (fired.planned_at, fired.outcome) == (instant(2026, 6, 1, 12, 1), "success")
    center.close()


def test_sched_10_c_fire_times_that_pass_while_it_runs_are_skipped_and_the_grid_stays(
    center_url: str,
) -> None:
    clock = Clock(instant(2026, 6, 1, 12))
    center = on_clock(center_url, clock)
    claimed = periodic_run(center, clock)
    clock.move(seconds=130)
    assert dispatch(center).won == []
    center.worker_desk(W1).finish([succeeded(claimed)])
    assert task(center, claimed.id).occurrence_at == instant(2026, 6, 1, 12, 4)
    skipped = occurrences(center, claimed.id, "skipped")
    assert [(o.planned_at.minute, o.reason) for o in skipped] == [(2, "still running"), (3, "still running")]
    center.close()


def test_rule_20_an_occurrence_keeps_its_planned_time_through_all_attempts_and_the_next_starts_anew(
    center_url: str,
) -> None:
    """Back-off never overwrites occurrence_at; retry_count starts anew with each occurrence."""
    clock = Clock(instant(2026, 6, 1, 12))
    center = on_clock(center_url, clock)
    claimed = periodic_run(center, clock, cron="1 * * * *", max_retry=2)
    desk = center.worker_desk(W1)
    for count in (1, 2):
        desk.finish([failed(claimed, delay=30.0)])
        found = task(center, claimed.id)
        assert (found.status, found.retry_count) == (Status.FAILED, count)
        assert (found.occurrence_at, found.plan_next_run_at) == (
            instant(2026, 6, 1, 12, 1),
            clock.at + timedelta(seconds=30),
        )
        clock.move(seconds=30)
        (claimed,) = desk.claim(messages(dispatch(center))).won
        assert claimed.occurrence_at == instant(2026, 6, 1, 12, 1)
    desk.finish([replace(failed(claimed), move=Move.NEXT_OCCURRENCE, retry_count=0)])
    found = task(center, claimed.id)
    assert (found.status, found.retry_count, found.occurrence_at) == (0, 0, instant(2026, 6, 1, 13, 1))
    (fired,) = occurrences(center, claimed.id, "fired")
    assert (fired.attempt, fired.outcome) == (1, "given_up")
    assert [run.occurrence_at for run in center.read.runs([claimed.id])] == [instant(2026, 6, 1, 12, 1)] * 3
    center.close()


def test_a_schedule_broken_by_hand_while_it_ran_does_not_start_the_task_again_and_again(
    center_url: str,
) -> None:
    clock = Clock(instant(2026, 6, 1, 12))
    center = on_clock(center_url, clock)
    claimed = periodic_run(center, clock)
    sql(center, "UPDATE task_center SET cron_expr = '0 0 30 2 *' WHERE id = :i", i=claimed.id)
    assert center.worker_desk(W1).finish([succeeded(claimed)]) == []
    clock.move(seconds=5)
    assert dispatch(center).won == []
    center.plan.adopt(center.dispatch.due_lists()[0])
    found = task(center, claimed.id)
    assert (found.status, found.plan_next_run_at) == (Status.HELD, None)
    assert (found.held_reason or "").startswith("invalid: cron:")
    sql(center, "UPDATE task_center SET cron_expr = '0 * * * *' WHERE id = :i", i=claimed.id)
    center.people.resume(claimed.id, "ann")
    assert task(center, claimed.id).occurrence_at == instant(2026, 6, 1, 13)
    center.close()


def test_a_task_made_periodic_by_hand_while_it_ran_goes_on_and_one_made_one_off_ends(center_url: str) -> None:
    clock = Clock(instant(2026, 6, 1, 12))
    center = on_clock(center_url, clock)
    was_periodic = periodic_run(center, clock)
    (was_once,) = start(center, W1, new(plan_next_run_at=clock.at))
    sql(center, "UPDATE task_center SET task_type = 0, cron_expr = NULL WHERE id = :i", i=was_periodic.id)
    sql(center, "UPDATE task_center SET task_type = 1, cron_expr = '0 * * * *' WHERE id = :i", i=was_once.id)
    assert center.worker_desk(W1).finish([succeeded(was_periodic), succeeded(was_once)]) == []
    assert task(center, was_periodic.id).status == Status.SUCCESS
    found = task(center, was_once.id)
    assert (found.status, found.occurrence_at) == (Status.PENDING, instant(2026, 6, 1, 13))
    center.close()


def test_a_cancel_asked_for_while_a_periodic_task_runs_ends_it_even_if_the_run_succeeds(
    center_url: str,
) -> None:
    clock = Clock(instant(2026, 6, 1, 12))
    center = on_clock(center_url, clock)
    claimed = periodic_run(center, clock)
    center.people.cancel(claimed.id, "ann")
    assert center.worker_desk(W1).finish([succeeded(claimed)]) == []
    assert task(center, claimed.id).status == Status.CANCELLED
    assert [o.outcome for o in occurrences(center, claimed.id, "fired")] == ["success"]
    center.close()


def test_the_last_occurrence_that_mysql_can_hold_can_end(mariadb_center_url: str) -> None:
    """``0 0 29 2 */7`` fires in 2032 and then in 2060: its end must not stop those of other tasks."""
    clock = Clock(instant(2032, 2, 28))
    center = on_clock(mariadb_center_url, clock)
    center.intake.insert([periodic(clock.at, "0 0 29 2 */7")])
    center.plan.sweep()
    clock.at = instant(2032, 2, 29)
    (claimed,) = center.worker_desk(W1).claim(messages(dispatch(center))).won
    center.plan.sweep()
    assert center.worker_desk(W1).finish([succeeded(claimed)]) == []
    center.plan.adopt(center.dispatch.due_lists()[0])
    center.plan.sweep()
    found = task(center, claimed.id)
    assert (found.status, "2060-02-29" in (found.held_reason or "")) == (Status.HELD, True)
    center.close()
