"""Statements that take the COMMIT of their transaction along to MySQL: a trip less, and nothing less certain."""

from __future__ import annotations

import contextlib
from typing import Any

import pymysql
import pytest
import sqlalchemy as sa
from sqlalchemy import event

from taskkit.center import Database, TaskCenter
from taskkit.center.packed import commit_with_next, run
from taskkit.clock import utc_now
from taskkit.errors import CommitUnknown, StoreError
from taskkit.queues import MemoryQueue
from taskkit.scheduler.dispatcher import Dispatcher
from taskkit.settings import Scheduler
from taskkit.states import Status
from tests.centers import columns, dispatch, messages, new, start, succeeded, task
from tests.proxy import Proxy
from tests.trips import trips

pytest_plugins = ["tests.center_fixtures"]
WORKER = "host:1:trips"
RAISE = "UPDATE task_center SET lost_count = lost_count + 1 WHERE id IN :ids"
LOWER = "UPDATE task_center SET lost_count = -1 WHERE id IN :ids"
READ = "SELECT lost_count FROM task_center WHERE id IN :ids"
ONE_STATEMENT_AT_A_TIME = b"\x01\x00"
COM_SET_OPTION = 0x1B


def lost_count(center: TaskCenter, task_id: int) -> int:
    """As another connection sees it."""
    return int(columns(center, task_id, "lost_count")[0])


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


def test_a_dispatch_of_which_nothing_is_known_is_told_when_sql_is_back(mariadb_center_url: str) -> None:
    """SQL is gone with the reply to the COMMIT: what that has won is asked for by its token, and pushed then."""
    with Proxy(mariadb_center_url) as proxy:
        center, queue = TaskCenter(proxy.url), MemoryQueue()
        dispatcher = Dispatcher(center, queue, Scheduler())
        ids = center.intake.insert([new(), new()])
        proxy.lose_commit("after", for_good=True)
        for _ in range(2):
            with pytest.raises(StoreError):
                dispatcher.scan()
        assert proxy.lost
        assert queue.pull(["q"], 10, 0).messages == []
        proxy.open_again()
        dispatcher.scan()
        pushed = [message for _, message in queue.pull(["q"], 10, 0).messages]
        assert [(one.task_id, one.attempt) for one in pushed] == [(task_id, 1) for task_id in ids]
        assert len(center.worker_desk(WORKER).claim(pushed).won) == 2
        dispatcher.scan()
        assert queue.pull(["q"], 10, 0).messages == []
        center.close()


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
    center.intake.insert([new()])
    batch = dispatch(center)
    with trips() as sent:
        assert len(center.worker_desk(WORKER).claim(messages(batch)).won) == 1
    assert [text.split()[0] for text in sent] == ["START", "SELECT", "UPDATE", "SELECT", "COMMIT"]
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
