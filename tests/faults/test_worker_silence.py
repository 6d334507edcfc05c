"""Servers that accept and say nothing: every call of a worker has its time, and it goes on when they are back."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from taskkit.states import Status
from tests.processes import APP, Installation, Process, Stack, on_servers
from tests.servers import MariaDB, Valkey, available
from tests.waiting import wait_until

pytestmark = pytest.mark.faults
READ_S = 2.0
FOUND_OUT_S = 50.0
"""A call is repeated over new connections, each of which has some seconds for its greeting."""


LATE_S = 1.5
"""Behind a task that runs for longer than one of its code is thought to take no other is fetched; a pull that had begun
before lasts half a second."""


class Silent(Stack):
    """A scheduler and a worker whose SQL calls last READ_S seconds at most, on servers of their own."""

    database: MariaDB
    broker: Valkey


@pytest.fixture
def silent(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Silent]:
    monkeypatch.setenv("FAST_READ_S", str(READ_S))
    folder = tmp_path_factory.mktemp("silent")
    settings = {"worker_processes": 2, "worker_heartbeat_s": 0.5, "scheduler_dead_after_s": 3600}
    with (
        available(MariaDB) as database,
        available(Valkey) as broker,
        on_servers(folder, database.url, broker.url, **settings) as home,
    ):
        home.modules["worker"] = "tests.fast_worker"
        found = Silent(home)
        found.database, found.broker = database, broker
        yield found
        for server in (database, broker):
            server.resume()


def youngest(home: Installation, ids: list[int]) -> float:
    """For how many seconds all of these have been running; 0 while one of them does not."""
    tasks, now = home.kit.center.read.tasks(ids), home.kit.center.now()
    running = all(task.status is Status.RUNNING and task.claimed_at for task in tasks)
    return (
        min((now - task.claimed_at).total_seconds() for task in tasks if task.claimed_at) if running else 0.0
    )


def said(worker: Process, text: str) -> bool:
    return any(text in line["message"] for line in worker.lines())


def test_a_database_that_says_nothing_costs_no_end_and_no_worker(silent: Silent, tmp_path: Path) -> None:
    """What ends meanwhile is held and written once; the same processes go on."""
    home, notes = silent.home, tmp_path / "notes"
    ids = home.enqueue_many("nap", [{"seconds": 1, "path": str(notes)}] * 2)
    home.wait_all(ids, Status.RUNNING)
    silent.database.pause()
    wait_until(lambda: {line["task_id"] for line in silent.worker.lines(outcome="success")} >= set(ids))
    wait_until(lambda: said(silent.worker, "writing ends of tasks failed"), FOUND_OUT_S)
    wait_until(lambda: said(silent.worker, "heartbeat failed"), FOUND_OUT_S)
    silent.database.resume()
    assert {task.status for task in home.wait_all(ids)} == {Status.SUCCESS}
    assert {tuple(home.outcomes(task_id)) for task_id in ids} == {("success",)}
    assert len(notes.read_text().splitlines()) == 2
    assert home.wait(home.enqueue("echo")).status is Status.SUCCESS
    assert silent.worker.popen.poll() is None


def test_a_broker_that_says_nothing_is_left_alone_until_it_does(silent: Silent) -> None:
    silent.broker.pause()
    wait_until(lambda: said(silent.worker, "pulling messages failed"), FOUND_OUT_S)
    task_id = silent.home.enqueue("echo", {"value": 1})
    silent.broker.resume()
    assert silent.home.wait(task_id, seconds=40).status is Status.SUCCESS
    assert silent.worker.popen.poll() is None


def test_a_worker_can_be_stopped_while_the_database_says_nothing(silent: Silent, tmp_path: Path) -> None:
    """What it had popped and not claimed is told by its ids; recovery brings the tasks back."""
    home = silent.home
    blockers = home.enqueue_many("meet", [{"folder": str(tmp_path), "n": 3}] * 2)
    wait_until(lambda: youngest(home, blockers) > LATE_S)
    ids = home.enqueue_many("echo", [{"value": n} for n in range(4)])
    home.wait_all(ids, Status.DISPATCHED, seconds=10)
    silent.database.pause()
    (tmp_path / "the third").touch()
    wait_until(lambda: said(silent.worker, "claiming tasks failed"), FOUND_OUT_S)
    silent.worker.signal(signal.SIGTERM)
    wait_until(lambda: said(silent.worker, "popped but not claimed"), FOUND_OUT_S)
    (line,) = [one for one in silent.worker.lines() if "popped but not claimed" in one["message"]]
    assert set(line["task_ids"]) <= set(ids)
    assert line["task_ids"]
    silent.database.resume()
    assert silent.worker.wait(30) == 0
    assert {task.status for task in home.kit.center.read.tasks(blockers)} == {Status.SUCCESS}
    again = home.begin("worker", "--app", APP).ready()
    assert {task.status for task in home.wait_all(ids, seconds=60)} == {Status.SUCCESS}
    assert again.stop() == 0
