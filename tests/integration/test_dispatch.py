"""Dispatch: each due row is won exactly once, whoever else scans; what was won is known by its token alone."""

from __future__ import annotations

import random
from datetime import timedelta

import pytest
import sqlalchemy as sa

from taskkit.center import Batch, TaskCenter
from taskkit.states import Status
from tests.centers import (
    Clock,
    at_once,
    columns,
    dispatch,
    in_status,
    instant,
    messages,
    new,
    on_clock,
    periodic,
    sql,
    succeeded,
    task,
)

pytest_plugins = ["tests.center_fixtures"]


def scan_all(center: TaskCenter, batch: int, seed: int) -> list[Batch]:
    """A scheduler that scans until nothing is due."""
    rng, found = random.Random(seed), []
    while center.dispatch.candidates("q", 5, 1):
        ids = center.dispatch.candidates("q", 5, batch, rng.randrange(3) * batch)
        if ids:
            found.append(center.dispatch.claim(ids))
    return found


@pytest.mark.parametrize("turn", [1, 2])
def test_rule_03_sched_01_three_schedulers_dispatch_each_of_1000_due_tasks_once(
    center_url: str, turn: int
) -> None:
    """At the same moment, each beginning at another page of the list."""
    nodes = [TaskCenter(center_url) for _ in range(3)]
    ids = nodes[0].intake.insert([new()] * 1000)
    batches = [b for found in at_once(3, lambda n: scan_all(nodes[n], 150, n)) for b in found]
    won = [(w.id, w.attempt) for batch in batches for w in batch.won]
    assert sorted(won) == [(i, 1) for i in ids]
    assert sql(nodes[0], "SELECT DISTINCT status, attempt FROM task_center") == [(1, 1)]
    for batch in batches:
        tokens = {columns(nodes[0], w.id, "token")[0] for w in batch.won[:3]}
        assert tokens <= {batch.token}
    for node in nodes:
        node.close()


def test_a_dispatched_row_says_which_attempt_stands_in_which_list(center: TaskCenter) -> None:
    (task_id,) = center.intake.insert([new(queue="mail:{a}", priority=2)])
    (won,) = dispatch(center, "mail:{a}", 2).won
    found = task(center, task_id)
    assert (won.id, won.attempt, won.queue, won.priority) == (task_id, 1, "mail:{a}", 2)
    assert (found.status, found.attempt, found.list_name) == (Status.DISPATCHED, 1, "mail:{a}:2")
    assert found.dispatched_at == won.dispatched_at
    assert abs((won.dispatched_at - center.now()).total_seconds()) < 30


def test_candidates_come_oldest_first_from_pending_and_from_retries_that_are_due(center: TaskCenter) -> None:
    now = center.now()
    waits = [40, 10, 30, 20]
    ids = center.intake.insert([new(plan_next_run_at=now - timedelta(seconds=s)) for s in waits])
    retry = in_status(center, Status.FAILED)
    center.intake.insert(
        [new(plan_next_run_at=now + timedelta(hours=1)), new(queue="other"), new(priority=4)]
    )
    assert center.dispatch.candidates("q", 5, 10) == [ids[0], ids[2], ids[3], ids[1]]
    sql(
        center,
        "UPDATE task_center SET plan_next_run_at = :at WHERE id = :id",
        at=center.database.dialect.bind(now - timedelta(seconds=25)),
        id=retry,
    )
    assert center.dispatch.candidates("q", 5, 3) == [ids[0], ids[2], retry]
    assert dispatch(center).won[-1].attempt == 2
    assert center.dispatch.candidates("q", 5, 10) == []


CHANGES = {
    "another scheduler": lambda c, i: c.dispatch.claim([i]),
    "a person who pauses": lambda c, i: c.people.pause(i, "ann"),
    "a person who cancels": lambda c, i: c.people.cancel(i, "ann"),
    "a person who postpones": lambda c, i: sql(
        c, "UPDATE task_center SET plan_next_run_at = '2037-01-01 00:00:00' WHERE id = :i", i=i
    ),
    "a person who deletes": lambda c, i: sql(c, "DELETE FROM task_center WHERE id = :i", i=i),
}


@pytest.mark.parametrize("who", CHANGES)
def test_rule_01_sql_04_a_candidate_that_somebody_moved_meanwhile_is_not_claimed(
    center: TaskCenter, who: str
) -> None:
    """The UPDATE re-checks everything the SELECT saw."""
    changed, kept = center.intake.insert([new(), new()])
    ids = center.dispatch.candidates("q", 5, 10)
    CHANGES[who](center, changed)
    before = sql(center, "SELECT status, attempt, token FROM task_center WHERE id = :i", i=changed)
    batch = center.dispatch.claim(ids)
    assert [won.id for won in batch.won] == [kept]
    assert batch.contended == 1
    assert sql(center, "SELECT status, attempt, token FROM task_center WHERE id = :i", i=changed) == before


def test_rule_01_a_scheduler_that_was_stopped_does_not_fire_tomorrows_occurrence_today(
    center_url: str,
) -> None:
    clock = Clock(instant(2026, 6, 1, 12))
    center = on_clock(center_url, clock)
    (task_id,) = center.intake.insert([periodic(clock.at, "0 13 * * *")])
    clock.move(hours=1, seconds=1)
    stale = center.dispatch.candidates("q", 5, 10)
    desk = center.worker_desk("host:1:a")
    (claimed,) = desk.claim(messages(dispatch(center))).won
    desk.finish([succeeded(claimed)])
    assert task(center, task_id).plan_next_run_at == instant(2026, 6, 2, 13)
    assert center.dispatch.claim(stale).won == []
    center.close()


def test_rule_03_rows_that_another_transaction_holds_are_passed_over_and_not_waited_for(
    mariadb_center: TaskCenter,
) -> None:
    """SKIP LOCKED passes them by."""
    ids = mariadb_center.intake.insert([new()] * 3)
    with mariadb_center.database.engine.connect() as holder, holder.begin():
        holder.execute(sa.text("SELECT id FROM task_center WHERE id = :i FOR UPDATE"), {"i": ids[0]})
        assert [won.id for won in mariadb_center.dispatch.claim(ids).won] == ids[1:]
    assert [won.id for won in mariadb_center.dispatch.claim(ids).won] == ids[:1]


def test_put_back_undoes_a_claim_and_the_next_one_is_another_attempt(center: TaskCenter) -> None:
    fresh, retry = center.intake.insert([new()])[0], in_status(center, Status.FAILED)
    sql(center, "UPDATE task_center SET plan_next_run_at = created_at WHERE id = :i", i=retry)
    batch = dispatch(center)
    assert center.dispatch.put_back(batch.won, batch.token) == 2
    for task_id, count in ((fresh, 0), (retry, 1)):
        found = task(center, task_id)
        assert (found.status, found.retry_count) == (Status.PENDING, count)
    assert center.dispatch.put_back(batch.won, batch.token) == 0
    assert sorted((w.id, w.attempt) for w in dispatch(center).won) == [(fresh, 2), (retry, 3)]
    assert center.read.runs([fresh]) == []
    assert center.dispatch.put_back([], batch.token) == 0


def test_rule_02_put_back_touches_only_rows_that_carry_its_token(center: TaskCenter) -> None:
    """After a stop a scheduler must not take back what another one has dispatched since."""
    ids = center.intake.insert([new()] * 5)
    stale = dispatch(center)
    running, back, paused, cancelled, ours = ids
    center.worker_desk("host:1:a").claim([m for m in messages(stale) if m.task_id == running])
    center.dispatch.put_back([w for w in stale.won if w.id == back], stale.token)
    again = center.dispatch.claim([back])
    assert [w.attempt for w in again.won] == [2]
    center.people.pause(paused, "ann")
    center.people.cancel(cancelled, "ann")
    assert center.dispatch.put_back(stale.won, stale.token) == 1
    statuses = [task(center, i).status for i in ids]
    assert statuses == [2, 1, 7, 6, 0]
    assert task(center, ours).status == Status.PENDING
