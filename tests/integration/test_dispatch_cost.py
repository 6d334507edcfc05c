"""What a scan sees and what it costs; a commit without a reply; the lease."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from taskkit.center import TaskCenter
from taskkit.center.packed import write_rows
from taskkit.center.statements import dispatch as dispatch_sql
from taskkit.center.statements import people as people_sql
from taskkit.center.statements import plan as planning_sql
from taskkit.center.statements import work as work_sql
from taskkit.model import DueList
from taskkit.states import Status
from tests.centers import (
    at_once,
    columns,
    dispatch,
    in_status,
    new,
    plain_insert,
    sql,
    start,
    task,
)
from tests.proxy import Proxy

Plan = list[dict[str, Any]]
pytest_plugins = ["tests.center_fixtures"]


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


def test_rule_06_a_list_with_a_due_retry_and_a_later_task_is_due(center: TaskCenter) -> None:
    center.intake.insert([new(delay=600)])
    retry = in_status(center, Status.FAILED)
    sql(center, "UPDATE task_center SET plan_next_run_at = created_at WHERE id = :i", i=retry)
    (one,), _ = center.dispatch.due_lists()
    assert one == DueList("q", 5, task(center, retry).plan_next_run_at, True)


def explain(center: TaskCenter, template: str, **values: Any) -> Plan:
    """The plan of a named statement, as the server describes it."""
    word = "EXPLAIN QUERY PLAN " if center.database.sqlite else "EXPLAIN "
    with center.database.engine.connect() as connection:
        text = center.database.text(word + template.replace("{columns}", "id, plan_next_run_at"))
        return [dict(r._mapping) for r in connection.execute(text, values)]


LIST = {"status": 0, "queue": "q", "priority": 5, "n": 100}

IDS = {
    "ids": [1, 2, 3],
    "statuses": [0, 4],
    "status": 1,
    "to": 1,
    "token": "t",
    "worker": "w",
    "attempt": 1,
    "code": "c",
}

BY_ID = {
    "LOCK_DUE": (dispatch_sql.LOCK_DUE, ()),
    "CLAIM_DUE": (dispatch_sql.CLAIM_DUE, ("now", "shards")),
    "PUT_BACK": (dispatch_sql.PUT_BACK, ()),
    "EXPIRE_DUE": (dispatch_sql.EXPIRE_DUE, ("note",)),
    "WON_IN_BATCH": (dispatch_sql.WON_IN_BATCH, ()),
    "CLAIM": (work_sql.claim(attempt=True, code=True), ()),
    "CLAIMED_IN_BATCH": (work_sql.CLAIMED_IN_BATCH, ()),
    "LOCK_HELD": (work_sql.LOCK_HELD, ()),
    "LOCK_TASK": (people_sql.LOCK_TASK, ("id",)),
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


def test_rule_06_no_statement_of_the_daily_round_reads_the_table(filled: TaskCenter) -> None:
    """The cost of a scan grows neither with the table nor with the number of due rows; writes go by primary key,
    since an UPDATE through a secondary index locks in another order and deadlocks."""
    plans = daily_plans(filled)
    thrifty = thrifty_on_sqlite if filled.database.sqlite else thrifty_on_mysql
    assert len(plans) == 4 + len(BY_ID) + 2
    assert {name: plan for name, plan in plans.items() if not thrifty(name, plan)} == {}


def daily_plans(center: TaskCenter) -> dict[str, Plan]:
    """The plan of each statement, by its name."""
    lists = dispatch_sql.LISTS_SQLITE if center.database.sqlite else dispatch_sql.LISTS_MYSQL
    plans = {"LISTS": explain(center, lists)}
    plans["CANDIDATES"] = explain(center, dispatch_sql.CANDIDATES, skip=0, **LIST)
    plans["UNADOPTED"] = explain(center, planning_sql.UNADOPTED, **LIST)
    plans["UNPLANNED_IN_LIST"] = explain(center, planning_sql.UNPLANNED_IN_LIST, **LIST)
    for name, (template, more) in BY_ID.items():
        plans[name] = explain(center, template, **(IDS | dict.fromkeys(more, 1)))
    return plans | {f"EACH {number}": plan for number, plan in enumerate(explain_each(center))}


def thrifty_on_sqlite(name: str, plan: Plan) -> bool:
    """Whether this plan walks the index for lists, and goes by primary key for all else."""
    lines = [row["detail"] for row in plan]
    if name == "LISTS":
        scans = {line for line in lines if "SCAN" in line}
        walks = sum("ix_dispatch" in line for line in lines)
        return walks >= 3 and scans <= {"SCAN h", "SCAN states", "SCAN 2 CONSTANT ROWS"}
    if name == "CANDIDATES":
        return (
            len(lines) == 1 and "COVERING INDEX ix_dispatch (status=? AND queue=? AND priority=?" in lines[0]
        )
    if name.startswith("UN"):
        return len(lines) == 1 and lines[0].startswith("SEARCH task_center USING INDEX ix_dispatch")
    if name.startswith("EACH"):
        return any("SEARCH task_center USING INTEGER PRIMARY KEY" in line for line in lines)
    return all("PRIMARY KEY" in line or "LIST SUBQUERY" in line for line in lines)


def thrifty_on_mysql(name: str, plan: Plan) -> bool:
    """The same in the words of MySQL and MariaDB."""
    if name.startswith("EACH"):
        return [(row["key"], row["type"]) for row in plan if row["table"] == "c"] == [("PRIMARY", "eq_ref")]
    if name in BY_ID:
        return all(row["table"] is None or row["key"] == "PRIMARY" for row in plan)
    ((key, kind, extra),) = [(row["key"], row["type"], row["Extra"] or "") for row in plan]
    right = {
        "LISTS": "Using index for group-by" in extra,
        "CANDIDATES": kind == "range" and "Using index" in extra and "filesort" not in extra,
    }
    return key == "ix_dispatch" and right.get(name, kind == "ref")


def explain_each(center: TaskCenter) -> list[Plan]:
    """The plans of the statements that write many rows, each with values of its own."""
    plans = []
    for compose, columns_ in (
        (work_sql.write_ends, work_sql.END_COLUMNS),
        (planning_sql.adopt, planning_sql.ADOPTED),
    ):
        word = "EXPLAIN QUERY PLAN " if center.database.sqlite else "EXPLAIN "
        each = compose(not center.database.sqlite)
        each = replace(each, head=word + each.head)
        values = [(task_id, *[None] * (len(columns_) - 1)) for task_id in (1, 2, 3)]
        with center.database.engine.connect() as connection:
            rows = write_rows(connection, center.database, each, values)
            plans.append([dict(row._mapping) for row in rows])
    return plans


@pytest.mark.parametrize("when", ["before", "after"])
def test_rule_02_a_dispatch_whose_commit_got_no_reply_is_won_exactly_once_and_put_back_for_certain(
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


def test_rule_15_sched_01_the_lease_is_one_nodes_at_a_time_and_a_missing_row_is_made(center_url: str) -> None:
    """A lost row of the lease must never mean `run unlocked`, and whatever it guards is safe anyway."""
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


def test_rule_07_a_running_or_held_row_never_wakes_the_scan(center: TaskCenter) -> None:
    start(center, "host:1:a")
    in_status(center, Status.HELD)
    in_status(center, Status.DISPATCHED)
    assert center.dispatch.due_lists()[0] == []
