"""Late words of a worker that was stopped too long, and tasks that take their whole worker with them."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from taskkit.states import Status
from tests.conftest import EXTERNAL_DATABASE
from tests.processes import Installation, Process, on_servers
from tests.servers import Valkey
from tests.waiting import wait_until

pytestmark = pytest.mark.faults
QUICK: dict[str, Any] = {
    "scheduler_recover_every_s": 0.2,
    "scheduler_lost_after_s": 1,
    "scheduler_dead_after_s": 2,
    "worker_heartbeat_s": 0.3,
    "log_level": "info",
}
WORKER = ("--app", "tests.sample_stale:kit", "--queue", "stale")
SECOND = {"stays": Status.RUNNING, "returns": Status.SUCCESS, "raises": Status.FAILED}
"""What a second attempt has done when the first one is woken, and the status in which it has left its task."""


@pytest.fixture
def home(tmp_path: Path, request: pytest.FixtureRequest, valkey: Valkey) -> Iterator[Installation]:
    database = EXTERNAL_DATABASE or str(request.getfixturevalue("mariadb").url)
    with on_servers(tmp_path, database, valkey.url, **QUICK) as one:
        yield one


def test_guarantee_2_work_09_whatever_a_stale_attempt_does_it_changes_nothing(
    home: Installation, tmp_path: Path
) -> None:
    """It returns, raises or runs on; the second attempt runs, has succeeded, or has failed and waits for its retry."""
    home.scheduler()
    stale = home.begin("worker", *WORKER, worker_processes=1, worker_threads=9).ready()
    cases = list(product(("returns", "raises", "stays"), SECOND))
    payloads = [{"folder": str(tmp_path), "first": first, "second": second} for first, second in cases]
    ids = home.enqueue_many("twofold", payloads, queue="stale", max_retry=2, retry_delays=[3600])
    wait_until(lambda: all((tmp_path / f"{task_id}.1").exists() for task_id in ids), 30)
    family = [stale.pid, *(process.pid for process in stale.family())]
    home.freeze(*family)
    home.begin("worker", *WORKER, worker_processes=1, worker_threads=9).ready()
    for task_id, (_, second) in zip(ids, cases, strict=True):
        wait_until(lambda task_id=task_id: (tmp_path / f"{task_id}.2").exists(), 60)
        home.wait(task_id, SECOND[second])
    before = rows(home, ids)
    assert [row["attempt"] for row in before] == [2] * 9
    for pid in family:
        os.kill(pid, signal.SIGCONT)
    (tmp_path / "woken").touch()
    refused = {task_id for task_id, (first, _) in zip(ids, cases, strict=True) if first != "stays"}
    wait_until(lambda: discarded(stale) == refused, 30)
    assert {task_id: home.outcomes(task_id)[0] for task_id in ids} == {
        task_id: "superseded" if task_id in refused else "lost" for task_id in ids
    }
    assert rows(home, ids) == before
    (tmp_path / "end").touch()
    wait_until(lambda: discarded(stale) == set(ids), 30)
    for task_id, (_, second) in zip(ids, cases, strict=True):
        home.wait(task_id, Status.FAILED if second == "raises" else Status.SUCCESS)
    assert stale.popen.poll() is None


def rows(home: Installation, ids: list[int]) -> list[dict[str, Any]]:
    """Everything that the task center knows of these tasks."""
    text = home.kit.center.database.text("SELECT * FROM task_center WHERE id IN :ids ORDER BY id")
    found = home.kit.center.database.read(lambda c: c.execute(text, {"ids": ids}).all())
    return [dict(row._mapping) for row in found]


def discarded(worker: Process) -> set[int]:
    """The tasks of which a worker has said that it comes too late."""
    return {line["task_id"] for line in worker.lines() if "result discarded: superseded" in line["message"]}


def test_work_04_a_a_task_that_kills_its_worker_every_time_is_given_up_and_its_neighbours_end_well(
    home: Installation, tmp_path: Path
) -> None:
    """Three workers, each of which is started again when it is gone; a loss is counted apart from retries."""
    home.scheduler()
    stop = threading.Event()
    keeper = threading.Thread(target=keep_up, args=[home, stop, 3])
    keeper.start()
    try:
        healthy = home.enqueue_many("nap", [{"seconds": 0.02}] * 50, queue="stale")
        poison = {"path": str(tmp_path / "starts")}
        task_id = home.enqueue("kill_worker", poison, queue="stale", max_retry=1, retry_delays=[0.05])
        assert home.wait(task_id, seconds=120).status is Status.GIVEN_UP
        assert {task.status for task in home.wait_all(healthy, seconds=60)} == {Status.SUCCESS}
    finally:
        stop.set()
        keeper.join()
    starts = (tmp_path / "starts").read_text().split()
    assert starts == ["1", "2", "3", "4", "5"], "max_retry + 3 losses are borne"
    assert home.outcomes(task_id) == ["lost"] * 5
    assert all("worker" in (run.error or "") for run in home.runs(task_id))
    assert {home.task(i).retry_count for i in healthy} == {0}


def keep_up(home: Installation, stop: threading.Event, count: int) -> None:
    """A supervisor of so many workers: whoever is gone is started again."""
    workers: list[Process] = []
    while not stop.wait(0.1):
        workers = [worker for worker in workers if worker.popen.poll() is None]
        workers += [home.begin("worker", *WORKER, worker_processes=2) for _ in range(count - len(workers))]
