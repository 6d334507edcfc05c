"""A process's connections do not wait for each other: what somebody locks holds up what needs it, and nothing else."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from taskkit.states import Status
from tests.processes import APP, Installation, Process, on_servers
from tests.servers import MariaDB, Valkey, available, connect
from tests.sockets import sockets, watch
from tests.waiting import wait_until

pytestmark = pytest.mark.faults
CONNECTIONS = 3
BUSY = {"scheduler_heartbeat_s": 0.2, "scheduler_plan_every_s": 0.2}


@pytest.fixture
def home(
    tmp_path_factory: pytest.TempPathFactory, mariadb: MariaDB, valkey: Valkey
) -> Iterator[Installation]:
    folder = tmp_path_factory.mktemp("waits")
    with on_servers(
        folder, mariadb.url, valkey.url, worker_processes=2, worker_heartbeat_s=0.2, **BUSY
    ) as found:
        found.scheduler()
        yield found


@pytest.fixture
def worker(home: Installation) -> Process:
    return home.begin("worker", "--app", APP).ready()


@contextlib.contextmanager
def somebody(home: Installation, statement: str, *values: Any) -> Iterator[None]:
    """Another program, which leaves a transaction open after this statement."""
    with contextlib.closing(connect(home.settings.database_url or "")) as link, link.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute(statement, values)
        try:
            yield
        finally:
            link.rollback()


def waiting_for_locks(server: MariaDB) -> list[str]:
    """The statements that wait for a row lock at this moment."""
    rows = server.admin("SELECT trx_query FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'")
    return [str(query) for (query,) in rows]


def beats(home: Installation, table: str = "task_worker") -> int:
    with contextlib.closing(connect(home.settings.database_url or "")) as link, link.cursor() as cursor:
        cursor.execute(f"SELECT heartbeat_count FROM {table}")
        return int(cursor.fetchall()[0][0])


def goes_on(home: Installation, **options: Any) -> None:
    """New tasks are claimed, run and written; one with a ``delay`` is dispatched by the scheduler."""
    ids = home.enqueue_many("echo", [{"value": n} for n in range(20)], **options)
    assert {task.status for task in home.wait_all(ids, seconds=8)} == {Status.SUCCESS}


def test_a_handlers_task_that_waits_for_a_unique_key_holds_up_no_end(
    home: Installation, worker: Process, mariadb: MariaDB, tmp_path: Path
) -> None:
    """The key stands in a transaction of somebody's that is still open; the wait for it is 10 s and more."""
    insert = "INSERT INTO task_center (task_code, queue, unique_key) VALUES ('mark', 'mark', %s)"
    with somebody(home, insert, "taken"):
        keyed = home.enqueue("enqueue_keyed", {"path": str(tmp_path / "n"), "key": "taken"})
        wait_until(lambda: any("INSERT INTO task_center" in query for query in waiting_for_locks(mariadb)))
        goes_on(home)
        before = beats(home)
        wait_until(lambda: beats(home) > before + 2, 5)
        assert any("INSERT INTO task_center" in query for query in waiting_for_locks(mariadb))
    assert home.wait(keyed).status is Status.SUCCESS
    assert worker.popen.poll() is None


def test_an_end_that_waits_for_somebodys_row_holds_up_no_heartbeat(
    home: Installation, worker: Process, mariadb: MariaDB
) -> None:
    task_id = home.enqueue("nap", {"seconds": 3})
    home.wait(task_id, Status.RUNNING)
    with somebody(home, "SELECT * FROM task_center WHERE id = %s FOR UPDATE", task_id):
        wait_until(lambda: waiting_for_locks(mariadb))
        before = beats(home)
        wait_until(lambda: beats(home) > before + 4, 5)
        behind = home.enqueue_many("nap", [{"seconds": 20}] * 2)
        home.wait_all(behind, Status.RUNNING, seconds=5)
        assert waiting_for_locks(mariadb), "claims go on as well"
        for one in behind:
            home.kit.operations.cancel(one, actor="test")
    assert home.wait(task_id).status is Status.SUCCESS
    assert {one.status for one in home.wait_all(behind)} == {Status.CANCELLED}
    assert worker.popen.poll() is None


def test_a_heartbeat_that_waits_for_somebodys_row_holds_up_no_end(
    home: Installation, worker: Process, mariadb: MariaDB
) -> None:
    with somebody(home, "SELECT * FROM task_worker FOR UPDATE"):
        wait_until(lambda: any("UPDATE task_worker" in query for query in waiting_for_locks(mariadb)))
        goes_on(home)
        assert any("UPDATE task_worker" in query for query in waiting_for_locks(mariadb))
    assert worker.popen.poll() is None


def test_a_planner_that_waits_for_somebodys_row_holds_up_no_dispatch_and_no_heartbeat(
    home: Installation, worker: Process, mariadb: MariaDB
) -> None:
    """It wants to move the task on from a time that went by, since the row was locked, to the one after it."""
    second = home.kit.center.now().second
    soon = sorted({(second + 3) % 60, (second + 4) % 60})
    periodic = home.enqueue("echo", cron=f"{soon[0]},{soon[1]} * * * * *", timezone="UTC")
    with somebody(home, "SELECT * FROM task_center WHERE id = %s FOR UPDATE", periodic):
        wait_until(lambda: any("UPDATE task_center" in query for query in waiting_for_locks(mariadb)))
        before = beats(home, "task_scheduler")
        goes_on(home, delay=1)
        wait_until(lambda: beats(home, "task_scheduler") > before + 4, 5)
        assert any("UPDATE task_center" in query for query in waiting_for_locks(mariadb))
    assert worker.popen.poll() is None


def test_a_database_that_stalls_and_comes_back_never_has_more_than_three_connections_of_a_worker(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each call that was given up closes its connection before it opens another."""
    monkeypatch.setenv("FAST_READ_S", "1")
    folder = tmp_path_factory.mktemp("stalls")
    with (
        available(MariaDB) as database,
        available(Valkey) as broker,
        on_servers(folder, database.url, broker.url, worker_processes=2, scheduler_dead_after_s=3600) as home,
    ):
        home.modules["worker"] = "tests.fast_worker"
        home.scheduler()
        worker = home.begin("worker", "--app", APP).ready()
        port = urlsplit(database.url).port or 0
        ids = home.enqueue_many("nap", [{"seconds": 0.3}] * 12)
        home.wait_all(ids[:2], Status.RUNNING)
        database.pause()
        stalled = max(watch(8, lambda: len(sockets(worker.pid, port))))
        database.resume()
        assert {task.status for task in home.wait_all(ids, seconds=60)} == {Status.SUCCESS}
        after = max(watch(1, lambda: len(sockets(worker.pid, port))))
        assert 1 <= max(stalled, after) <= CONNECTIONS
        assert worker.popen.poll() is None
