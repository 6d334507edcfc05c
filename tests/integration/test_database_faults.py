"""What may go wrong between us and a database: repeated whole where that helps, and told where not."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pymysql
import pytest
import sqlalchemy as sa
from sqlalchemy import event

from taskkit.center import Database, TaskCenter
from taskkit.errors import CommitUnknown, DatabaseUnavailable
from taskkit.states import Status
from tests.centers import at_once, dispatch, messages, new, succeeded, task
from tests.proxy import Proxy
from tests.servers import MariaDB, available
from tests.waiting import wait_until

pytest_plugins = ["tests.center_fixtures"]

COUNT = "UPDATE task_center SET lost_count = lost_count + 1 WHERE id = :i"


def counted(center: TaskCenter, ids: list[int]) -> list[int]:
    """How often :data:`COUNT` came through for each task."""
    return [one.lost_count for one in center.read.tasks(ids)]


def connection_id(connection: sa.Connection) -> int:
    return int(connection.execute(sa.text("SELECT CONNECTION_ID()")).scalar_one())


def on_first(attempts: list[int], act: Callable[[], object]) -> None:
    """Run ``act`` in the first of several attempts only."""
    attempts.append(1)
    if len(attempts) == 1:
        act()


def test_sql_01_a_deadlock_is_repeated_whole(mariadb_center: TaskCenter) -> None:
    """1213 rolls the whole transaction back, so what came before the failed statement must be done again."""
    center = mariadb_center
    first, second, own = center.intake.insert([new()] * 3)
    meet = threading.Barrier(2)

    def act(number: int) -> int:
        attempts: list[int] = []

        def work(connection: sa.Connection) -> None:
            one, other = (first, second) if number else (second, first)
            connection.execute(sa.text(COUNT), {"i": one})
            if number:
                connection.execute(sa.text(COUNT), {"i": own})
            on_first(attempts, lambda: meet.wait(10))
            connection.execute(sa.text(COUNT), {"i": other})

        center.database.write(work)
        return len(attempts)

    assert sorted(at_once(2, act)) == [1, 2]
    assert counted(center, [first, second, own]) == [2, 2, 1]
    assert center.database.counters == {"deadlock": 1}


def test_rule_03_sql_01_a_deadlock_that_the_server_tells_at_commit_is_repeated_whole(
    mariadb_center: TaskCenter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1213 may come at COMMIT."""
    (task_id,) = mariadb_center.intake.insert([new()])
    dialect, attempts = mariadb_center.database.engine.dialect, []
    commit = dialect.do_commit

    def refuse_once(raw: Any) -> None:
        attempts.append(1)
        if len(attempts) == 1:
            raw.rollback()
            raise pymysql.err.OperationalError(1213, "Deadlock found when trying to get lock")
        commit(raw)

    monkeypatch.setattr(dialect, "do_commit", refuse_once)
    mariadb_center.database.write(lambda c: c.execute(sa.text(COUNT), {"i": task_id}))
    assert (len(attempts), counted(mariadb_center, [task_id])) == (2, [1])


@pytest.fixture
def impatient(mariadb_center_url: str) -> Iterator[TaskCenter]:
    """A task center that waits one second for a lock."""
    center = TaskCenter(mariadb_center_url)

    def shorten(raw: Any, _record: Any, _proxy: Any) -> None:
        with raw.cursor() as cursor:
            cursor.execute("SET innodb_lock_wait_timeout = 1")

    event.listen(center.database.engine, "checkout", shorten)
    yield center
    center.close()


def test_sql_01_a_lock_wait_is_repeated_whole(mariadb_center: TaskCenter, impatient: TaskCenter) -> None:
    """1205 rolls back the statement only: a later COMMIT would keep half of the transaction."""
    held, own = mariadb_center.intake.insert([new()] * 2)
    holder = mariadb_center.database.engine.connect()
    holder.execute(sa.text(COUNT), {"i": held})
    attempts: list[int] = []

    def work(connection: sa.Connection) -> None:
        attempts.append(1)
        if len(attempts) == 2:
            holder.rollback()
        connection.execute(sa.text(COUNT), {"i": own})
        connection.execute(sa.text(COUNT), {"i": held})

    impatient.database.write(work)
    assert (len(attempts), counted(mariadb_center, [own, held])) == (2, [1, 1])
    assert impatient.database.counters == {"lock_wait": 1}
    holder.close()


def test_sql_01_a_lock_that_is_never_released_is_told_and_leaves_nothing_behind(
    mariadb_center: TaskCenter, impatient: TaskCenter
) -> None:
    held, own = mariadb_center.intake.insert([new()] * 2)

    def work(connection: sa.Connection) -> None:
        connection.execute(sa.text(COUNT), {"i": own})
        connection.execute(sa.text(COUNT), {"i": held})

    with mariadb_center.database.engine.connect() as holder, holder.begin():
        holder.execute(sa.text(COUNT), {"i": held})
        with pytest.raises(DatabaseUnavailable, match=r"Lock wait timeout.*look for a long transaction"):
            impatient.database.write(work)
    assert counted(mariadb_center, [own]) == [0]


def test_sql_01_b_a_connection_killed_between_two_statements_is_replaced_and_all_is_done_once(
    mariadb_center: TaskCenter, mariadb: MariaDB
) -> None:
    ids, attempts = mariadb_center.intake.insert([new()] * 2), []

    def work(connection: sa.Connection) -> None:
        connection.execute(sa.text(COUNT), {"i": ids[0]})
        on_first(attempts, lambda: mariadb.admin(f"KILL CONNECTION {connection_id(connection)}"))
        connection.execute(sa.text(COUNT), {"i": ids[1]})

    mariadb_center.database.write(work)
    assert (len(attempts), counted(mariadb_center, ids)) == (2, [1, 1])
    assert mariadb_center.database.counters == {"gone": 1}


def kill_all(mariadb: MariaDB, url: str) -> None:
    """End every connection to this database, as a restart or an idle time-out does."""
    name = url.rpartition("/")[2].partition("?")[0]
    listed = f"SELECT id FROM information_schema.processlist WHERE db = '{name}'"
    for (number,) in mariadb.admin(listed):
        with contextlib.suppress(pymysql.err.OperationalError):  # it ended by itself meanwhile
            mariadb.admin(f"KILL CONNECTION {number}")
    wait_until(lambda: mariadb.admin(listed) == [])


def test_sql_01_a_connections_that_died_in_the_pool_are_replaced_without_a_word(
    mariadb_center: TaskCenter, mariadb_center_url: str, mariadb: MariaDB
) -> None:
    """Also when all of them are stale at once."""
    center = mariadb_center
    (task_id,) = center.intake.insert([new()])
    at_once(5, lambda _: center.database.read(lambda c: c.execute(sa.text("SELECT SLEEP(0.1)"))))
    for act in (
        center.now,
        lambda: center.database.write(lambda c: c.execute(sa.text(COUNT), {"i": task_id})),
        lambda: dispatch(center),
    ):
        kill_all(mariadb, mariadb_center_url)
        act()
    assert counted(center, [task_id]) == [1]
    assert task(center, task_id).status == Status.DISPATCHED
    assert center.database.counters["gone"] >= 1


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_lost_reply_to_a_commit_is_told_and_not_repeated_blindly(
    mariadb_center_url: str, when: str
) -> None:
    with Proxy(mariadb_center_url) as proxy:
        center, attempts = TaskCenter(proxy.url), []
        (task_id,) = center.intake.insert([new()])

        def work(connection: sa.Connection) -> None:
            attempts.append(1)
            connection.execute(sa.text(COUNT), {"i": task_id})

        proxy.lose_commit(when)
        with pytest.raises(CommitUnknown, match="the reply to a COMMIT was lost"):
            center.database.write(work)
        assert len(attempts) == 1
        assert counted(center, [task_id]) == ([1] if when == "after" else [0])
        center.close()


def test_a_server_that_does_not_answer_is_given_up_after_the_read_timeout(mariadb_center_url: str) -> None:
    database, began = Database(mariadb_center_url, read_timeout=0.3), time.monotonic()
    with pytest.raises(DatabaseUnavailable, match="the server went away; try again"):
        database.read(lambda c: c.execute(sa.text("SELECT SLEEP(20)")).all())
    assert time.monotonic() - began < 18
    database.close()


def test_sql_01_c_a_restart_of_the_server_is_survived_by_the_same_center() -> None:
    """While it is down, a clear error at once; afterwards all goes on."""
    with available(MariaDB) as server:
        center = TaskCenter(server.url + "?ssl_disabled=1")
        center.upgrade_schema()
        (task_id,) = center.intake.insert([new()])
        batch = dispatch(center)
        desk = center.worker_desk("host:1:a")
        (claimed,) = desk.claim(messages(batch)).won
        server.stop()
        for act in (center.now, lambda: desk.finish([succeeded(claimed)]), center.check_schema):
            with pytest.raises(DatabaseUnavailable) as raised:
                act()
            assert "\n" not in str(raised.value)
        server.start()
        assert task(center, task_id).status == Status.RUNNING
        assert desk.finish([succeeded(claimed)]) == []
        assert task(center, task_id).status == Status.SUCCESS
        center.close()
