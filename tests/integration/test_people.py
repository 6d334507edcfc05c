"""What a person may do to a task: from which statuses, with what effect, and that it is recorded who did it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from taskkit.center import TaskCenter
from taskkit.errors import IllegalMove, KeyTaken, NotFound
from taskkit.states import Status
from tests.centers import (
    Clock,
    at_once,
    columns,
    dispatch,
    failed,
    in_status,
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

NOON = instant(2026, 6, 1, 12)
W1 = "host-1:11:aaaa"
MOVES = {
    "run_now": {0: 0, 3: 0, 4: 0},
    "retry": {5: 0, 6: 0},
    "give_up": {4: 5},
    "cancel": {0: 6, 1: 6, 2: 2, 4: 6, 5: 6, 7: 6},
    "pause": {0: 7, 1: 7},
    "resume": {7: 0},
}
ACTIONS = {"pause": "hold", "resume": "release"}


@pytest.fixture
def clock() -> Clock:
    return Clock(NOON)


@pytest.fixture
def moving(center_url: str, clock: Clock) -> Iterator[TaskCenter]:
    center = on_clock(center_url, clock)
    yield center
    center.close()


def actions(center: TaskCenter, task_id: int) -> list[tuple[str, str, str]]:
    rows = sql(
        center, "SELECT actor, action, detail FROM task_action WHERE task_id = :i ORDER BY id", i=task_id
    )
    return [tuple(row) for row in rows]


@pytest.mark.parametrize("verb", MOVES)
def test_a_move_of_a_person_works_where_it_exists_and_raises_with_the_story_elsewhere(
    center: TaskCenter, verb: str
) -> None:
    act = getattr(center.people, verb)
    for status in Status:
        task_id = in_status(center, status)
        sql(center, "DELETE FROM task_action")
        before = task(center, task_id)
        if status in MOVES[verb]:
            to = Status(MOVES[verb][int(status)])
            assert act(task_id, "ann@desk") == task(center, task_id).status == to
            detail = f"{status.label} -> {to.label}"
            assert actions(center, task_id) == [("ann@desk", ACTIONS.get(verb, verb), detail)]
            continue
        story = rf"task {task_id} \(mail\): cannot .* that is {status.label};"
        with pytest.raises(IllegalMove, match=story):
            act(task_id, "ann@desk")
        assert (task(center, task_id), actions(center, task_id)) == (before, [])


def test_there_must_be_such_a_task(center: TaskCenter) -> None:
    for verb in MOVES:
        with pytest.raises(NotFound, match="no task 999"):
            getattr(center.people, verb)(999, "ann")


@pytest.mark.parametrize("status", [0, 3, 4])
def test_run_now_makes_a_task_due_at_once(center: TaskCenter, status: int) -> None:
    task_id = in_status(center, Status(status))
    sql(
        center,
        "UPDATE task_center SET plan_next_run_at = '2037-01-01 00:00:00', retry_count = 2 WHERE id = :i",
        i=task_id,
    )
    center.people.run_now(task_id, "ann")
    assert [w.id for w in dispatch(center).won] == [task_id]
    assert task(center, task_id).retry_count == 0


@pytest.mark.parametrize("status", [Status.GIVEN_UP, Status.CANCELLED])
def test_retry_starts_afresh_under_a_new_attempt(center: TaskCenter, status: Status) -> None:
    task_id = in_status(center, status)
    sql(center, "UPDATE task_center SET retry_count = 3, lost_count = 2 WHERE id = :i", i=task_id)
    attempt = task(center, task_id).attempt
    center.people.retry(task_id, "ann")
    found = task(center, task_id)
    assert (found.retry_count, found.lost_count) == (0, 0)
    (won,) = dispatch(center).won
    assert won.attempt == attempt + 1


def test_a_task_that_expired_can_be_retried_by_a_person_and_does_not_expire_again(center: TaskCenter) -> None:
    gone = center.now() - timedelta(seconds=5)
    (task_id,) = center.intake.insert([new(expires_at=gone)])
    assert dispatch(center).expired == [task_id]
    center.people.retry(task_id, "ann")
    assert [w.id for w in dispatch(center).won] == [task_id]
    later = center.now() + timedelta(hours=1)
    (kept,) = center.intake.insert([new(expires_at=later)])
    center.people.run_now(kept, "ann")
    assert task(center, kept).expires_at == later


@pytest.mark.parametrize(("verb", "status"), [("run_now", 3), ("retry", 5), ("retry", 6)])
def test_a_key_that_another_task_has_taken_since_is_a_named_refusal(
    center: TaskCenter, verb: str, status: int
) -> None:
    """Rule 22."""
    task_id = in_status(center, Status(status), unique_key="order 7")
    (holder,) = center.intake.insert([new(unique_key="order 7")])
    before = task(center, task_id)
    with pytest.raises(
        KeyTaken, match=f"task {task_id} cannot .*'order 7' is held by task {holder}"
    ) as raised:
        getattr(center.people, verb)(task_id, "ann")
    assert raised.value.holder == holder
    assert task(center, task_id) == before
    assert [a for a in actions(center, task_id) if a[1] == verb] == []
    center.people.cancel(holder, "ann")
    assert getattr(center.people, verb)(task_id, "ann") == Status.PENDING


def test_a_cancel_is_said_in_the_row_and_a_running_task_is_only_asked(center: TaskCenter) -> None:
    waiting, (running,) = in_status(center, Status.PENDING), start(center, W1)
    center.people.cancel(waiting, "ann")
    assert task(center, waiting).last_result == "cancelled by ann"
    assert center.people.cancel(running.id, "ann") == Status.RUNNING
    found = task(center, running.id)
    assert (found.status, found.worker_id) == (Status.RUNNING, W1)
    assert found.cancel_requested_at is not None


def test_a_pause_keeps_its_reason_and_leaves_nothing_to_scan(center: TaskCenter) -> None:
    ids = [in_status(center, s) for s in (Status.PENDING, Status.DISPATCHED)]
    for task_id in ids:
        center.people.pause(task_id, "ann", "month's end")
        assert task(center, task_id).held_reason == "paused by ann: month's end"
    assert center.dispatch.due_lists()[0] == []
    for task_id in ids:
        center.people.resume(task_id, "bob")
        assert columns(center, task_id, "held_reason, held_at") == (None, None)
    assert len(dispatch(center).won) == 2


def test_whatever_a_person_is_called_the_move_is_recorded(center: TaskCenter) -> None:
    for name in ("ä" * 300, "😀" * 150, "\ud800 from the command line", "", "a\0b"):
        task_id = in_status(center, Status.PENDING)
        center.people.pause(task_id, name, name)
        center.people.cancel(task_id, name)
        assert len(actions(center, task_id)) == 2


def test_two_people_at_once_make_one_move(center_url: str) -> None:
    centers = [TaskCenter(center_url) for _ in range(4)]
    task_id = in_status(centers[0], Status.GIVEN_UP)

    def act(number: int) -> bool:
        try:
            centers[number].people.retry(task_id, f"person {number}")
        except IllegalMove:
            return False
        return True

    assert sorted(at_once(4, act)) == [False, False, False, True]
    assert len(actions(centers[0], task_id)) == 1
    for center in centers:
        center.close()


def test_run_now_of_a_periodic_task_keeps_its_rhythm(moving: TaskCenter, clock: Clock) -> None:
    """SCHED-10 a: every minute at :00, 1.2 s each, a run by hand at 12:18:17."""
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


def test_times_that_pass_during_a_run_by_hand_are_skipped_and_not_missed(
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
