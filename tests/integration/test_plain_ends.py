"""Many successes in one guarded UPDATE: written when every row is as thought, and with care when one is not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta

import pytest
from msgspec.structs import replace

from taskkit.center import TaskCenter
from taskkit.center.plain_ends import plain
from taskkit.model import Claimed, Finish
from taskkit.states import Outcome, Status
from tests.centers import columns, failed, new, periodic, sql, start, succeeded, task
from tests.unit.test_verdicts import claimed as made

pytest_plugins = ["tests.center_fixtures"]

W1, W2 = "host-1:11:aaaa", "host-2:22:bbbb"
MANY = 20


def good(tasks: Sequence[Claimed], **fields: object) -> list[Finish]:
    return [succeeded(one, finished_at=one.claimed_at + timedelta(seconds=1), **fields) for one in tasks]


def outcomes(center: TaskCenter, ids: Sequence[int]) -> list[tuple[int, int, str]]:
    return [(run.task_id, run.attempt, run.outcome.value) for run in center.read.runs(list(ids))]


def test_rule_11_successes_that_are_alike_are_written_with_their_runs(center: TaskCenter) -> None:
    tasks = start(center, W1, *[new()] * MANY)
    sql(center, "UPDATE task_center SET lost_count = 1, suspect = 1, retry_count = 2")
    ends = good(tasks, result="null", last_result="null")
    assert len(plain(ends)) == MANY
    assert center.worker_desk(W1).finish(ends) == []
    ids = [one.id for one in tasks]
    found = center.read.tasks(ids)
    assert {(one.status, one.result, one.last_result) for one in found} == {(Status.SUCCESS, "null", "null")}
    assert {columns(center, i, "lost_count, suspect, retry_count, token, spare") for i in ids} == {
        (0, 0, 0, None, None)
    }
    assert outcomes(center, ids) == [(i, 1, "success") for i in ids]
    assert {run.finished_at for run in center.read.runs(ids)} == {end.finished_at for end in ends}


def taken_away(center: TaskCenter, one: Claimed) -> None:
    sql(center, "UPDATE task_center SET attempt = 2, worker_id = :w WHERE id = :id", w=W2, id=one.id)


def given_back(center: TaskCenter, one: Claimed) -> None:
    sql(center, "UPDATE task_center SET status = 0 WHERE id = :id", id=one.id)


@pytest.mark.parametrize("lose", [taken_away, given_back])
def test_rule_10_one_that_is_no_longer_ours_changes_nothing_and_keeps_no_other_waiting(
    center: TaskCenter, lose: Callable[[TaskCenter, Claimed], None]
) -> None:
    tasks = start(center, W1, *[new()] * MANY)
    lose(center, tasks[7])
    before = task(center, tasks[7].id)
    ends = good(tasks)
    assert center.worker_desk(W1).finish(ends) == [ends[7]]
    assert task(center, tasks[7].id) == before
    others = [one.id for one in tasks if one is not tasks[7]]
    assert {one.status for one in center.read.tasks(others)} == {Status.SUCCESS}
    ids = [one.id for one in tasks]
    assert [name for *_, name in outcomes(center, ids)].count("superseded") == 1


def test_one_that_a_person_wants_cancelled_is_ended_with_care(center: TaskCenter) -> None:
    tasks = start(center, W1, *[new()] * MANY)
    sql(
        center,
        "UPDATE task_center SET cancel_requested_at = claimed_at WHERE id IN (:a, :b)",
        a=tasks[0].id,
        b=tasks[9].id,
    )
    assert center.worker_desk(W1).finish(good(tasks)) == []
    found = center.read.tasks([one.id for one in tasks])
    assert {one.status for one in found} == {Status.SUCCESS}
    assert sql(center, "SELECT COUNT(*) FROM task_center WHERE cancel_requested_at IS NOT NULL") == [(0,)]


def test_a_task_that_became_periodic_meanwhile_is_planned_on(center: TaskCenter) -> None:
    tasks = start(center, W1, *[new()] * MANY)
    changed = tasks[3].id
    sql(
        center,
        "UPDATE task_center SET task_type = 1, cron_expr = '0 3 * * *', timezone = 'UTC' WHERE id = :id",
        id=changed,
    )
    assert center.worker_desk(W1).finish(good(tasks)) == []
    found = {one.id: one for one in center.read.tasks([one.id for one in tasks])}
    assert found.pop(changed).status is Status.PENDING
    assert {one.status for one in found.values()} == {Status.SUCCESS}


def test_ends_that_need_a_look_go_with_care_beside_the_others(center: TaskCenter) -> None:
    tasks = start(center, W1, *[new()] * MANY)
    cron = start(center, W1, periodic(center.now() - timedelta(minutes=1)))
    ends = [*good(tasks[:12]), *[failed(one) for one in tasks[12:]], *good(cron)]
    assert len(plain(ends)) == 12
    assert center.worker_desk(W1).finish(ends[::-1]) == []
    found = center.read.tasks([one.id for one in tasks])
    assert [one.status for one in found] == [Status.SUCCESS] * 12 + [Status.FAILED] * 8
    assert task(center, cron[0].id).status is Status.PENDING


def test_rule_11_ends_that_are_written_twice_count_once(center: TaskCenter) -> None:
    """As after a COMMIT whose reply was lost."""
    tasks = start(center, W1, *[new()] * MANY)
    ends, desk = good(tasks), center.worker_desk(W1)
    assert desk.finish(ends) == []
    before = center.read.tasks([one.id for one in tasks])
    assert desk.finish(ends) == []
    assert center.read.tasks([one.id for one in tasks]) == before
    assert len(outcomes(center, [one.id for one in tasks])) == MANY


def test_what_is_plain() -> None:
    tasks = [made("noop", id=n) for n in range(1, 31)]
    ends = good(tasks)
    assert plain([*ends[:7], failed(tasks[7])]) == [], "a few beside others are not worth a transaction"
    assert plain(ends[:7]) == ends[:7]
    assert plain(ends) == ends
    assert plain([*ends, ends[0]]) == [], "the same one twice"
    assert plain([replace(end, finished_at=None) for end in ends]) == []
    assert plain([replace(end, result=str(n)) for n, end in enumerate(ends)]) == []
    assert (
        plain([replace(end, outcome=Outcome.SUCCESS, suspect=n < 10) for n, end in enumerate(ends)])
        == ends[10:]
    )
