"""Dispatch: each due row is won exactly once, whoever else scans; what was won is known by its token alone."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from taskkit.center import Batch, TaskCenter
from taskkit.center.statements import dispatch as dispatch_sql
from taskkit.center.statements import people as people_sql
from taskkit.center.statements import planning as planning_sql
from taskkit.center.statements import work as work_sql
from taskkit.model import DueList
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
    plain_insert,
    sql,
    start,
    succeeded,
    task,
)
from tests.proxy import Proxy

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
def test_three_schedulers_dispatch_each_of_1000_due_tasks_once(center_url: str, turn: int) -> None:
    """SCHED-01."""
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
def test_a_candidate_that_somebody_moved_meanwhile_is_not_claimed(center: TaskCenter, who: str) -> None:
    """Rule 1: the UPDATE re-checks everything the SELECT saw."""
    changed, kept = center.intake.insert([new(), new()])
    ids = center.dispatch.candidates("q", 5, 10)
    CHANGES[who](center, changed)
    before = sql(center, "SELECT status, attempt, token FROM task_center WHERE id = :i", i=changed)
    batch = center.dispatch.claim(ids)
    assert [won.id for won in batch.won] == [kept]
    assert batch.contended == 1
    assert sql(center, "SELECT status, attempt, token FROM task_center WHERE id = :i", i=changed) == before


def test_a_scheduler_that_was_stopped_does_not_fire_tomorrows_occurrence_today(center_url: str) -> None:
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


def test_rows_that_another_transaction_holds_are_passed_over_and_not_waited_for(
    mariadb_center: TaskCenter,
) -> None:
    """Rule 3: SKIP LOCKED."""
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


def test_put_back_touches_only_rows_that_carry_its_token(center: TaskCenter) -> None:
    """Rule 2: after a stop a scheduler must not take back what another one has dispatched since."""
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
def test_a_late_occurrence_is_dispatched_or_left_to_the_planner_by_its_policy(
    center_url: str, misfire: str, late: int, misfired: bool
) -> None:
    clock = Clock(instant(2026, 6, 1, 12, 0, 30))
    center = on_clock(center_url, clock)
    (task_id,) = center.intake.insert([periodic(clock.at, misfire=misfire)])
    clock.at = instant(2026, 6, 1, 12, 1) + timedelta(seconds=late)
    batch = dispatch(center)
    assert (batch.misfired, [w.id for w in batch.won]) == (([task_id], []) if misfired else ([], [task_id]))
    center.close()


def test_an_unwanted_late_run_of_a_daily_task_is_left_to_the_planner(center_url: str) -> None:
    clock = Clock(instant(2026, 6, 1, 11))
    center = on_clock(center_url, clock)
    skip, once = center.intake.insert([periodic(clock.at, "0 12 * * *", misfire=m) for m in ("skip", "once")])
    clock.at = instant(2026, 6, 1, 16)
    batch = dispatch(center)
    assert (batch.misfired, [w.id for w in batch.won]) == ([skip], [once])
    center.close()


def test_an_occurrence_fires_with_its_first_attempt_and_its_lateness_is_recorded_once(
    center_url: str,
) -> None:
    """Rule 20: planned → fired in the dispatch transaction of the first attempt, whatever follows."""
    clock = Clock(instant(2026, 6, 1, 12))
    center = on_clock(center_url, clock)
    (task_id,) = center.intake.insert([periodic(clock.at, "0 13 * * *")])
    center.plan.sweep()
    clock.at = instant(2026, 6, 1, 13, 0, 2)
    refused = dispatch(center)
    center.dispatch.put_back(refused.won, refused.token)
    clock.move(seconds=10)
    (claimed,) = center.worker_desk("host:1:a").claim(messages(dispatch(center))).won
    assert (claimed.attempt, claimed.occurrence_at) == (2, instant(2026, 6, 1, 13))
    center.worker_desk("host:1:a").finish([failed(claimed)])
    clock.move(seconds=6)
    (again,) = dispatch(center).won
    assert (again.attempt, task(center, task_id).occurrence_at) == (3, instant(2026, 6, 1, 13))
    (fired,) = occurrences(center, task_id, "fired")
    assert (fired.planned_at, fired.fired_at) == (instant(2026, 6, 1, 13), instant(2026, 6, 1, 13, 0, 2))
    assert (fired.late_s, fired.attempt) == (pytest.approx(2.0), 1)
    center.close()


@pytest.mark.parametrize("state", ["fired", "skipped", "missed"])
def test_an_occurrence_that_is_settled_does_not_fire_again(center_url: str, state: str) -> None:
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


def test_due_lists_shows_each_list_with_its_earliest_time(center: TaskCenter) -> None:
    assert center.dispatch.due_lists()[0] == []
    now, rng, right = center.now(), random.Random(5), {}
    for queue in [f"queue {n}" for n in range(25)] + ["a:b", "ä", "{x}"]:
        for priority in rng.sample(range(10), 4):
            offsets = [rng.randrange(-600, 600) for _ in range(3)]
            center.intake.insert(
                [
                    new(queue=queue, priority=priority, plan_next_run_at=now + timedelta(seconds=s))
                    for s in offsets
                ]
            )
            right[queue, priority] = now + timedelta(seconds=min(offsets))
    retry = in_status(center, Status.FAILED, queue="only a retry")
    right["only a retry", 5] = task(center, retry).plan_next_run_at
    for status in (1, 2, 3, 5, 6, 7):
        in_status(center, Status(status), queue="nothing waits")
    for queue in ("", "unplanned"):
        plain_insert(center, task_code="mail", queue=queue)
        right[queue, 5] = None
    plain_insert(center, task_code="mail", queue="queue 1", priority=5)
    right.setdefault(("queue 1", 5), None)
    lists, clock = center.dispatch.due_lists()
    assert clock is not None
    assert {(one.queue, one.priority): one.earliest for one in lists} == right
    assert len(lists) == len(right)
    for one in lists:
        assert one.due == (one.earliest is not None and one.earliest <= clock)


def test_a_list_with_a_due_retry_and_a_later_task_is_due(center: TaskCenter) -> None:
    center.intake.insert([new(delay=600)])
    retry = in_status(center, Status.FAILED)
    sql(center, "UPDATE task_center SET plan_next_run_at = created_at WHERE id = :i", i=retry)
    (one,), _ = center.dispatch.due_lists()
    assert one == DueList("q", 5, task(center, retry).plan_next_run_at, True)


def explain(center: TaskCenter, template: str, **values: Any) -> list[dict[str, Any]]:
    """The plan of a named statement, as the server describes it."""
    word = "EXPLAIN QUERY PLAN " if center.database.sqlite else "EXPLAIN "
    with center.database.engine.connect() as connection:
        return [dict(r._mapping) for r in connection.execute(center.database.text(word + template), values)]


LIST = {"status": 0, "queue": "q", "priority": 5, "n": 100}
IDS = {"ids": [1, 2, 3], "statuses": [0, 4], "status": 1, "to": 1, "token": "t", "worker": "w", "attempt": 1}
BY_ID = {
    "LOCK_DUE": (dispatch_sql.LOCK_DUE, ()),
    "CLAIM_DUE": (dispatch_sql.CLAIM_DUE, ("now",)),
    "PUT_BACK": (dispatch_sql.PUT_BACK, ()),
    "EXPIRE_DUE": (dispatch_sql.EXPIRE_DUE, ("note",)),
    "WON_IN_BATCH": (dispatch_sql.WON_IN_BATCH, ()),
    "CLAIM": (work_sql.CLAIM, ()),
    "CLAIMED_IN_BATCH": (work_sql.CLAIMED_IN_BATCH, ()),
    "LOCK_HELD": (work_sql.LOCK_HELD, ()),
    "LOCK_TASK": (people_sql.LOCK_TASK, ("id",)),
    "ADOPT": (
        planning_sql.ADOPT,
        ("id", "queue", "task_type", "timezone", "plan", "occurrence_at", "next_fire_at"),
    ),
    "MOVE_OCCURRENCE": (
        planning_sql.MOVE_OCCURRENCE,
        ("id", "occurrence_at", "next_fire_at", "plan", "was"),
    ),
}


@pytest.fixture
def filled(center: TaskCenter) -> TaskCenter:
    """Some thousand rows, most of them finished, so that the planner of the server has something to weigh."""
    center.intake.insert([new(queue=f"q{n % 4}", priority=n % 3) for n in range(2000)])
    sql(center, "UPDATE task_center SET status = 3 WHERE id % 4 <> 0")
    sql(center, "ANALYZE" if center.database.sqlite else "ANALYZE TABLE task_center")
    return center


def test_no_statement_of_the_daily_round_reads_the_table(filled: TaskCenter) -> None:
    """The cost of a scan grows neither with the table nor with the number of due rows; writes go by primary key,
    since an UPDATE through a secondary index locks in another order and deadlocks (rule 3)."""
    (sqlite_plans if filled.database.sqlite else mysql_plans)(filled)


def sqlite_plans(center: TaskCenter) -> None:
    walked = [row["detail"] for row in explain(center, dispatch_sql.LISTS_SQLITE)]
    assert sum("ix_dispatch" in line for line in walked) >= 3
    assert {line for line in walked if "SCAN" in line} <= {"SCAN h", "SCAN states", "SCAN 2 CONSTANT ROWS"}
    (line,) = [row["detail"] for row in explain(center, dispatch_sql.CANDIDATES, skip=0, **LIST)]
    assert "COVERING INDEX ix_dispatch (status=? AND queue=? AND priority=?" in line
    for template in (planning_sql.UNADOPTED, planning_sql.UNPLANNED_IN_LIST):
        (line,) = [row["detail"] for row in explain(center, template, **LIST)]
        assert line.startswith("SEARCH task_center USING INDEX ix_dispatch")
    for name, (template, more) in BY_ID.items():
        for row in explain(center, template, **(IDS | dict.fromkeys(more, 1))):
            assert "PRIMARY KEY" in row["detail"] or "LIST SUBQUERY" in row["detail"], name
    rows = explain_ends(center)
    assert any("SEARCH task_center USING INTEGER PRIMARY KEY" in row["detail"] for row in rows)


def mysql_plans(center: TaskCenter) -> None:
    (row,) = explain(center, dispatch_sql.LISTS_MYSQL)
    assert (row["key"], "Using index for group-by" in row["Extra"]) == ("ix_dispatch", True)
    (row,) = explain(center, dispatch_sql.CANDIDATES, skip=0, **LIST)
    assert (row["key"], row["type"], "Using index" in row["Extra"]) == ("ix_dispatch", "range", True)
    assert "filesort" not in row["Extra"]
    for template in (planning_sql.UNADOPTED, planning_sql.UNPLANNED_IN_LIST):
        (row,) = explain(center, template, **LIST)
        assert (row["key"], row["type"]) == ("ix_dispatch", "ref")
    for name, (template, more) in BY_ID.items():
        for row in explain(center, template, **(IDS | dict.fromkeys(more, 1))):
            assert row["table"] is None or row["key"] == "PRIMARY", name
    (row,) = [row for row in explain_ends(center) if row["table"] == "c"]
    assert (row["key"], row["type"]) == ("PRIMARY", "eq_ref")


def explain_ends(center: TaskCenter) -> list[dict[str, Any]]:
    statement = work_sql.write_ends(not center.database.sqlite, 3, "?")
    word = "EXPLAIN QUERY PLAN " if center.database.sqlite else "EXPLAIN "
    values: list[object] = []
    for task_id in (1, 2, 3):
        values += [task_id, *([None] * (len(work_sql.END_COLUMNS) - 1))]
    with center.database.engine.connect() as connection:
        text = center.database.driver_text(word + statement)
        return [dict(r._mapping) for r in connection.exec_driver_sql(text, tuple(values))]


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_dispatch_whose_commit_got_no_reply_is_won_exactly_once_and_put_back_for_certain(
    mariadb_center_url: str, when: str
) -> None:
    with Proxy(mariadb_center_url) as proxy:
        center = TaskCenter(proxy.url)
        ids = center.intake.insert([new()] * 5)
        proxy.lose_commit(when)
        first = dispatch(center)
        assert proxy.lost
        assert [w.id for w in first.won] == (ids if when == "after" else [])
        second = dispatch(center)
        assert [w.id for w in second.won] == ([] if when == "after" else ids)
        for batch in (first, second):
            assert all(columns(center, w.id, "status, token") == (1, batch.token) for w in batch.won)
            assert all(task(center, w.id).dispatched_at == w.dispatched_at for w in batch.won)
        assert {w.attempt for batch in (first, second) for w in batch.won} == {1}
        won = first if first.won else second
        proxy.lose_commit(when)
        assert center.dispatch.put_back(won.won, won.token) == 5
        assert proxy.lost
        assert sorted((w.id, w.attempt) for w in dispatch(center).won) == [(i, 2) for i in ids]
        center.close()


def test_the_lease_is_one_nodes_at_a_time_and_a_missing_row_is_made(center_url: str) -> None:
    """SCHED-01: a lost row of the lease must never mean `run unlocked`, and whatever it guards is safe anyway."""
    nodes = [TaskCenter(center_url) for _ in range(3)]
    for _ in range(3):
        sql(nodes[0], "DELETE FROM task_lease")
        taken = at_once(3, lambda n: nodes[n].nodes.take_lease("planner", f"node {n}", 30))
        assert sorted(taken) == [False, False, True]
    holder = taken.index(True)
    assert nodes[holder].nodes.take_lease("planner", f"node {holder}", 30)
    nodes[holder].nodes.drop_lease("planner", f"node {holder}")
    assert nodes[(holder + 1) % 3].nodes.take_lease("planner", f"node {(holder + 1) % 3}", 30)
    for node in nodes:
        node.close()


def test_a_running_or_held_row_never_wakes_the_scan(center: TaskCenter) -> None:
    start(center, "host:1:a")
    in_status(center, Status.HELD)
    in_status(center, Status.DISPATCHED)
    assert center.dispatch.due_lists()[0] == []
