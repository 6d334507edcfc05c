"""A worker whose number of children follows the load: real processes, real tasks, real departures."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from taskkit import Settings
from taskkit.states import Status
from tests.conftest import EXTERNAL_DATABASE
from tests.pids import alive
from tests.processes import Installation, Process, on_servers
from tests.servers import Valkey
from tests.waiting import wait_until

pytest_plugins = ["tests.stacks"]
LEAST, MOST = 1, 4
SCALING: dict[str, Any] = {
    "worker_processes": LEAST,
    "worker_max_processes": MOST,
    "worker_backlog_s": 1,
    "worker_calm_s": 3,
    "worker_heartbeat_s": 0.2,
    "worker_grace_s": 1,
    "worker_kill_grace_s": 0.5,
    "worker_async_concurrency": 10,
}


@pytest.fixture
def home(request: pytest.FixtureRequest, tmp_path: Path, valkey: Valkey) -> Iterator[Installation]:
    """On the session's servers, or with the task center in SQLite; without processes."""
    if getattr(request, "param", "") == "sqlite":
        settings = Settings(
            home=tmp_path / "home",
            database_url=f"sqlite:///{tmp_path}/shared.db",
            redis_url=valkey.url,
            key_prefix=f"{tmp_path.name}:",
        )
        with Installation(tmp_path, settings=settings, **SCALING) as one:
            yield one
        return
    database = EXTERNAL_DATABASE or request.getfixturevalue("mariadb").url
    with on_servers(tmp_path, database, valkey.url, **SCALING) as one:
        yield one


@pytest.fixture
def worker(home: Installation) -> Process:
    home.begin("scheduler")
    return home.worker()


def size(worker: Process) -> int:
    row = worker.row()
    return len(row["children"]) if row else 0


def changes(worker: Process) -> list[tuple[int, int]]:
    """What its log says: from how many to how many."""
    return [(line["children"], line["wanted"]) for line in worker.lines() if "wanted" in line]


@pytest.mark.parametrize("home", ["sqlite", "server"], indirect=True)
def test_a_worker_grows_with_its_backlog_and_shrinks_when_it_idles(
    home: Installation, worker: Process
) -> None:
    nursery = worker.nursery
    first = worker.row()
    assert first is not None
    assert (first["processes"], first["min_processes"], first["max_processes"]) == (1, LEAST, MOST)
    ids = home.enqueue_many("nap", [{"seconds": 0.1}] * 150)
    wait_until(lambda: size(worker) == MOST, 60)
    row = worker.row()
    assert row is not None and row["processes"] == MOST
    family = {process.pid for process in worker.family()}
    assert {child["pid"] for child in row["children"]} <= family, "all from its own nursery"
    assert worker.nursery == nursery
    home.wait_all(ids, Status.SUCCESS, seconds=60)
    wait_until(lambda: size(worker) == LEAST, 60)
    told = changes(worker)
    assert [(a, b) for a, b in told if b < a] == [(n, n - 1) for n in range(MOST, LEAST, -1)]
    assert len(told) <= 2 * (MOST - LEAST)
    lines = [line for line in worker.lines() if "wanted" in line]
    assert all({"busy", "waiting", "task_seconds"} <= set(line) for line in lines)
    assert "are needed" in lines[0]["message"] and "were enough" in lines[-1]["message"]
    runs = home.kit.center.read.runs(ids)
    assert {(run.attempt, run.outcome.value) for run in runs} == {(1, "success")}
    assert not worker.lines(level="error")
    assert worker.stop() == 0


@pytest.mark.parametrize("code", ["nap", "nap_async"])
def test_a_busy_child_is_never_ended_for_it(
    home: Installation, worker: Process, code: str, notes: Path
) -> None:
    """Those that are to go finish what they have begun; what they hold besides runs elsewhere."""
    long = home.enqueue_many(code, [{"seconds": 12, "path": str(notes)}] * 2)
    ids = home.enqueue_many("nap", [{"seconds": 0.1}] * 120)
    wait_until(lambda: size(worker) == MOST, 60)
    home.wait_all(ids, Status.SUCCESS, seconds=60)
    wait_until(lambda: size(worker) <= 2, 60)
    home.wait_all(long, Status.SUCCESS, seconds=60)
    runs = home.kit.center.read.runs([*long, *ids])
    begun = [run for run in runs if run.started_at is not None]
    assert Counter(run.task_id for run in begun) == dict.fromkeys([*long, *ids], 1), "each began once"
    assert {run.outcome.value for run in begun} == {"success"}
    assert {run.outcome.value for run in runs if run.started_at is None} <= {"handed_back"}
    assert len(notes.read_text().splitlines()) == 2
    assert not worker.lines(level="warning")


def test_an_oscillating_load_changes_little(home: Installation, worker: Process) -> None:
    """Waves that are shorter than the calm: it grows to what the crests need, and stays so."""
    ids: list[int] = []
    for _ in range(8):
        batch = home.enqueue_many("nap", [{"seconds": 0.05}] * 60)
        ids += batch
        home.wait_all(batch, Status.SUCCESS, seconds=60)
    told = changes(worker)
    downs = [n for n, (before, after) in enumerate(told) if after < before]
    assert told, "it has grown"
    assert told[0][1] > told[0][0]
    assert len(told) <= 2 * (MOST - LEAST), told
    assert len(downs) <= 2, told
    assert all(before == after for (_, before), (after, _) in pairwise(told)), (
        "each begins where the last one ended"
    )
    runs = home.kit.center.read.runs(ids)
    assert Counter(run.outcome.value for run in runs) == {"success": len(ids)}


def test_guarantee_7_a_stop_in_the_middle_of_a_change_leaves_nothing_behind(
    home: Installation, worker: Process
) -> None:
    ids = home.enqueue_many("nap", [{"seconds": 5}] * 12)
    wait_until(lambda: len(changes(worker)) > 0, 60)
    family = [process.pid for process in worker.family()]
    assert worker.stop() == 0
    assert worker.row() is None, "it has signed off"
    wait_until(lambda: not any(alive(pid) for pid in family), 10)
    counts = home.kit.center.read.counts()
    assert counts[Status.RUNNING] == 0
    runs = home.kit.center.read.runs(ids)
    assert {run.outcome.value for run in runs} <= {"handed_back", "success"}
    assert all(task.retry_count == 0 for task in home.kit.center.read.tasks(ids))


def test_guarantee_7_a_stop_while_children_leave_hands_back_what_they_run(
    home: Installation, worker: Process
) -> None:
    ids = home.enqueue_many("nap", [{"seconds": 0.1}] * 100)
    wait_until(lambda: size(worker) == MOST, 60)
    home.wait_all(ids, Status.SUCCESS, seconds=60)
    long = home.enqueue("nap", {"seconds": 60}, timeout=100)
    home.wait(long, Status.RUNNING)
    wait_until(lambda: any(after < before for before, after in changes(worker)), 60)
    assert worker.stop() == 0
    task = home.task(long)
    assert task.status in {Status.PENDING, Status.DISPATCHED}
    assert (task.retry_count, home.outcomes(long)) == (0, ["handed_back"])


def test_children_are_recycled_while_their_number_changes(home: Installation) -> None:
    home.begin("scheduler")
    worker = home.worker(worker_max_tasks_per_child=10)
    ids = home.enqueue_many("whoami", [{}] * 40) + home.enqueue_many("nap", [{"seconds": 0.1}] * 120)
    wait_until(lambda: size(worker) == MOST, 60)
    home.wait_all(ids, Status.SUCCESS, seconds=60)
    wait_until(lambda: size(worker) == LEAST, 60)
    (pid,) = worker.children()
    assert alive(pid)
    more = home.enqueue_many("whoami", [{}] * 25)
    home.wait_all(more, Status.SUCCESS, seconds=60)
    wait_until(lambda: size(worker) == LEAST and worker.children() != [pid], 30)
    assert not worker.lines(level="error")


def test_a_child_that_is_killed_while_it_grows_is_replaced_and_the_number_stays(
    home: Installation, worker: Process
) -> None:
    ids = home.enqueue_many("nap", [{"seconds": 0.1}] * 200, max_retry=5)
    wait_until(lambda: size(worker) == MOST, 60)
    os.kill(worker.children()[0], signal.SIGKILL)
    wait_until(lambda: size(worker) == MOST, 30)
    home.wait_all(ids, Status.SUCCESS, seconds=90)
    assert {run.outcome.value for run in home.kit.center.read.runs(ids)} <= {"success", "failed"}


def test_two_workers_share_a_backlog_when_they_count_what_they_need(home: Installation) -> None:
    home.begin("scheduler")
    limits = ("--processes", "1", "--max-processes", "3")
    pair = [home.begin("worker", "--app", "tests.sample_app:kit", *limits) for _ in range(2)]
    for process in pair:
        process.ready(60)
    wait_until(lambda: len(home.kit.center.nodes.serving()) == 2)
    ids = home.enqueue_many("nap", [{"seconds": 0.1}] * 200)
    home.wait_all(ids, Status.SUCCESS, seconds=90)
    for process in pair:
        row = process.row()
        assert row is not None
        assert row["max_processes"] == 3
        assert max(after for _, after in changes(process)) in {2, 3}
    assert {run.worker_id for run in home.kit.center.read.runs(ids)} == {process.id for process in pair}
