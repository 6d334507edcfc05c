"""Statements that take the COMMIT of their transaction along to MySQL: a trip less, and nothing less certain."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pymysql
import pytest
import sqlalchemy as sa
from sqlalchemy import event

from taskkit.center import Database, TaskCenter
from taskkit.center.packed import commit_with_next, run
from taskkit.center.wires import MySQLWire
from taskkit.clock import utc_now
from taskkit.errors import CommitUnknown, StoreError, TaskkitError
from taskkit.states import Status
from tests.centers import columns, dispatch, messages, new, start, succeeded, task
from tests.proxy import Proxy
from tests.servers import MariaDB
from tests.waiting import wait_until

pytest_plugins = ["tests.center_fixtures"]
WORKER = "host:1:trips"
RAISE = "UPDATE task_center SET lost_count = lost_count + 1 WHERE id IN :ids"
LOWER = "UPDATE task_center SET lost_count = -1 WHERE id IN :ids"
OPEN = "SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_rows_locked > 0"
READ = "SELECT lost_count FROM task_center WHERE id IN :ids"
ONE_STATEMENT_AT_A_TIME = b"\x01\x00"
COM_SET_OPTION = 0x1B


@contextmanager
def trips() -> Iterator[list[str]]:
    """What is sent to MySQL meanwhile, a text for each packet."""
    found: list[str] = []
    send = MySQLWire._execute_command

    def note(self: Any, command: int, text: Any) -> None:
        found.append(text.decode() if isinstance(text, bytes) else text)
        send(self, command, text)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MySQLWire, "_execute_command", note)
        yield found


def lost_count(center: TaskCenter, task_id: int) -> int:
    """As another connection sees it."""
    return int(columns(center, task_id, "lost_count")[0])


def test_a_claim_is_two_trips_and_so_is_the_end_of_a_task(mariadb_center: TaskCenter) -> None:
    center = mariadb_center
    center.intake.insert([new()] * 3)
    batch, desk = dispatch(center), center.worker_desk(WORKER)
    with trips() as sent:
        won = desk.claim(messages(batch)).won
    assert [text.split()[0] for text in sent] == ["UPDATE", "SELECT"]
    assert [text.endswith("; COMMIT") for text in sent] == [False, True]
    assert {task(center, one.id).status for one in won} == {Status.RUNNING}
    with trips() as sent:
        assert desk.finish([succeeded(one, finished_at=utc_now()) for one in won]) == []
    assert [text.split()[0] for text in sent] == ["UPDATE", "INSERT"]
    assert {task(center, one.id).status for one in won} == {Status.SUCCESS}
    assert len(center.read.runs([one.id for one in won])) == 3


def test_a_dispatch_is_two_trips(mariadb_center: TaskCenter) -> None:
    start(mariadb_center, WORKER)
    (task_id,) = mariadb_center.intake.insert([new()])
    with trips() as sent:
        mariadb_center.dispatch.claim([task_id])
    assert [text.split()[0] for text in sent] == ["SELECT", "UPDATE"]
    assert task(mariadb_center, task_id).status is Status.DISPATCHED


def test_they_are_one_transaction(center: TaskCenter) -> None:
    (task_id,) = center.intake.insert([new()])

    def work(connection: sa.Connection) -> list[int]:
        run(connection, center.database, RAISE, {"ids": [task_id]})
        commit_with_next(connection, center.database)
        return [row[0] for row in run(connection, center.database, READ, {"ids": [task_id]})]

    assert center.database.write(work) == [1]
    assert lost_count(center, task_id) == 1


def test_nothing_is_committed_when_the_last_one_fails(center: TaskCenter) -> None:
    (task_id,) = center.intake.insert([new()])

    def work(connection: sa.Connection) -> None:
        run(connection, center.database, RAISE, {"ids": [task_id]})
        commit_with_next(connection, center.database)
        run(connection, center.database, LOWER, {"ids": [task_id]})

    with pytest.raises((StoreError, sa.exc.IntegrityError)):
        center.database.write(work)
    assert lost_count(center, task_id) == 0
    center.database.write(lambda c: run(c, center.database, RAISE, {"ids": [task_id]}))
    assert lost_count(center, task_id) == 1


def test_a_deadlock_in_the_last_one_is_repeated_whole(mariadb_center: TaskCenter) -> None:
    center = mariadb_center
    (task_id,) = center.intake.insert([new()])
    attempts: list[int] = []

    def work(connection: sa.Connection) -> None:
        attempts.append(1)
        run(connection, center.database, RAISE, {"ids": [task_id]})
        commit_with_next(connection, center.database)
        if len(attempts) == 1:
            connection.exec_driver_sql(
                "SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213, MESSAGE_TEXT = 'Deadlock'"
            )
        run(connection, center.database, READ, {"ids": [task_id]})

    center.database.write(work)
    assert len(attempts) == 2
    assert lost_count(center, task_id) == 1
    assert center.database.counters == {"deadlock": 1}


def test_work_05_a_claim_that_waits_for_a_lock_dies_with_its_worker(
    mariadb_center: TaskCenter, mariadb_center_url: str
) -> None:
    """It is not committed when the lock is free at last: nobody would run its task."""
    center = mariadb_center
    (task_id,) = center.intake.insert([new()])
    sent = messages(dispatch(center))
    with Proxy(mariadb_center_url) as proxy, center.database.engine.connect() as holder, holder.begin():
        holder.execute(sa.text("SELECT id FROM task_center WHERE id = :i FOR UPDATE"), {"i": task_id})
        dead = TaskCenter(proxy.url)
        thread = threading.Thread(
            target=lambda: _in_vain(lambda: dead.worker_desk(WORKER).claim(sent)), daemon=True
        )
        thread.start()
        waiting = "SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'"
        wait_until(lambda: holder.exec_driver_sql(waiting).scalar_one())
        proxy.close()
    thread.join(30)
    wait_until(lambda: center.database.read(lambda c: c.exec_driver_sql(OPEN).scalar_one()) == 0)
    assert task(center, task_id).status is Status.DISPATCHED
    dead.close()


def _in_vain(act: Callable[[], object]) -> None:
    with contextlib.suppress(TaskkitError):
        act()


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_lost_reply_leaves_the_commit_in_doubt_and_a_claim_finds_out(
    mariadb_center_url: str, when: str
) -> None:
    with Proxy(mariadb_center_url) as proxy:
        center = TaskCenter(proxy.url)
        (task_id,) = center.intake.insert([new()])

        def work(connection: sa.Connection) -> None:
            commit_with_next(connection, center.database)
            run(connection, center.database, RAISE, {"ids": [task_id]})

        proxy.lose_commit(when)
        with pytest.raises(CommitUnknown, match="the reply to a COMMIT was lost"):
            center.database.write(work)
        assert lost_count(center, task_id) == (1 if when == "after" else 0)

        batch = dispatch(center)
        proxy.lose_commit(when)
        claims = center.worker_desk(WORKER).claim(messages(batch))
        assert proxy.lost
        assert [one.id for one in claims.won] == [task_id]
        center.close()


def test_a_claim_of_which_nothing_is_known_is_found_by_the_next_try(
    mariadb_center: TaskCenter, mariadb_center_url: str
) -> None:
    """SQL is gone with the reply, and comes back later: the puller asks again by the same token."""
    (task_id,) = mariadb_center.intake.insert([new()])
    waiting = messages(dispatch(mariadb_center))
    with Proxy(mariadb_center_url) as proxy:
        center = TaskCenter(proxy.url)
        desk = center.worker_desk(WORKER)
        token = desk.new_token()
        proxy.lose_commit("after", for_good=True)
        with pytest.raises(StoreError):
            desk.claim(waiting, token)
        assert proxy.lost
        center.close()
    desk = mariadb_center.worker_desk(WORKER)
    assert [one.id for one in desk.claim(waiting, token).won] == [task_id]
    assert desk.claim(waiting, desk.new_token()).won == []


def test_a_connection_that_died_in_the_pool_leaves_nothing_in_doubt(
    mariadb_center: TaskCenter, mariadb: MariaDB
) -> None:
    """It is noticed by the first statement, before a COMMIT is under way."""
    center = mariadb_center
    center.intake.insert([new()])
    batch = dispatch(center)
    with center.database.engine.connect() as connection:
        number = int(connection.exec_driver_sql("SELECT CONNECTION_ID()").scalar_one())
    mariadb.admin(f"KILL CONNECTION {number}")
    gone = f"SELECT id FROM information_schema.processlist WHERE id = {number}"
    wait_until(lambda: mariadb.admin(gone) == [])
    assert len(center.worker_desk(WORKER).claim(messages(batch)).won) == 1
    assert center.database.counters == {"gone": 1}


def test_a_server_that_takes_one_statement_at_a_time_gets_one_at_a_time(mariadb_center_url: str) -> None:
    """As something in between may be set; it is asked once for each connection."""
    center = TaskCenter(mariadb_center_url)

    def forbid(raw: Any, _record: Any) -> None:
        raw._execute_command(COM_SET_OPTION, ONE_STATEMENT_AT_A_TIME)
        raw._read_packet()

    event.listen(center.database.engine, "connect", forbid)
    (claimed,) = start(center, WORKER)
    with trips() as sent:
        assert center.worker_desk(WORKER).finish([succeeded(claimed, finished_at=utc_now())]) == []
    assert [text.split()[0] for text in sent] == ["UPDATE", "INSERT", "COMMIT"]
    assert task(center, claimed.id).status is Status.SUCCESS
    assert center.database.counters == {}
    center.close()


def test_a_real_fault_of_syntax_is_told_and_nothing_is_committed(mariadb_center: TaskCenter) -> None:
    center = mariadb_center
    (task_id,) = center.intake.insert([new()])

    def work(connection: sa.Connection) -> None:
        run(connection, center.database, RAISE, {"ids": [task_id]})
        commit_with_next(connection, center.database)
        connection.exec_driver_sql("SELEKT 1")

    with pytest.raises(StoreError, match="SELEKT"):
        center.database.write(work)
    assert lost_count(center, task_id) == 0


def test_the_wish_of_a_transaction_that_failed_before_is_forgotten(mariadb_center: TaskCenter) -> None:
    """The next transaction of the connection is committed when it is over, and not before."""
    database: Database = mariadb_center.database
    (task_id,) = mariadb_center.intake.insert([new()])

    def fails(connection: sa.Connection) -> None:
        commit_with_next(connection, database)
        raise ValueError("before it was sent")

    def says_nothing(connection: sa.Connection) -> None:
        commit_with_next(connection, database)

    def fails_later(connection: sa.Connection) -> None:
        run(connection, database, RAISE, {"ids": [task_id]})
        raise ValueError("after the first statement")

    for before in (lambda: database.write(fails), lambda: database.write(says_nothing)):
        with contextlib.suppress(ValueError):
            before()
        with pytest.raises(ValueError, match="after the first statement"):
            database.write(fails_later)
    assert lost_count(mariadb_center, task_id) == 0


def test_a_wire_gives_the_result_of_the_statement_itself(mariadb_center: TaskCenter) -> None:
    with mariadb_center.database.engine.connect() as connection:
        wire: Any = connection.connection.driver_connection
        wire.commit_with_next()
        cursor = wire.cursor()
        assert cursor.execute("SELECT 7 AS b, 8 AS c") == 1
        assert (cursor.fetchall(), [part[0] for part in cursor.description]) == (((7, 8),), ["b", "c"])
        assert cursor.nextset() is None
        assert wire.committed
        cursor.execute("SELECT 9")
        assert cursor.fetchall() == ((9,),)
        assert not wire.committed
        with pytest.raises(pymysql.err.ProgrammingError):
            cursor.execute("SELECT nothing FROM nowhere")
