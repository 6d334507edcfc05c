"""Claiming tasks takes one trip to MySQL; what would wait for a lock takes two, and dies with its worker."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

import pymysql
import pytest
import sqlalchemy as sa

from taskkit.center import TaskCenter
from taskkit.center.faults import Fault, classify, refuses_to_wait
from taskkit.center.work import AT_ONCE
from taskkit.clock import utc_now
from taskkit.errors import StoreError, TaskkitError
from taskkit.model import Claims
from taskkit.states import Status
from tests.centers import dispatch, messages, new, succeeded, task
from tests.proxy import Proxy
from tests.servers import MariaDB
from tests.trips import trips
from tests.waiting import wait_until

pytest_plugins = ["tests.center_fixtures"]
WORKER = "host:1:trips"
WAITING = sa.text(
    "SELECT trx_mysql_thread_id FROM information_schema.innodb_trx "
    "WHERE trx_state = 'LOCK WAIT' AND INSTR(trx_query, :worker) > 0"
)
"""By its worker, since InnoDB shows what it showed a moment ago to whoever asks again within a tenth of a second."""


def waiting(holder: sa.Connection, worker: str) -> int:
    """The thread of the server in which a claim of this worker waits for a lock."""
    return int(wait_until(lambda: holder.execute(WAITING, {"worker": worker}).scalar()) or 0)


@pytest.fixture
def on_server(center: TaskCenter) -> TaskCenter:
    """A task center on MariaDB, or on the server that the tests were given."""
    if not center.database.takes_packets:
        pytest.skip("there are no trips to SQLite")
    return center


def test_a_claim_is_one_trip_and_the_end_of_a_task_is_two(on_server: TaskCenter) -> None:
    center = on_server
    center.intake.insert([new()] * 3)
    batch, desk = dispatch(center), center.worker_desk(WORKER)
    center.limits.refresh()
    with trips() as sent:
        won = desk.claim(messages(batch)).won
    (claim,) = sent
    assert [text.split()[0] for text in claim.split("; ")] == [
        "START",
        "SELECT",
        "UPDATE",
        "SELECT",
        "COMMIT",
    ]
    assert {task(center, one.id).status for one in won} == {Status.RUNNING}
    with trips() as sent:
        assert desk.finish([succeeded(one, finished_at=utc_now()) for one in won]) == []
    assert [text.split()[0] for text in sent] == ["UPDATE", "INSERT"]
    assert {task(center, one.id).status for one in won} == {Status.SUCCESS}
    assert len(center.read.runs([one.id for one in won])) == 3


def test_a_claim_of_many_is_two_trips(on_server: TaskCenter) -> None:
    center = on_server
    center.intake.insert([new()] * (AT_ONCE + 1))
    batch = dispatch(center)
    center.limits.refresh()
    with trips() as sent:
        won = center.worker_desk(WORKER).claim(messages(batch)).won
    assert [text.split()[0] for text in sent] == ["UPDATE", "SELECT"]
    assert [text.endswith("; COMMIT") for text in sent] == [False, True]
    assert {task(center, one.id).status for one in won} == {Status.RUNNING}
    assert len(won) == AT_ONCE + 1


def test_a_claim_for_which_somebody_holds_a_lock_waits_for_it(on_server: TaskCenter) -> None:
    """What goes in one trip may not wait: it is refused, nothing is done, and the claim is made in two."""
    center = on_server
    (task_id,) = center.intake.insert([new()])
    batch = dispatch(center)
    found: list[Claims] = []
    with trips() as sent, center.database.engine.connect() as holder:
        with holder.begin():
            holder.execute(sa.text("SELECT id FROM task_center WHERE id = :i FOR UPDATE"), {"i": task_id})
            thread = threading.Thread(
                target=lambda: found.append(center.worker_desk(WORKER).claim(messages(batch))), daemon=True
            )
            thread.start()
            assert waiting(holder, WORKER)
            assert task(center, task_id).status is Status.DISPATCHED
        thread.join(30)
    assert [one.id for one in found[0].won] == [task_id]
    assert task(center, task_id).status is Status.RUNNING
    ours = [text.split()[0] for text in sent if WORKER in text and "innodb_trx" not in text]
    assert ours == ["START", "UPDATE", "SELECT"]
    assert center.database.counters == {}


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
            target=lambda: _in_vain(lambda: dead.worker_desk("host:1:dead").claim(sent)), daemon=True
        )
        thread.start()
        theirs = waiting(holder, "host:1:dead")
        proxy.close()
    thread.join(30)
    gone = f"SELECT COUNT(*) FROM information_schema.processlist WHERE id = {theirs}"
    wait_until(lambda: center.database.read(lambda c: c.exec_driver_sql(gone).scalar_one()) == 0)
    assert task(center, task_id).status is Status.DISPATCHED
    dead.close()


def _in_vain(act: Callable[[], object]) -> None:
    with contextlib.suppress(TaskkitError):
        act()


def test_a_claim_of_which_nothing_is_known_is_found_by_the_next_try(
    mariadb_center: TaskCenter, mariadb_center_url: str
) -> None:
    """SQL is gone with the reply, and comes back later: the puller asks again by the same token."""
    (task_id,) = mariadb_center.intake.insert([new()])
    sent = messages(dispatch(mariadb_center))
    with Proxy(mariadb_center_url) as proxy:
        center = TaskCenter(proxy.url)
        desk = center.worker_desk(WORKER)
        token = desk.new_token()
        proxy.lose_commit("after", for_good=True)
        with pytest.raises(StoreError):
            desk.claim(sent, token)
        assert proxy.lost
        center.close()
    desk = mariadb_center.worker_desk(WORKER)
    assert [one.id for one in desk.claim(sent, token).won] == [task_id]
    assert desk.claim(sent, desk.new_token()).won == []


def test_a_claim_on_a_connection_that_died_in_the_pool_is_made_again(
    mariadb_center: TaskCenter, mariadb: MariaDB
) -> None:
    """A claim is one packet, so that nobody knows; it is made again, and finds out."""
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


@pytest.mark.parametrize(("code", "refused"), [(3572, True), (1205, True), (1213, False)])
def test_mysql_says_by_a_number_of_its_own_that_nowait_met_a_lock(code: int, refused: bool) -> None:
    """1205 is what MariaDB says, also through something in between that does not tell what it is."""
    error = sa.exc.OperationalError("", {}, pymysql.err.OperationalError(code, "no"))
    assert refuses_to_wait(error) is refused
    assert classify(error, sqlite=False) in {Fault.LOCK_WAIT, Fault.DEADLOCK}
