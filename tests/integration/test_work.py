"""Claiming: each attempt is handed to one worker once, and each message gets exactly one answer."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from taskkit.center import TaskCenter
from taskkit.model import Claims, Message, NewTask
from taskkit.states import Status
from tests.centers import (
    at_once,
    dispatch,
    in_status,
    messages,
    new,
    sql,
    task,
)

pytest_plugins = ["tests.center_fixtures"]

W1, W2 = "host-1:11:aaaa", "host-2:22:bbbb"


def queued(center: TaskCenter, *tasks: NewTask) -> list[Message]:
    """Messages of dispatched tasks, as they stand in the broker."""
    ids = center.intake.insert(tasks or [new()])
    return messages(center.dispatch.claim(ids))


def answers(claims: Claims) -> dict[str, int]:
    names = ("won", "duplicates", "expired", "missing")
    return {name: len(getattr(claims, name)) for name in names if getattr(claims, name)}


def test_a_claimed_task_carries_all_that_its_run_needs(center: TaskCenter) -> None:
    asked = new(payload='{"a": "😀"}', timeout=7, max_retry=2, retry_delays="1,2", trace_id="t", priority=1)
    (message,) = queued(center, asked)
    (won,) = center.worker_desk(W1).claim([message]).won
    assert (won.id, won.task_code, won.attempt, won.queue) == (message.task_id, "mail", 1, "q")
    assert (won.payload, won.timeout, won.max_retry, won.retry_delays) == ('{"a": "😀"}', 7, 2, "1,2")
    assert (won.trace_id, won.retry_count, won.suspect, won.task_type) == ("t", 0, False, 0)
    found = task(center, won.id)
    assert (found.status, found.worker_id, found.claimed_at) == (Status.RUNNING, W1, won.claimed_at)
    assert center.worker_desk(W1).claim([]) == Claims()


def test_rule_09_twenty_messages_of_one_task_and_five_workers_give_one_run(center_url: str) -> None:
    """Which of the five wins is chance; that one does is the guarded UPDATE."""
    centers = [TaskCenter(center_url) for _ in range(5)]
    (message,) = queued(centers[0])
    claims = at_once(5, lambda n: centers[n].worker_desk(f"host:{n}:x").claim([message] * 4))
    won = [one for claim in claims for one in claim.won]
    assert (len(won), sum(len(claim.duplicates) for claim in claims)) == (1, 19)
    assert task(centers[0], message.task_id).attempt == 1
    for center in centers:
        center.close()


def test_each_message_gets_exactly_one_answer(center: TaskCenter) -> None:
    now = center.now()
    good, twice, old, future, by_hand, both, gone, late = queued(
        center, *[new()] * 7, new(expires_at=now + timedelta(hours=1))
    )
    sql(
        center,
        "UPDATE task_center SET expires_at = :at WHERE id = :i",
        at=center.database.dialect.bind(now - timedelta(seconds=1)),
        i=late.task_id,
    )
    sql(center, "DELETE FROM task_center WHERE id = :i", i=gone.task_id)
    sql(center, "UPDATE task_center SET attempt = 2 WHERE id = :i", i=old.task_id)
    asked = [
        good, twice, twice, old, replace(future, attempt=2), replace(by_hand, attempt=None),
        both, replace(both, attempt=None), gone, replace(gone, attempt=None), late, replace(good, attempt=0),
    ]  # fmt: skip
    claims = center.worker_desk(W1).claim(asked)
    won = [good, twice, by_hand, both]
    assert [(c.id, c.attempt) for c in claims.won] == [(m.task_id, 1) for m in won]
    assert [m.task_id for m in claims.missing] == [gone.task_id, gone.task_id]
    assert claims.expired == [late]
    assert [(m.task_id, m.attempt) for m in claims.duplicates] == [
        (twice.task_id, 1),
        (old.task_id, 1),
        (future.task_id, 2),
        (both.task_id, None),
        (good.task_id, 0),
    ]
    assert task(center, old.task_id).status == task(center, future.task_id).status == Status.DISPATCHED
    assert task(center, late.task_id).status == Status.CANCELLED


def test_rule_09_the_same_message_in_a_later_batch_is_not_handed_out_again_to_the_same_worker(
    center: TaskCenter,
) -> None:
    """Reading back by worker_id would hand a doubled message to the same worker twice."""
    (message,) = queued(center)
    desk = center.worker_desk(W1)
    assert answers(desk.claim([message])) == {"won": 1}
    assert answers(desk.claim([message])) == {"duplicates": 1}
    assert answers(desk.claim([replace(message, attempt=None)])) == {"duplicates": 1}
    (claimed,) = desk.claim(queued(center)).won
    assert claimed.id != message.task_id


@pytest.mark.parametrize("status", [Status.RUNNING, Status.SUCCESS, Status.FAILED, Status.PENDING])
@pytest.mark.parametrize("attempt", [1, None], ids=["with attempt", "by hand"])
def test_rule_09_a_duplicate_that_arrives_later_has_no_effect(
    center: TaskCenter, status: Status, attempt: int | None
) -> None:
    """In particular a pending retry does not start before its time."""
    task_id = in_status(center, status)
    before = task(center, task_id)
    claims = center.worker_desk(W2).claim([Message(task_id, "mail", attempt)])
    assert answers(claims) == {"duplicates": 1}
    assert task(center, task_id) == before


def test_rule_09_a_message_of_an_earlier_attempt_does_not_start_the_next_one(center: TaskCenter) -> None:
    (stale,) = queued(center)
    batch = center.dispatch.claim([stale.task_id])
    assert batch.won == []
    center.people.pause(stale.task_id, "ann")
    center.people.resume(stale.task_id, "ann")
    (fresh,) = messages(dispatch(center))
    assert (stale.attempt, fresh.attempt) == (1, 2)
    desk = center.worker_desk(W1)
    assert answers(desk.claim([stale])) == {"duplicates": 1}
    assert [c.attempt for c in desk.claim([fresh]).won] == [2]


def test_a_message_of_another_task_with_this_id_claims_nothing(center: TaskCenter) -> None:
    """As after a restore of SQL: an old message names an id that is another task's now."""
    (task_id,) = center.intake.insert([new("report", max_retry=0)])
    center.dispatch.claim([task_id])
    desk = center.worker_desk("host:1:w")
    foreign, ours = Message(task_id, "mail", 1), Message(task_id, "report", 1)
    claims = desk.claim([foreign])
    assert (claims.won, claims.duplicates, claims.missing) == ([], [foreign], [])
    assert [won.id for won in desk.claim([ours]).won] == [task_id]
