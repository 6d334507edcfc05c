"""New tasks: in bulk and in order, one for each key, with the caller's transaction or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.orm import Session

from taskkit.center import TaskCenter
from taskkit.center.joining import connection_of
from taskkit.errors import InputError
from taskkit.states import Status
from tests.centers import Clock, at_once, in_status, instant, new, on_clock, periodic, sql, task
from tests.servers import MariaDB

pytest_plugins = ["tests.center_fixtures"]


@pytest.fixture
def callers(center_url: str) -> Iterator[sa.Engine]:
    """An engine of the caller's own on the same database, with none of taskkit's settings."""
    engine = sa.create_engine(center_url.replace("mysql://", "mysql+pymysql://"))
    yield engine
    engine.dispose()


def test_many_tasks_are_written_and_their_ids_come_back_in_order(center: TaskCenter) -> None:
    """1,500 rows span statements; keyed ones, timed ones and duplicates among them."""
    tomorrow = center.now() + timedelta(days=1)
    tasks = [new(f"code-{n}", payload=f'{{"n": {n}}}') for n in range(1500)]
    tasks[100:100] = [
        new("keyed", unique_key="a"),
        new("timed", plan_next_run_at=tomorrow),
        new("keyed again", unique_key="a"),
    ]
    tasks.append(new("keyed", unique_key="b"))
    ids = center.intake.insert(tasks)
    found = {one.id: one.task_code for one in center.read.tasks(ids)}
    assert ids[100] == ids[102]
    assert len(set(ids)) == len(found) == len(tasks) - 1
    assert [found[i] for i in ids if i != ids[100]] == [t.task_code for t in tasks if t.unique_key != "a"]
    plain = [i for i, one in zip(ids, tasks, strict=True) if one.task_code.startswith("code-")]
    assert plain == sorted(plain)
    assert task(center, ids[101]).plan_next_run_at == tomorrow
    assert center.intake.insert([]) == []


def test_a_task_due_now_is_due_at_once_and_a_delay_counts_by_the_databases_clock(center: TaskCenter) -> None:
    before = center.now()
    now, later, half = center.intake.insert([new(), new(delay=90), new(delay=0.5)])
    after = center.now()
    for task_id, delay, column in ((now, 0, 0), (later, 90, 90), (half, 0.5, 1)):
        found = task(center, task_id)
        assert found.plan_next_run_at is not None
        assert (
            before <= found.plan_next_run_at - timedelta(seconds=delay) <= after + timedelta(milliseconds=1)
        )
        assert found.delay == column
    assert center.dispatch.candidates("q", 5, 10) == [now]


def test_sql_06_an_instant_comes_back_to_the_microsecond_and_never_later(center: TaskCenter) -> None:
    """Rounded up, a task of 23:59:59.6 would wait for the next day."""
    at = instant(2026, 12, 31, 23, 59, 59, 600001)
    (task_id,) = center.intake.insert([new(plan_next_run_at=at, expires_at=at + timedelta(microseconds=1))])
    found = task(center, task_id)
    assert (found.plan_next_run_at, found.expires_at) == (at, at + timedelta(microseconds=1))


def test_sql_06_a_task_of_now_is_due_at_once_where_the_server_rounds_fractions(
    mariadb_center_url: str, mariadb: MariaDB
) -> None:
    """TIME_ROUND_FRACTIONAL rounds what a column cannot hold up to the next second, or to the next year."""
    ((usual,),) = mariadb.admin("SELECT @@global.sql_mode")
    mariadb.admin("SET GLOBAL sql_mode = 'STRICT_ALL_TABLES,TIME_ROUND_FRACTIONAL'")
    clock = Clock(instant(2026, 12, 31, 23, 59, 59, 600000))
    center = on_clock(mariadb_center_url, clock)
    try:
        given, own = center.intake.insert([new(plan_next_run_at=clock.at), new()])
        assert [one.plan_next_run_at for one in center.read.tasks([given, own])] == [clock.at] * 2
        clock.move(seconds=0.1)
        assert center.dispatch.candidates("q", 5, 10) == [given, own]
    finally:
        center.close()
        mariadb.admin(f"SET GLOBAL sql_mode = '{usual}'")


@pytest.mark.parametrize("status", list(Status))
def test_rule_22_a_key_of_a_live_task_gives_its_id_and_writes_nothing(
    center: TaskCenter, status: Status
) -> None:
    holder = in_status(center, status, unique_key="order 7")
    (task_id,) = center.intake.insert([new("other", unique_key="order 7")])
    rows = sql(center, "SELECT COUNT(*) FROM task_center")[0][0]
    live = status not in {Status.SUCCESS, Status.GIVEN_UP, Status.CANCELLED}
    assert (task_id == holder, rows) == (live, 1 if live else 2)


def test_rule_22_eight_threads_that_want_one_key_make_one_row(center_url: str) -> None:
    centers = [TaskCenter(center_url) for _ in range(8)]
    for turn in range(3):
        key = f"key {turn}"
        found = at_once(8, lambda n, key=key: centers[n].intake.insert([new(unique_key=key)]))  # type: ignore[misc]
        assert len({tuple(ids) for ids in found}) == 1
    assert sql(centers[0], "SELECT COUNT(*) FROM task_center")[0][0] == 3
    for center in centers:
        center.close()


def test_batches_that_share_keys_in_opposite_order_all_succeed(center_url: str) -> None:
    """Such batches deadlock; the whole transaction is repeated."""
    centers = [TaskCenter(center_url) for _ in range(4)]
    keys = [f"key {n}" for n in range(40)]

    def act(number: int) -> list[int]:
        mine = keys if number % 2 else keys[::-1]
        ids = centers[number].intake.insert([new(unique_key=key) for key in mine])
        return ids if number % 2 else ids[::-1]

    found = at_once(4, act)
    assert len({tuple(ids) for ids in found}) == 1
    for center in centers:
        center.close()


def test_rule_22_ids_are_right_where_the_server_counts_in_threes(mariadb_center: TaskCenter) -> None:
    """Galera and multi-primary set auto_increment_increment; ids must be read back, not computed."""

    def count_in_threes(raw: Any, _record: Any, _proxy: Any) -> None:
        with raw.cursor() as cursor:
            cursor.execute("SET SESSION auto_increment_increment = 3, auto_increment_offset = 2")

    event.listen(mariadb_center.database.engine, "checkout", count_in_threes)
    tasks = [new(f"code-{n}") for n in range(20)]
    ids = mariadb_center.intake.insert(tasks)
    assert [task(mariadb_center, i).task_code for i in ids] == [t.task_code for t in tasks]
    assert {b - a for a, b in pairwise(ids)} == {3}


def test_rule_22_ids_of_batches_written_at_once_do_not_mix(center_url: str) -> None:
    centers = [TaskCenter(center_url) for _ in range(4)]
    found = at_once(
        4, lambda n: [centers[n].intake.insert([new(f"code-{n}")] * 50 + [new("x")]) for _ in range(5)]
    )
    for number, batches in enumerate(found):
        ids = [i for ids in batches for i in ids[:50]]
        assert {one.task_code for one in centers[0].read.tasks(ids)} == {f"code-{number}"}
    assert len({i for batches in found for ids in batches for i in ids}) == 4 * 5 * 51
    for center in centers:
        center.close()


@pytest.mark.parametrize("kept", [True, False], ids=["commit", "rollback"])
def test_rule_23_a_joined_task_exists_if_and_only_if_the_callers_transaction_commits(
    center: TaskCenter, callers: sa.Engine, kept: bool
) -> None:
    tasks = [new("a"), new("b", unique_key="key"), new("c", delay=60)] + [new("d")] * 3
    with callers.connect() as connection:
        ids = center.intake.insert_joined(connection, tasks)
        assert len(set(ids)) == 6
        assert center.read.tasks(ids) == []
        connection.commit() if kept else connection.rollback()
    found = {one.id: one for one in center.read.tasks(ids)}
    assert [found[i].task_code for i in ids if i in found] == (["a", "b", "c", "d", "d", "d"] if kept else [])
    assert all(one.status == Status.PENDING for one in found.values())
    assert len(center.dispatch.candidates("q", 5, 10)) == (5 if kept else 0)


def test_rule_23_a_session_can_be_joined_and_a_savepoint_taken_back(
    center: TaskCenter, callers: sa.Engine
) -> None:
    with Session(callers) as session:
        kept = center.intake.insert_joined(connection_of(session), [new("kept")])
        with session.begin_nested() as savepoint:
            gone = center.intake.insert_joined(connection_of(session), [new("gone")])
            savepoint.rollback()
        session.commit()
    codes = {one.task_code for one in center.read.tasks([*kept, *gone])}
    assert codes == {"kept"}


def test_a_joined_periodic_task_is_known_to_the_planner_after_the_commit(
    center: TaskCenter, callers: sa.Engine
) -> None:
    with callers.begin() as connection:
        (task_id,) = center.intake.insert_joined(
            connection, [periodic(center.now(), "0 3 * * *", "Asia/Shanghai")]
        )
    assert center.plan.sweep() == 1
    found = task(center, task_id)
    assert found.occurrence_at == found.plan_next_run_at
    assert found.occurrence_at is not None
    assert found.occurrence_at.hour == 19


def test_rule_23_an_error_on_the_callers_connection_goes_up_and_is_not_repeated(
    center: TaskCenter, callers: sa.Engine
) -> None:
    with callers.connect() as connection:
        connection.execute(sa.text("SELECT 1"))
        with pytest.raises(sa.exc.DBAPIError):
            center.intake.insert_joined(connection, [new(priority=12)])
        connection.rollback()
    assert center.database.counters == {}


def test_rule_22_rule_23_a_key_taken_since_the_callers_snapshot_is_found_all_the_same(
    mariadb_center: TaskCenter, mariadb_center_url: str
) -> None:
    """The existing id is read with a lock; the caller's REPEATABLE READ would not see it."""
    engine = sa.create_engine(mariadb_center_url.replace("mysql://", "mysql+pymysql://"))
    with engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT COUNT(*) FROM task_center").scalar() == 0
        (holder,) = mariadb_center.intake.insert([new(unique_key="order 7")])
        ids = mariadb_center.intake.insert_joined(connection, [new(unique_key="order 7"), new()])
        connection.commit()
    engine.dispose()
    assert ids[0] == holder
    assert len(mariadb_center.read.tasks(ids)) == 2


def test_a_connection_to_another_kind_of_database_is_refused(center: TaskCenter) -> None:
    class Elsewhere:
        class dialect:
            name = "postgresql"

    with pytest.raises(InputError, match="postgresql"):
        center.intake.insert_joined(Elsewhere(), [new()])  # type: ignore[arg-type]


@pytest.mark.parametrize("zone", ["+08:00", "-05:30", "+00:00"])
def test_rule_24_a_caller_in_another_time_zone_gets_the_instants_right(
    mariadb_center: TaskCenter, mariadb_center_url: str, zone: str
) -> None:
    center = mariadb_center
    engine = sa.create_engine(mariadb_center_url.replace("mysql://", "mysql+pymysql://"))
    at = instant(2026, 12, 24, 18, 0, 0, 123456)
    before = center.now()
    with engine.begin() as connection:
        connection.exec_driver_sql(f"SET time_zone = '{zone}'")
        timed, delayed = center.intake.insert_joined(
            connection, [new(plan_next_run_at=at, expires_at=at + timedelta(hours=1)), new(delay=600)]
        )
        first = periodic(center.now(), "0 3 * * *", "Asia/Shanghai")
        (cron,) = center.intake.insert_joined(connection, [first])
    engine.dispose()
    found = task(center, timed)
    assert (found.plan_next_run_at, found.expires_at) == (at, at + timedelta(hours=1))
    assert before <= found.created_at <= center.now()
    late = task(center, delayed).plan_next_run_at
    assert late is not None
    assert before <= late - timedelta(seconds=600) <= center.now()
    planned = task(center, cron)
    assert planned.plan_next_run_at == planned.occurrence_at == first.plan_next_run_at
    assert planned.next_fire_at == first.next_fire_at
