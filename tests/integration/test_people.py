"""What a person may do to a task: from which statuses, with what effect, and that it is recorded who did it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from taskkit.center import TaskCenter
from taskkit.errors import IllegalMove, KeyTaken, NotFound
from taskkit.states import Status
from tests.centers import (
    at_once,
    columns,
    dispatch,
    in_status,
    new,
    sql,
    start,
    task,
)

pytest_plugins = ["tests.center_fixtures"]

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
def test_rule_22_a_key_that_another_task_has_taken_since_is_a_named_refusal(
    center: TaskCenter, verb: str, status: int
) -> None:
    """It names the task that holds the key, and changes nothing."""
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
