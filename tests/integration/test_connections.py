"""How many connections each process opens, counted on the servers themselves while it is busy, and what they are called."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from taskkit.center import TaskCenter
from taskkit.states import Status
from tests.main_path import walk
from tests.processes import APP, Installation, on_servers
from tests.servers import MariaDB, Valkey, available, connect
from tests.sockets import Census, sockets
from tests.waiting import wait_until

pytest_plugins = ["tests.center_fixtures"]
CHILDREN = 8
WORKER_SQL, SCHEDULER_SQL, REDIS = 3, 4, 2


@pytest.fixture
def home(
    tmp_path_factory: pytest.TempPathFactory, mariadb: MariaDB, valkey: Valkey
) -> Iterator[Installation]:
    folder = tmp_path_factory.mktemp("counted")
    settings = {
        "worker_processes": CHILDREN,
        "worker_threads": 4,
        "worker_heartbeat_s": 0.1,
        "scheduler_heartbeat_s": 0.1,
        "scheduler_recover_every_s": 0.1,
        "scheduler_plan_every_s": 0.05,
    }
    with on_servers(folder, mariadb.url, valkey.url, **settings) as found:
        yield found


def urls(home: Installation) -> tuple[str, str]:
    database, broker = home.settings.database_url, home.settings.redis_url
    assert database is not None
    assert broker is not None
    return database, broker


def test_a_busy_worker_of_eight_children_has_three_connections_to_sql_and_two_to_redis(
    home: Installation, tmp_path: Path
) -> None:
    """With async tasks, blocking ones in threads, and handlers that enqueue; a scheduler has four and two."""
    scheduler, worker = home.scheduler(), home.worker()
    file = str(tmp_path / "notes")
    with Census(*urls(home), worker=worker, scheduler=scheduler) as census:
        ids = home.enqueue_many("nap_async", [{"seconds": 0.05}] * 400)
        ids += home.enqueue_many("echo", [{"value": n} for n in range(1000)])
        ids += home.enqueue_many("follow_blocking", [{"path": file}] * 100)
        ids += home.enqueue_many("follow", [{"path": file}] * 50)
        home.enqueue("echo", cron="* * * * * *", timezone="UTC")
        assert {task.status for task in home.wait_all(ids, seconds=90)} == {Status.SUCCESS}
        wait_until(lambda: census.looks > 5, 30)
    assert 2 <= census.most["sql"]["worker"] <= WORKER_SQL
    assert 2 <= census.most["sql"]["scheduler"] <= SCHEDULER_SQL
    assert census.most["redis"] == {"worker": REDIS, "scheduler": REDIS}
    assert census.children == {"sql": 0, "redis": 0}, "children have a pipe"


def test_a_child_opens_a_connection_when_its_handler_asks_for_one_and_keeps_one(home: Installation) -> None:
    home.scheduler()
    worker = home.begin("worker", "--app", APP, "--processes", "1", "--queue", "reads,echo").ready()
    (child,) = worker.children()
    (port, _) = (int(url.rpartition(":")[2].partition("/")[0]) for url in urls(home))
    one = home.enqueue("echo")
    assert home.wait(one).status is Status.SUCCESS
    assert sockets(child, port) == set()
    ids = home.enqueue_many("reads", [{"task_id": one}] * 20)
    assert {task.status for task in home.wait_all(ids)} == {Status.SUCCESS}
    assert len(sockets(child, port)) == 1


def test_redis_lists_each_connection_under_role_host_and_pid(home: Installation) -> None:
    scheduler, worker = home.scheduler(), home.worker("--processes", "1")
    home.wait(home.enqueue("echo"))
    with redis.Redis.from_url(urls(home)[1]) as client:

        def names() -> set[str]:
            return {one["name"] for one in client.client_list()}

        wanted = {
            f"taskkit-{role}:{socket.gethostname()}:{pid}"
            for role, pid in (("scheduler", scheduler.pid), ("worker", worker.pid), ("app", os.getpid()))
        }
        wait_until(lambda: names() >= wanted)
        assert wanted - names() == set()


def test_mysql_lists_each_connection_under_role_host_and_pid(
    tmp_path_factory: pytest.TempPathFactory, valkey: Valkey
) -> None:
    """In performance_schema.session_connect_attrs, as every driver that names its program."""
    folder = tmp_path_factory.mktemp("named")
    with (
        available(MariaDB, performance_schema="ON") as database,
        on_servers(folder, database.url, valkey.url) as home,
    ):
        worker = home.worker("--processes", "1")
        rows = database.admin(
            "SELECT ATTR_VALUE FROM performance_schema.session_connect_attrs WHERE ATTR_NAME = 'program_name'"
        )
        names = [value for (value,) in rows if value.startswith("taskkit-worker:")]
        assert set(names) == {f"taskkit-worker:{socket.gethostname()}:{worker.pid}"}
        assert 2 <= len(names) <= WORKER_SQL
        assert any(value == f"taskkit-app:{socket.gethostname()}:{os.getpid()}" for (value,) in rows)


def test_an_account_that_may_not_name_its_connections_is_let_in(redis_url: str) -> None:
    """ACL users of before, who may do what a queue needs and nothing else."""
    from taskkit.queues import connect as open_queue

    port = int(redis_url.rpartition(":")[2].partition("/")[0])
    with redis.Redis.from_url(redis_url) as client:
        client.execute_command(
            "ACL", "SETUSER", "narrow", "on", ">s", "~*", "+@list", "+@connection", "-client", "+type"
        )  # fmt: skip
        try:
            queue = open_queue(f"redis://narrow:s@127.0.0.1:{port}/0")
            queue.ring()
            assert queue.wait_ring(1) is not None
            queue.close()
        finally:
            client.execute_command("ACL", "DELUSER", "narrow")


def test_a_name_in_the_url_is_kept(mariadb: MariaDB) -> None:
    center = TaskCenter(f"{mariadb.url}?program_name=shop")
    with center.database.engine.connect() as connection:
        driver = connection.connection.driver_connection
        assert driver._connect_attrs["program_name"] == "shop"  # type: ignore[union-attr]
    center.close()
    connect(mariadb.url).close()


def test_no_verb_asks_for_a_second_connection_while_it_holds_one(center_url: str) -> None:
    """It would wait for itself in a process that has one for each thread."""
    center = TaskCenter(center_url, pool_size=1, overflow=0)
    center.database.engine.pool._timeout = 1  # type: ignore[attr-defined]
    walk(center)
    assert center.database.in_use == 0
    center.close()
