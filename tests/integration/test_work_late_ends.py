"""Ends of those who hold the task no longer change nothing; a lost reply, a cancel and progress in between."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from taskkit.center import TaskCenter
from taskkit.model import Claimed, Claims, Finish, Message, NewTask
from taskkit.states import Move, Outcome, Status
from taskkit.texts import TEXT_BYTES
from tests.centers import (
    dispatch,
    failed,
    messages,
    new,
    sql,
    start,
    succeeded,
    task,
)
from tests.proxy import Proxy

pytest_plugins = ["tests.center_fixtures"]

W1, W2 = "host-1:11:aaaa", "host-2:22:bbbb"


def queued(center: TaskCenter, *tasks: NewTask) -> list[Message]:
    """Messages of dispatched tasks, as they stand in the broker."""
    ids = center.intake.insert(tasks or [new()])
    return messages(center.dispatch.claim(ids))


def answers(claims: Claims) -> dict[str, int]:
    names = ("won", "duplicates", "expired", "missing")
    return {name: len(getattr(claims, name)) for name in names if getattr(claims, name)}


def test_rule_11_a_finish_is_written_once_and_an_own_run_row_means_done(center: TaskCenter) -> None:
    (claimed,) = start(center, W1)
    desk = center.worker_desk(W1)
    assert desk.finish([succeeded(claimed)]) == []
    before = task(center, claimed.id)
    assert desk.finish([succeeded(claimed), succeeded(claimed)]) == []
    assert task(center, claimed.id) == before
    assert len(center.read.runs([claimed.id])) == 1


def lose(center: TaskCenter, claimed: Claimed) -> None:
    """What recovery does with the task of a worker that it takes for dead."""
    sql(
        center,
        "INSERT INTO task_run (task_id, attempt, task_code, queue, outcome, worker_id) "
        "VALUES (:i, :a, 'mail', 'q', 'lost', :w)",
        i=claimed.id, a=claimed.attempt, w=W1,
    )  # fmt: skip
    sql(
        center,
        "UPDATE task_center SET status = 0, plan_next_run_at = {now}, lost_count = 1, token = NULL WHERE id = :i",
        i=claimed.id,
    )


def still_running(center: TaskCenter, claimed: Claimed) -> None:
    assert claimed.attempt == 2


def has_succeeded(center: TaskCenter, claimed: Claimed) -> None:
    center.worker_desk(W2).finish([succeeded(claimed, result='"second"', last_result="second")])


def waits_for_retry(center: TaskCenter, claimed: Claimed) -> None:
    center.worker_desk(W2).finish([failed(claimed, error="second")])


@pytest.mark.parametrize("second", [still_running, has_succeeded, waits_for_retry])
@pytest.mark.parametrize("first", ["returns", "raises", "beats"])
@pytest.mark.parametrize("known", [True, False], ids=["lost row", "no row"])
def test_rule_11_guarantee_2_a_late_end_of_a_superseded_attempt_changes_nothing_but_its_own_run(
    center: TaskCenter, second: Callable[[TaskCenter, Claimed], None], first: str, known: bool
) -> None:
    """In all 9 combinations; the late one leaves a superseded row, also where nobody wrote a lost one."""
    (late,) = start(center, W1)
    lose(center, late)
    if not known:
        sql(center, "DELETE FROM task_run")
    (again,) = center.worker_desk(W2).claim(messages(dispatch(center))).won
    second(center, again)
    before, desk = task(center, late.id), center.worker_desk(W1)
    if first == "beats":
        desk.progress([(late.id, late.attempt, 0.5, "half")])
        assert desk.cancel_requested([late.id]) == set()
    else:
        end = succeeded(late, result='"first"') if first == "returns" else failed(late, traceback="T")
        end = replace(end, runtime_ms=99, pid=5, started_at=late.claimed_at)
        assert desk.finish([end]) == [end]
        assert desk.finish([end]) == [end]
    assert task(center, late.id) == before
    runs = {run.attempt: run for run in center.read.runs([late.id])}
    assert (2 in runs) == (second is not still_running)
    if first == "beats":
        return
    run = runs[1]
    assert (run.outcome, run.worker_id, run.runtime_ms, run.pid) == ("superseded", W1, 99, 5)
    assert run.started_at == late.claimed_at
    assert (run.error, run.traceback) == ((None, None) if first == "returns" else ("ValueError: no", "T"))


def test_a_late_end_among_others_does_not_stop_them(center: TaskCenter) -> None:
    late, good, other = start(center, W1, *[new()] * 3)
    lose(center, late)
    end = failed(late, error="x" * 70_000)
    assert center.worker_desk(W1).finish([succeeded(good), end, succeeded(other)]) == [end]
    assert [task(center, c.id).status for c in (late, good, other)] == [0, 3, 3]
    (run,) = center.read.runs([late.id])
    assert run.outcome == Outcome.SUPERSEDED
    assert len((run.error or "").encode()) <= TEXT_BYTES


def test_rule_11_guarantee_2_an_end_is_refused_to_anyone_who_does_not_hold_the_task(
    center: TaskCenter,
) -> None:
    (claimed,) = start(center, W1)
    other = center.worker_desk(W2).finish([succeeded(claimed)])
    wrong = center.worker_desk(W1).finish([succeeded(replace(claimed, attempt=2))])
    assert (len(other), len(wrong), task(center, claimed.id).status) == (1, 1, Status.RUNNING)
    assert center.worker_desk(W1).finish([succeeded(claimed)]) == []


def test_a_lost_run_that_another_row_already_tells_of_keeps_what_it_says(center: TaskCenter) -> None:
    """The one change permitted is from lost to superseded."""
    (claimed,) = start(center, W1)
    center.worker_desk(W1).finish([failed(claimed, error="first")])
    (run,) = center.read.runs([claimed.id])
    center.worker_desk(W2).finish([succeeded(claimed, result="1")])
    assert center.read.runs([claimed.id]) == [run]


@pytest.mark.parametrize("when", ["before", "after"])
def test_rule_11_a_claim_and_an_end_whose_commit_got_no_reply_happen_exactly_once(
    mariadb_center_url: str, when: str
) -> None:
    with Proxy(mariadb_center_url) as proxy:
        center = TaskCenter(proxy.url)
        desk = center.worker_desk(W1)
        waiting = queued(center, *[new()] * 4)
        proxy.lose_commit(when)
        claims = desk.claim(waiting)
        assert proxy.lost
        assert answers(claims) == {"won": 4}
        assert answers(desk.claim(waiting)) == {"duplicates": 4}
        a, b, c, d = claims.won
        lose(center, d)
        proxy.lose_commit(when)
        late = desk.finish([succeeded(a), failed(b), succeeded(c), succeeded(d)])
        assert proxy.lost
        assert [end.task.id for end in late] == [d.id]
        assert [task(center, one.id).status for one in claims.won] == [3, 4, 3, 0]
        assert task(center, b.id).retry_count == 1
        assert [run.outcome for run in center.read.runs([one.id for one in claims.won])] == [
            "success", "failed", "success", "superseded",
        ]  # fmt: skip
        center.close()


def test_a_cancel_that_was_asked_for_while_it_ran_keeps_a_failed_task_from_starting_again(
    center: TaskCenter,
) -> None:
    bad, good, back = start(center, W1, *[new()] * 3)
    desk = center.worker_desk(W1)
    for claimed in (bad, good, back):
        assert center.people.cancel(claimed.id, "ann") == Status.RUNNING
    assert desk.cancel_requested([bad.id, good.id, 999]) == {(bad.id, 1), (good.id, 1)}
    assert desk.cancel_requested([]) == center.worker_desk(W2).cancel_requested([bad.id]) == set()
    ends = [failed(bad), succeeded(good), Finish(back, Outcome.HANDED_BACK, Move.HAND_BACK, 0)]
    assert desk.finish(ends) == []
    assert [task(center, c.id).status for c in (bad, good, back)] == [6, 3, 6]
    assert [run.outcome for run in center.read.runs([bad.id, good.id])] == ["failed", "success"]


def test_progress_is_written_only_by_the_attempt_that_runs(center: TaskCenter) -> None:
    (claimed,) = start(center, W1)
    desk = center.worker_desk(W1)
    desk.progress([(claimed.id, 1, 0.25, "x" * 300), (claimed.id, 2, 0.75, "another attempt")])
    found = task(center, claimed.id)
    assert (found.progress, found.progress_text) == (0.25, "x" * 190)
    desk.progress([(claimed.id, 1, 0.5, "\ud800" + "😀" * 200)])
    assert (task(center, claimed.id).progress_text or "").startswith("\\ud800😀")
