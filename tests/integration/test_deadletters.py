"""Dead letters in the task center: grouped by the fingerprint of the last error, and what became of them later."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from taskkit.center import DeadFilter, TaskCenter
from taskkit.errors import IllegalMove
from taskkit.fingerprints import fingerprint
from taskkit.model import Claimed
from taskkit.states import Move, Outcome, Status
from tests import centers

pytest_plugins = ["tests.center_fixtures"]
WORKER = "host:1:worker"
TRACE = 'Traceback (most recent call last):\n  File "/srv/shop/tasks.py", line 7, in {}\n    x\n{}\n'


def ended(center: TaskCenter, claimed: Claimed, error: str, outcome: Outcome = Outcome.FAILED) -> None:
    """A last attempt: nothing is left to try."""
    end = centers.failed(claimed, error=error, traceback=TRACE.format("send", error))
    move = Move.NEXT_OCCURRENCE if claimed.task_type == 1 else Move.EXHAUST
    center.worker_desk(WORKER).finish([replace(end, outcome=outcome, move=move, retry_count=0)])


def gave_up(center: TaskCenter, error: str = "ValueError: order 1", **fields: str) -> int:
    (claimed,) = centers.start(center, WORKER, centers.new(**fields))
    ended(center, claimed, error)
    return claimed.id


def test_tasks_that_gave_up_for_one_cause_stand_together(center: TaskCenter) -> None:
    orders = [gave_up(center, f"ValueError: order {n} is broken") for n in range(3)]
    orders.append(gave_up(center, "ValueError: order 99 is broken", task_code="charge", queue="money"))
    other = gave_up(center, "KeyError: 'mail'")
    centers.in_status(center, Status.FAILED)
    centers.in_status(center, Status.SUCCESS)
    most, least = center.dead.groups()
    assert (most.count, most.codes, most.queues) == (4, ("charge", "mail"), ("money", "q"))
    assert most.sample_id in orders
    assert most.message == "ValueError: order <n> is broken [tasks.py:send]"
    assert most.first_at <= most.last_at <= center.now()
    assert (least.count, least.sample_id, least.message) == (1, other, "KeyError: 'mail' [tasks.py:send]")
    assert most.fingerprint == center.read.runs(orders[:1])[0].fingerprint != least.fingerprint
    assert [g.fingerprint for g in center.dead.groups(newest=True)] == [least.fingerprint, most.fingerprint]
    assert center.dead.groups(limit=1) == [most]
    assert [task_id for task_id, _ in center.dead.members(str(most.fingerprint))] == orders


def test_dead_letters_are_chosen_by_code_queue_and_age(center: TaskCenter) -> None:
    old, new = gave_up(center), gave_up(center, task_code="charge", queue="money")
    at = center.database.dialect.bind(center.now() - timedelta(hours=3))
    centers.sql(center, "UPDATE task_center SET updated_at = :at WHERE id = :id", at=at, id=old)
    (print_,) = {str(group.fingerprint) for group in center.dead.groups()}
    for wanted, ids in (
        (DeadFilter(), [old, new]),
        (DeadFilter(code="charge"), [new]),
        (DeadFilter(queue="q"), [old]),
        (DeadFilter(since=center.now() - timedelta(hours=1)), [new]),
        (DeadFilter(code="charge", queue="q"), []),
    ):
        assert [task_id for task_id, _ in center.dead.members(print_, wanted)] == ids
        assert sum(group.count for group in center.dead.groups(wanted)) == len(ids)


def test_a_task_is_counted_by_its_last_error_only(center: TaskCenter) -> None:
    (claimed,) = centers.start(center, WORKER, centers.new())
    center.worker_desk(WORKER).finish([centers.failed(claimed, error="OSError: first", delay=0.0)])
    batch = center.dispatch.claim([claimed.id])
    (again,) = center.worker_desk(WORKER).claim(centers.messages(batch)).won
    ended(center, again, "OSError: second")
    (group,) = center.dead.groups()
    assert (group.count, group.message) == (1, "OSError: second [tasks.py:send]")
    first = fingerprint(Outcome.FAILED, "mail", "OSError: first", None)
    assert center.dead.members(str(first)) == []


@pytest.mark.parametrize("outcome", [Outcome.TIMEOUT, Outcome.LOST, Outcome.GIVEN_UP, Outcome.FAILED])
def test_every_way_to_give_up_has_a_fingerprint(center: TaskCenter, outcome: Outcome) -> None:
    (claimed,) = centers.start(center, WORKER, centers.new())
    ended(center, claimed, "it ended", outcome)
    (run,) = center.read.runs([claimed.id])
    assert run.fingerprint is not None
    assert [group.fingerprint for group in center.dead.groups()] == [run.fingerprint]


def test_a_good_end_has_none(center: TaskCenter) -> None:
    (claimed,) = centers.start(center, WORKER, centers.new())
    center.worker_desk(WORKER).finish([centers.succeeded(claimed)])
    assert [run.fingerprint for run in center.read.runs([claimed.id])] == [None]


def test_a_dead_letter_without_its_runs_is_still_shown(center: TaskCenter) -> None:
    task_id = gave_up(center, "ValueError: order 1")
    centers.sql(center, "DELETE FROM task_run")
    (group,) = center.dead.groups()
    assert (group.fingerprint, group.sample_id, group.message) == (None, task_id, "ValueError: order <n>")


def test_an_occurrence_that_was_given_up_is_found_though_its_task_goes_on(center: TaskCenter) -> None:
    now = center.now()
    at = (now - timedelta(minutes=1)).replace(second=0, microsecond=0)
    asked = centers.periodic(now, plan_next_run_at=at)
    (claimed,) = centers.start(center, WORKER, asked)
    ended(center, claimed, "ValueError: report 7 is empty")
    assert center.read.task(claimed.id).status is Status.PENDING
    assert center.dead.groups() == []
    (group,) = center.dead.occurrence_groups(now - timedelta(hours=1))
    assert (group.count, group.codes, group.sample_id) == (1, ("mail",), claimed.id)
    assert group.message == "ValueError: report <n> is empty [tasks.py:send]"
    assert center.dead.occurrence_groups(now - timedelta(hours=1), DeadFilter(code="other")) == []
    assert center.dead.occurrence_groups(now + timedelta(hours=1)) == []


def test_what_became_of_tasks_is_read_from_their_runs(center: TaskCenter) -> None:
    task_id = gave_up(center)
    (found,) = center.dead.afterwards([task_id, 999_999])
    assert (found.task_id, found.status) == (task_id, Status.GIVEN_UP)
    assert [(attempt, outcome) for attempt, outcome, _ in found.runs] == [(1, Outcome.FAILED)]
    (fresh,) = center.intake.insert([centers.new()])
    assert center.dead.afterwards([fresh])[0].runs == ()
    assert center.dead.afterwards([]) == []


def test_a_retry_of_what_gave_up_happens_once_for_each_time_it_gave_up(center: TaskCenter) -> None:
    task_id = gave_up(center)
    assert center.people.retry(task_id, "ann", 1) is Status.PENDING
    with pytest.raises(IllegalMove, match="cannot retry a task that is pending"):
        center.people.retry(task_id, "bob", 1)
    batch = center.dispatch.claim([task_id])
    (claimed,) = center.worker_desk(WORKER).claim(centers.messages(batch)).won
    ended(center, claimed, "ValueError: order 1")
    assert center.read.task(task_id).status is Status.GIVEN_UP
    with pytest.raises(IllegalMove, match="no longer what gave up with attempt 1"):
        center.people.retry(task_id, "bob", 1)
    center.people.cancel(task_id, "ann")
    with pytest.raises(IllegalMove, match="no longer"):
        center.people.retry(task_id, "bob", 2)


def test_two_at_once_retry_a_task_once(center: TaskCenter) -> None:
    task_id = gave_up(center)

    def retry(number: int) -> bool:
        try:
            center.people.retry(task_id, f"person-{number}", 1)
        except IllegalMove:
            return False
        return True

    assert sorted(centers.at_once(4, retry)) == [False, False, False, True]
    actions = centers.sql(center, "SELECT actor FROM task_action WHERE action = 'retry'")
    assert len(actions) == 1
