"""Servers that fail under a running worker: it waits, tells it once, keeps its connections few, and goes on."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
import redis

from taskkit.states import Status
from tests.processes import Stack, on_servers
from tests.servers import MariaDB, Valkey, available
from tests.waiting import wait_until


class Fragile(Stack):
    """A scheduler and a worker with four children, on servers that a test may break."""

    database: MariaDB
    broker: Valkey

    def works_within(self, seconds: float) -> None:
        begun = time.monotonic()
        assert self.home.wait(self.home.enqueue("echo"), seconds=seconds).status is Status.SUCCESS
        assert time.monotonic() - begun < seconds


@contextlib.contextmanager
def installed(folder: Path) -> Iterator[Fragile]:
    with contextlib.ExitStack() as stack:
        database = stack.enter_context(available(MariaDB))
        broker = stack.enter_context(available(Valkey))
        settings = {"worker_processes": 4, "worker_heartbeat_s": 0.5, "scheduler_heartbeat_s": 0.5}
        home = stack.enter_context(on_servers(folder, database.url, broker.url, **settings))
        found = Fragile(home)
        found.database, found.broker = database, broker
        yield found
        assert [process.err.read_text() for process in home.processes] == ["", ""]


@pytest.fixture(scope="module")
def fragile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fragile]:
    with installed(tmp_path_factory.mktemp("fragile")) as found:
        yield found


@pytest.fixture
def leaving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fragile]:
    """One of its own, for a test that ends it, or that others must not have broken."""
    with installed(tmp_path_factory.mktemp("leaving")) as found:
        yield found


def connections(pid: int, port: int) -> int:
    """TCP connections of a process to a port."""
    with contextlib.suppress(psutil.NoSuchProcess):
        found = psutil.Process(pid).net_connections("tcp")
        return sum(
            bool(one.raddr) and one.raddr.port == port and one.status == "ESTABLISHED" for one in found
        )
    return 0


def test_a_worker_with_four_children_has_three_connections_to_sql_and_two_to_redis(fragile: Fragile) -> None:
    """And its children none; also while everything is used at once."""
    home, worker = fragile.home, fragile.worker
    database, broker = fragile.database.port, fragile.broker.port
    ids = home.enqueue_many("about", [{}] * 300)
    seen: list[tuple[int, int]] = []

    def done() -> bool:
        seen.append((connections(worker.pid, database), connections(worker.pid, broker)))
        return all(s[0] is Status.SUCCESS for s in home.kit.center.read.statuses(ids).values())

    wait_until(done, 60)
    assert max(sql for sql, _ in seen) <= 3, seen
    assert max(queue for _, queue in seen) <= 2, seen
    assert connections(worker.pid, database) >= 1
    for process in worker.family():
        assert (connections(process.pid, database), connections(process.pid, broker)) == (0, 0)
    wait_until(lambda: connections(fragile.scheduler.pid, broker))  # which another test may have cut
    assert connections(fragile.scheduler.pid, broker) <= 2
    assert 1 <= connections(fragile.scheduler.pid, database) <= 4


def kill_connections(fragile: Fragile) -> None:
    with redis.Redis.from_url(fragile.broker.url) as admin:
        for _ in range(3):
            admin.client_kill_filter(_type="normal", skipme=True)


def freeze(fragile: Fragile) -> None:
    fragile.broker.pause()
    time.sleep(3)
    fragile.broker.resume()


def crash(fragile: Fragile) -> None:
    fragile.broker.kill()
    assert fragile.home.enqueue("echo")
    time.sleep(1)
    fragile.broker.start()


@pytest.mark.parametrize("fault", [kill_connections, freeze, crash])
def test_redis_03_the_broker_fails_and_comes_back(fragile: Fragile, fault: Callable[[Fragile], None]) -> None:
    """Idle or not, the next task starts within 10 s of the broker's being back."""
    fragile.works_within(10)
    fault(fragile)
    fragile.works_within(10)
    assert fragile.worker.lines(level="error") == []
    assert [p.popen.poll() for p in fragile.home.processes] == [None, None], "nobody had to be restarted"


def test_redis_03_an_idle_worker_says_nothing(leaving: Fragile) -> None:
    """On servers of its own, so that no last word of another test's faults is taken for one of its."""
    leaving.works_within(10)
    said = (len(leaving.worker.lines()), len(leaving.scheduler.lines()))
    beats = row["heartbeat_at"] if (row := leaving.worker.row()) else None
    wait_until(lambda: (row := leaving.worker.row()) and (row["heartbeat_at"] - beats).total_seconds() > 3)
    assert (len(leaving.worker.lines()), len(leaving.scheduler.lines())) == said


def test_sql_01_c_ends_are_held_while_sql_is_away_and_written_once(fragile: Fragile, tmp_path: Path) -> None:
    """The tasks stay in status 2 till then, and none runs twice."""
    home, notes = fragile.home, tmp_path / "notes"
    ids = home.enqueue_many("nap", [{"seconds": 1, "path": str(notes)}] * 4)
    home.wait_all(ids, Status.RUNNING)
    wait_until(lambda: notes.exists() and len(notes.read_text().splitlines()) == 4)
    fragile.database.kill()
    wait_until(lambda: {line["task_id"] for line in fragile.worker.lines(outcome="success")} >= set(ids))
    fragile.database.start()
    assert {task.status for task in home.wait_all(ids)} == {Status.SUCCESS}
    assert {tuple(home.outcomes(task_id)) for task_id in ids} == {("success",)}
    assert len(notes.read_text().splitlines()) == 4
    fragile.works_within(10)


def test_a_worker_can_be_stopped_while_the_broker_is_away(leaving: Fragile) -> None:
    leaving.broker.kill()
    wait_until(
        lambda: any("pulling messages failed" in line["message"] for line in leaving.worker.lines()[-3:])
    )
    leaving.worker.signal(signal.SIGTERM)
    assert leaving.worker.wait(7) == 0
    assert leaving.scheduler.stop(5) == 0
