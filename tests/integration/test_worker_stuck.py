"""A worker that is stuck says where, in its row and its log, and exits; one that only works long does not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pymysql
import pytest

from taskkit.states import Status
from taskkit.worker.stuck import EXIT_CODE
from tests.fires import APP, works
from tests.pids import alive
from tests.processes import Installation, Process, on_servers
from tests.servers import MariaDB, Valkey, available, connect
from tests.waiting import wait_until

STUCK_S = 3.0
TIMES = 10 if os.environ.get("TASKKIT_TEST_LARGE") else 3


@pytest.fixture
def home(
    tmp_path_factory: pytest.TempPathFactory, mariadb: MariaDB, valkey: Valkey
) -> Iterator[Installation]:
    folder = tmp_path_factory.mktemp("stuck")
    with on_servers(folder, mariadb.url, valkey.url, scheduler_dead_after_s=3600) as found:
        found.scheduler()
        yield found


def worker(home: Installation, **environment: Any) -> Process:
    options = {"worker_stuck_s": STUCK_S, "worker_heartbeat_s": 0.3, **environment}
    return home.begin("worker", "--app", APP, "--processes", "1", **options).ready()


def row(home: Installation, process: Process) -> dict[str, Any]:
    return next(row for row in home.kit.center.nodes.workers() if row["pid"] == process.pid)


def left_stuck(home: Installation, process: Process) -> str:
    """Wait until it has left as a stuck worker does, with nothing left behind; what its row and its log both tell."""
    family = process.family()
    assert process.wait(30) == EXIT_CODE
    wait_until(lambda: not any(alive(one.pid) for one in family), 1)
    told = str(row(home, process)["stacks"])
    why = told.partition("\n")[0].removeprefix("stuck: ")
    assert f"({why})" in process.lines(level="critical")[0]["message"]
    said = [line["stacks"] for line in process.lines(level="critical") if "stacks" in line]
    assert len(said) >= 3, "parent, nursery and child"
    assert "Thread puller" in told
    return told


def test_a_claim_that_waits_for_somebodys_row_lock_and_does_not_return(
    home: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As from the field: heartbeats fresh, no CPU, the queue grows; here with a lock wait that does not end."""
    monkeypatch.setenv("FAST_LOCK_S", "600")
    home.modules["worker"] = "tests.fast_worker"
    process = worker(home)
    task_id = home.enqueue("echo", queue="nobody")
    home.wait(task_id, Status.DISPATCHED)
    report = connect(home.settings.database_url or "")
    with report, report.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("SELECT * FROM task_center WHERE id = %s FOR UPDATE", [task_id])
        push(home, "echo", task_id)
        told = left_stuck(home, process)
        assert "its puller thread does not come back from claiming tasks in SQL" in told
        assert "pymysql" in told
        report.rollback()
    home.modules.clear()
    again = worker(home)
    push(home, "echo", task_id)
    assert home.wait(task_id).status is Status.SUCCESS
    assert again.stop() == 0


def push(home: Installation, queue: str, task_id: int) -> None:
    from taskkit.model import ListName, Message

    assert home.kit.queue is not None
    assert home.kit.queue.push({ListName(queue): [Message(task_id, queue, 1)]}) == {}


def test_a_nursery_that_does_not_answer_leaves_work_waiting(home: Installation) -> None:
    """No child is born in place of one that has ended; a frozen nursery is ended all the same."""
    process = worker(home)
    (child,) = process.children()
    os.kill(process.nursery, signal.SIGSTOP)
    os.kill(child, signal.SIGKILL)
    home.enqueue_many("echo", [{"value": n} for n in range(5)])
    assert "work waits, nothing moves, and no task runs within its time limit" in left_stuck(home, process)


def test_a_log_that_nobody_reads_stops_the_main_loop(home: Installation) -> None:
    """Its stdout is a full pipe; the row tells it, since the log cannot."""
    options = {"TASKKIT_WORKER_STUCK_S": str(STUCK_S), "TASKKIT_WORKER_PROCESSES": "1"}
    with subprocess.Popen(
        [sys.executable, "-m", "taskkit.worker", "--app", APP],
        env={**home.environment, **options},
        cwd=home.folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as popen:
        wait_until(lambda: [row for row in home.kit.center.nodes.workers() if row["pid"] == popen.pid], 30)
        home.enqueue_many("echo", [{"value": n} for n in range(3000)])
        assert popen.wait(40) == EXIT_CODE
    (found,) = [row for row in home.kit.center.nodes.workers() if row["pid"] == popen.pid]
    assert "its main loop does not turn" in found["stacks"]
    assert "logging" in found["stacks"]


@pytest.mark.parametrize("code", ["nap", "spin"])
def test_a_long_task_within_its_time_limit_is_not_stuck(home: Installation, code: str) -> None:
    """Many times as long as a worker may be stuck, asleep or in C, with work waiting behind it."""
    process = worker(home, worker_prefetch_ms=60_000)
    payload = {"seconds": TIMES * STUCK_S} if code == "nap" else {}
    long = home.enqueue(code, payload, timeout=int((TIMES + 1) * STUCK_S), max_retry=0)
    home.wait(long, Status.RUNNING)
    behind = home.enqueue_many("echo", [{"value": n} for n in range(20)])
    home.wait_all([long, *behind], seconds=90)
    assert home.outcomes(long) == ["success" if code == "nap" else "timeout"]
    assert process.stop() == 0


def test_an_idle_worker_is_not_stuck_nor_one_that_was_stopped_for_a_while(home: Installation) -> None:
    process = worker(home)
    time.sleep(STUCK_S + 2)  # idle for longer than it may be stuck
    process.signal(signal.SIGSTOP)
    time.sleep(STUCK_S + 1)
    process.signal(signal.SIGCONT)
    works(home, "meet")
    assert process.stop() == 0


def test_a_worker_whose_stores_are_away_waits_for_them(tmp_path_factory: pytest.TempPathFactory) -> None:
    """To exit would help nobody, and a supervisor gives up after some starts."""
    with (
        available(MariaDB) as database,
        available(Valkey) as broker,
        on_servers(tmp_path_factory.mktemp("away"), database.url, broker.url) as home,
    ):
        home.scheduler()
        process = worker(home)
        for server in (database, broker):
            server.kill()
        time.sleep(STUCK_S + 2)  # longer than it may be stuck
        for server in (database, broker):
            server.start()
        works(home, "meet")
        assert process.stop() == 0


def test_0_switches_it_off(home: Installation) -> None:
    process = worker(home, worker_stuck_s=0)
    os.kill(process.nursery, signal.SIGSTOP)
    home.enqueue("echo")
    threading.Event().wait(3)
    assert process.popen.poll() is None
    os.kill(process.nursery, signal.SIGCONT)
    works(home, "meet")
    assert process.stop() == 0


def test_the_stacks_of_a_child_are_had_out_of_c_code(home: Installation) -> None:
    """A task beyond its limit whose child cannot be killed, since the nursery does not answer."""
    process = worker(home, worker_kill_grace_s=0.1)
    task_id = home.enqueue("spin", timeout=1, max_retry=0)
    home.wait(task_id, Status.RUNNING)
    os.kill(process.nursery, signal.SIGSTOP)
    told = left_stuck(home, process)
    assert "no task runs within its time limit" in told
    assert "in spin" in told
    assert pymysql.__name__ not in told.split("== child")[1]
