"""Retention: what goes, what stays, in bounded steps that nobody has to wait for."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import event

from taskkit.alerts import Alert
from taskkit.center import TaskCenter
from taskkit.center.statements import retention as retention_sql
from taskkit.settings import Retention
from taskkit.states import Status
from tests.alert_rows import ended, written
from tests.centers import columns, dispatch, in_child, in_status, new, periodic, plain_insert, sql
from tests.waiting import wait_until

pytest_plugins = ["tests.center_fixtures"]

KEEP = Retention()
ENDED = (Status.SUCCESS, Status.CANCELLED)
LIVE = (Status.PENDING, Status.DISPATCHED, Status.RUNNING, Status.FAILED, Status.HELD)
FOR_EVER = Retention(
    tasks_days=0,
    dead_days=0,
    runs_days=0,
    occurrences_days=0,
    samples_days=0,
    actions_days=0,
    once_days=0,
    alerts_days=0,
)


def prune(center: TaskCenter, keep: Retention = KEEP, *, dry: bool = False) -> dict[str, int]:
    """One whole pass; how many rows of which table went."""
    gone: Counter[str] = Counter()
    for step in center.retention.sweep(keep, dry=dry):
        assert step.gone <= step.looked <= keep.chunk
        gone[step.table] += step.gone
    return {table: count for table, count in gone.items() if count}


def ago(center: TaskCenter, days: float) -> str | None:
    return center.database.dialect.bind(center.now() - timedelta(days=days))


def aged(center: TaskCenter, task_id: int, days: float) -> int:
    """As if the task had been written and last changed so many days ago."""
    statement = "UPDATE task_center SET created_at = :at, updated_at = :at WHERE id = :id"
    sql(center, statement, at=ago(center, days), id=task_id)
    return task_id


def run(
    center: TaskCenter, task_id: int, attempt: int, days: float, outcome: str = "failed"
) -> tuple[int, int]:
    """A run that ended so many days ago."""
    sql(
        center,
        "INSERT INTO task_run (task_id, attempt, task_code, queue, outcome, finished_at) "
        "VALUES (:task_id, :attempt, 'mail', 'q', :outcome, :at)",
        task_id=task_id,
        attempt=attempt,
        outcome=outcome,
        at=ago(center, days),
    )
    return task_id, attempt


def there(center: TaskCenter) -> set[int]:
    return {row.id for row in sql(center, "SELECT id FROM task_center")}


def runs(center: TaskCenter) -> set[tuple[int, int]]:
    return {tuple(row) for row in sql(center, "SELECT task_id, attempt FROM task_run")}  # type: ignore[misc]


def count(center: TaskCenter, table: str) -> int:
    return int(sql(center, f"SELECT COUNT(*) FROM {table}")[0][0])


# ---- what goes and what stays


@pytest.mark.parametrize(
    ("status", "days", "goes"),
    [
        *[(status, 31, True) for status in ENDED],
        *[(status, 29, False) for status in ENDED],
        *[(status, 4000, False) for status in LIVE],
        (Status.GIVEN_UP, 89, False),
        (Status.GIVEN_UP, 91, True),
    ],
    ids=str,
)
def test_a_task_goes_when_it_has_ended_long_ago_and_never_while_it_lives(
    center: TaskCenter, status: Status, days: float, goes: bool
) -> None:
    task_id = aged(center, in_status(center, status), days)
    young = in_status(center, Status.SUCCESS)
    assert prune(center, dry=True).get("task_center", 0) == goes
    assert there(center) == {task_id, young}
    assert prune(center).get("task_center", 0) == goes
    assert there(center) == ({young} if goes else {task_id, young})


def test_a_periodic_task_stays_whatever_its_age(center: TaskCenter) -> None:
    waiting, cancelled = center.intake.insert([periodic(center.now()), periodic(center.now())])
    center.people.cancel(cancelled, "somebody")
    for task_id in (waiting, cancelled):
        aged(center, task_id, 4000)
    assert "task_center" not in prune(center)
    assert there(center) == {waiting, cancelled}


def test_zero_days_keep_for_ever(center: TaskCenter) -> None:
    for status in Status:
        run(center, aged(center, in_status(center, status), 4000), 9, 4000)
    before = there(center), runs(center), count(center, "task_action")
    sql(center, "UPDATE task_action SET at = :at", at=ago(center, 4000))
    assert prune(center, FOR_EVER) == {}
    assert (there(center), runs(center), count(center, "task_action")) == before


def test_one_retention_can_be_for_ever_and_the_other_not(center: TaskCenter) -> None:
    good, dead = (aged(center, in_status(center, s), 400) for s in (Status.SUCCESS, Status.GIVEN_UP))
    assert prune(center, Retention(tasks_days=0, runs_days=0))["task_center"] == 1
    assert there(center) == {good}
    dead = aged(center, in_status(center, Status.GIVEN_UP), 400)
    assert prune(center, Retention(dead_days=0, runs_days=0))["task_center"] == 1
    assert there(center) == {dead}


def test_a_task_made_long_ago_that_ended_lately_stays_and_those_behind_it_are_still_looked_at(
    center: TaskCenter,
) -> None:
    ids = center.intake.insert([new()] * 10)
    for task_id in ids:
        aged(center, task_id, 40)
    sql(center, "UPDATE task_center SET status = 3, updated_at = {now} WHERE id <= :id", id=ids[4])
    sql(
        center,
        "UPDATE task_center SET status = 3, updated_at = :at WHERE id > :id",
        id=ids[4],
        at=ago(center, 40),
    )
    assert prune(center, Retention(chunk=2)) == {"task_center": 5}
    assert there(center) == set(ids[:5])


def test_a_pass_ends_at_the_first_step_of_young_tasks(center: TaskCenter) -> None:
    """So it costs what is old, not what is there: a table of millions of young rows is one step."""
    old = center.intake.insert([new()] * 30)
    sql(center, "UPDATE task_center SET status = 3, created_at = :at, updated_at = :at", at=ago(center, 40))
    center.intake.insert([new()] * 300)
    steps = [s for s in center.retention.sweep(Retention(chunk=10)) if s.table == "task_center"]
    assert sum(step.gone for step in steps) == len(old)
    assert len(steps) == 4


RUN_CASES = [
    (Status.SUCCESS, {1, 2}),
    (Status.CANCELLED, {1, 2}),
    (Status.GIVEN_UP, {1}),
    *[(status, set()) for status in LIVE],
]


@pytest.mark.parametrize(("status", "gone"), RUN_CASES, ids=str)
def test_old_runs_go_but_not_those_of_a_live_task_nor_the_last_one_of_a_dead_letter(
    center: TaskCenter, status: Status, gone: set[int]
) -> None:
    task_id = in_status(center, status)
    sql(center, "DELETE FROM task_run")
    sql(center, "UPDATE task_center SET attempt = 2 WHERE id = :id", id=task_id)
    old = {run(center, task_id, attempt, 31) for attempt in (1, 2)}
    prune(center)
    assert runs(center) == old - {(task_id, attempt) for attempt in gone}


def test_young_runs_stay(center: TaskCenter) -> None:
    task_id = in_status(center, Status.SUCCESS)
    young = run(center, task_id, 7, 29)
    run(center, task_id, 8, 31)
    prune(center)
    assert runs(center) == {(task_id, 1), young}


def test_of_a_periodic_task_the_last_run_stays(center: TaskCenter) -> None:
    (task_id,) = center.intake.insert([periodic(center.now(), "0 0 1 1 *")])
    sql(center, "UPDATE task_center SET attempt = 3 WHERE id = :id", id=task_id)
    for attempt in (1, 2, 3):
        run(center, task_id, attempt, 400 - attempt, "success")
    prune(center)
    assert runs(center) == {(task_id, 3)}


def test_a_cancelled_periodic_task_stays_without_its_runs(center: TaskCenter) -> None:
    (task_id,) = center.intake.insert([periodic(center.now())])
    sql(center, "UPDATE task_center SET attempt = 2 WHERE id = :id", id=task_id)
    for attempt in (1, 2):
        run(center, task_id, attempt, 40, "success")
    center.people.cancel(task_id, "somebody")
    prune(center)
    assert (there(center), runs(center)) == ({task_id}, set())


def test_runs_of_a_deleted_task_go_at_their_own_age(center: TaskCenter) -> None:
    task_id = aged(center, in_status(center, Status.CANCELLED), 40)
    young, _ = run(center, task_id, 2, 29), run(center, task_id, 1, 40)
    assert prune(center) == {"task_center": 1, "task_run": 1}
    assert runs(center) == {young}
    assert prune(center, Retention(runs_days=20)) == {"task_run": 1}


def test_occurrences_go_when_they_are_old_and_settled(center: TaskCenter) -> None:
    (task_id,) = center.intake.insert([periodic(center.now())])
    at = {name: ago(center, days) for name, days in zip("abcdefg", (31, 32, 33, 34, 29, 28, 35), strict=True)}
    states = {
        "a": "fired",
        "b": "skipped",
        "c": "missed",
        "d": "planned",
        "e": "fired",
        "f": "missed",
        "g": "fired",
    }
    for name, state in states.items():
        fired = at[name] if state == "fired" else None
        sql(
            center,
            "INSERT INTO task_occurrence (task_id, planned_at, state, fired_at) VALUES (:id, :at, :state, :fired)",
            id=task_id,
            at=at[name],
            state=state,
            fired=fired,
        )
    sql(center, "UPDATE task_center SET occurrence_at = :at WHERE id = :id", at=at["g"], id=task_id)
    assert prune(center, dry=True) == {"task_occurrence": 3}
    assert prune(center, Retention(chunk=1)) == {"task_occurrence": 3}
    left = Counter(row.state for row in sql(center, "SELECT state FROM task_occurrence"))
    assert left == {"planned": 1, "fired": 2, "missed": 1}, "planned, young, and the one that still runs"


def test_samples_actions_and_once_go_at_their_age(center: TaskCenter) -> None:
    sql(center, "DELETE FROM task_once")
    for days in (400, 15, 13):
        for queue in ("a", "b"):
            sql(
                center,
                "INSERT INTO task_sample (sampled_at, queue, due, running, retrying, held, finished, failed) "
                "VALUES (:at, :queue, 0, 0, 0, 0, 0, 0)",
                at=ago(center, days),
                queue=queue,
            )
        sql(
            center,
            "INSERT INTO task_action (at, actor, action) VALUES (:at, 'me', 'retry')",
            at=ago(center, days),
        )
        sql(
            center,
            "INSERT INTO task_once (name, holder, done_at) VALUES (:name, 'me', :at)",
            name=str(days),
            at=ago(center, days),
        )
    assert prune(center, Retention(chunk=3)) == {"task_sample": 4, "task_action": 1, "task_once": 1}
    assert count(center, "task_sample") == count(center, "task_action") == count(center, "task_once") == 2


def test_nodes_are_forgotten_a_week_after_their_last_heartbeat(center: TaskCenter) -> None:
    for name, days in (("long gone", 8), ("gone", 6)):
        center.nodes.enter_scheduler(name, "host", 1)
        sql(
            center,
            "UPDATE task_scheduler SET heartbeat_at = :at WHERE scheduler_id = :n",
            n=name,
            at=ago(center, days),
        )
        sql(
            center,
            "INSERT INTO task_worker (worker_id, host, pid, queues, heartbeat_at) VALUES (:n, 'h', 1, 'q', :at)",
            n=name,
            at=ago(center, days),
        )
        center.watchdogs.enter(name, "host", 1)
        sql(
            center,
            "UPDATE task_watchdog SET heartbeat_at = :at WHERE watchdog_id = :n",
            n=name,
            at=ago(center, days),
        )
    assert prune(center, FOR_EVER) == {"task_watchdog": 1, "task_worker": 1, "task_scheduler": 1}
    assert [node["watchdog_id"] for node in center.watchdogs.all()] == ["gone"]
    assert [node["scheduler_id"] for node in center.nodes.schedulers()] == ["gone"]


LEDGER = ("task_alert", "task_notice", "task_notice_alert", "task_delivery")


def told(center: TaskCenter, days: float, *, over: bool = True, sent: bool = True) -> Alert:
    """An alert of so many days ago, its notice, and a call for it."""
    at = center.now() - timedelta(days=days)
    one = written(center, "ops", at=at, object=f"{days} {over} {sent}")
    if over:
        one = ended(center, one)
        sql(center, "UPDATE task_alert SET resolved_at = :at WHERE id = :id", at=ago(center, days), id=one.id)
    (notice,) = center.alerts.told(one.id)
    state = "sent" if sent else "waiting"
    sql(center, "UPDATE task_notice SET created_at = :at, state = :state WHERE id = :id", at=ago(center, days), state=state, id=notice["id"])  # fmt: skip
    sql(center, "INSERT INTO task_delivery (notice_id, receiver, robot, at, kind) VALUES (:id, 'ops', 'r', :at, 'text')", id=notice["id"], at=ago(center, days))  # fmt: skip
    return one


def test_alerts_go_with_what_was_told_of_them_and_never_while_they_are_open_or_wait(
    center: TaskCenter,
) -> None:
    told(center, 400)
    young = told(center, 300)
    fires, waits = told(center, 401, over=False), told(center, 402, sent=False)
    gone = {"task_alert": 2, "task_notice": 2, "task_notice_alert": 2, "task_delivery": 3}
    first = prune(center)
    assert {name: first[name] for name in LEDGER} == gone
    assert {one.id for one in center.alerts.newest(most=10)} == {young.id, fires.id}
    assert [one["state"] for one in center.alerts.told(waits.id)] == ["waiting"], (
        "what nobody was told yet is kept"
    )
    assert prune(center) == {}


def test_alerts_are_kept_for_ever_where_the_setting_says_so(center: TaskCenter) -> None:
    told(center, 4000)
    assert prune(center, FOR_EVER) == {}


# ---- how it goes


def old_tasks(center: TaskCenter, n: int) -> list[int]:
    ids = center.intake.insert([new()] * n)
    sql(
        center,
        "UPDATE task_center SET status = 3, created_at = :at, updated_at = :at WHERE id >= :first",
        at=ago(center, 40),
        first=ids[0],
    )
    return ids


def test_many_rows_of_one_instant_are_walked_through_in_small_steps(center: TaskCenter) -> None:
    (task_id,) = center.intake.insert([new()])
    orphan = task_id + 1
    for attempt in range(1, 26):
        run(center, orphan, attempt, 40)
    sql(center, "UPDATE task_run SET finished_at = :at", at=ago(center, 40))
    run(center, task_id, 1, 41)
    steps = [s for s in center.retention.sweep(Retention(chunk=4)) if s.table == "task_run"]
    assert sum(step.gone for step in steps) == 25
    assert runs(center) == {(task_id, 1)}, "that of a live task"


def test_between_two_steps_no_transaction_is_open(center: TaskCenter) -> None:
    old_tasks(center, 30)
    open_now: list[int] = []
    event.listen(center.database.engine, "begin", lambda _: open_now.append(1))
    for name in ("commit", "rollback"):
        event.listen(center.database.engine, name, lambda _: open_now.pop())
    for _step in center.retention.sweep(Retention(chunk=10)):
        assert open_now == []
        assert center.database.engine.pool.checkedout() == 0  # type: ignore[attr-defined]
    assert there(center) == set()


def test_a_task_that_a_person_retries_between_look_and_delete_stays(
    center: TaskCenter, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = aged(center, in_status(center, Status.GIVEN_UP), 100)
    good = aged(center, in_status(center, Status.SUCCESS), 100)
    other = aged(center, in_status(center, Status.SUCCESS), 100)
    delete = center.retention._delete

    def late(walk: Any, keys: Any) -> int:
        if walk.table == "task_center":
            assert keys == [dead, good, other]
            center.people.retry(dead, "somebody")
            center.people.run_now(good, "somebody")
        return delete(walk, keys)

    monkeypatch.setattr(center.retention, "_delete", late)
    assert prune(center)["task_center"] == 1
    assert there(center) == {dead, good}
    assert columns(center, dead, "status") == columns(center, good, "status") == (Status.PENDING,)


def test_a_long_transaction_on_one_row_does_not_stall_the_pass(mariadb_center: TaskCenter) -> None:
    ids = old_tasks(mariadb_center, 20)
    with holding(mariadb_center, ids[7]):
        assert prune(mariadb_center, Retention(chunk=5)) == {"task_center": 19}
        assert there(mariadb_center) == {ids[7]}
        assert mariadb_center.database.counters["lock_wait"] == 0
    assert prune(mariadb_center) == {"task_center": 1}


def test_live_rows_are_not_waited_for_and_not_locked(mariadb_center: TaskCenter) -> None:
    """Somebody holds every live row; while a chunk is being deleted the others can be dispatched."""
    held = mariadb_center.intake.insert([new()] * 50)
    ids = old_tasks(mariadb_center, 20)
    waiting = mariadb_center.intake.insert([new()] * 50)
    with holding(mariadb_center, *held):
        assert prune(mariadb_center) == {"task_center": len(ids)}
    old_tasks(mariadb_center, 20)
    other = TaskCenter(mariadb_center.database.url.render_as_string(hide_password=False))
    dispatched: list[int] = []

    @event.listens_for(mariadb_center.database.engine, "after_cursor_execute")
    def meanwhile(_c: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if statement.startswith("DELETE t FROM") and not dispatched:
            dispatched.extend(won.id for won in dispatch(other).won)

    prune(mariadb_center)
    assert sorted(dispatched) == held + waiting
    assert other.database.counters["lock_wait"] == 0
    other.close()


def test_two_at_once_delete_each_row_once(center: TaskCenter) -> None:
    n = 300
    old_tasks(center, n)
    left = center.intake.insert([new()] * 5)
    gone: list[int] = []
    centers = [TaskCenter(center.database.url.render_as_string(hide_password=False)) for _ in range(2)]

    def go(one: TaskCenter) -> None:
        gone.append(prune(one, Retention(chunk=7)).get("task_center", 0))

    threads = [threading.Thread(target=go, args=(one,)) for one in centers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for one in centers:
        one.close()
    assert sum(gone) <= n
    prune(center)
    assert there(center) == set(left)


@pytest.mark.faults
def test_guarantee_1_a_sweep_killed_in_the_middle_leaves_whole_rows_and_the_next_one_goes_on(
    center: TaskCenter, center_url: str
) -> None:
    ids = old_tasks(center, 2000)
    live = center.intake.insert([new()] * 5)

    def sweep() -> None:
        with contextlib.closing(TaskCenter(center_url)) as own:
            for _ in own.retention.sweep(Retention(chunk=1)):
                pass

    pid = in_child(sweep)
    wait_until(lambda: count(center, "task_center") < 1900, 30)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    left = there(center)
    assert set(live) <= left
    assert len(left) > len(live), "killed in the middle"
    assert prune(center) == {"task_center": len(left) - len(live)}
    assert there(center) == set(live)
    assert set(ids).isdisjoint(there(center))


def test_every_step_goes_by_an_index_whatever_the_server_thinks_of_its_statistics(center: TaskCenter) -> None:
    old_tasks(center, 40)
    values = {
        "at": ago(center, 4000), "after": 0, "n": 10, "until": ago(center, 1), "state": "fired",
        "tasks": ago(center, 1), "dead": ago(center, 1), "youngest": ago(center, 1),
    }  # fmt: skip
    word = "EXPLAIN QUERY PLAN " if center.database.sqlite else "EXPLAIN "
    for name in [name for name in dir(retention_sql) if name.startswith("LOOK_")]:
        text = center.database.text(word + getattr(retention_sql, name).strip())
        with center.database.engine.connect() as connection:
            rows = [dict(row._mapping) for row in connection.execute(text, values)]
        assert rows
        if center.database.sqlite:
            details = [row["detail"] for row in rows]
            assert not [d for d in details if d.startswith("SCAN task_")], (name, details)
        else:
            assert not [row for row in rows if row["type"] == "ALL" and row["table"].startswith("task_")], (
                rows
            )


@contextlib.contextmanager
def holding(center: TaskCenter, *ids: int) -> Iterator[None]:
    """Somebody's open transaction that has these rows locked."""
    with center.database.engine.connect() as connection, connection.begin():
        text = sa.text(
            "SELECT id FROM task_center FORCE INDEX (PRIMARY) WHERE id IN :ids ORDER BY id FOR UPDATE"
        )
        connection.execute(text.bindparams(sa.bindparam("ids", expanding=True)), {"ids": list(ids)}).all()
        yield


def test_rows_of_producers_in_other_languages_go_too(center: TaskCenter) -> None:
    task_id = plain_insert(center, task_code="mail", queue="q")
    sql(center, "UPDATE task_center SET status = 6 WHERE id = :id", id=task_id)
    aged(center, task_id, 40)
    assert prune(center) == {"task_center": 1}
