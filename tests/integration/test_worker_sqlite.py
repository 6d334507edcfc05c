"""One SQLite file, two schedulers, two workers, and a stranger who locks it now and then."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import time
from pathlib import Path

from taskkit.states import Status
from tests.processes import Stack

pytest_plugins = ["tests.stacks"]


def lock_three_times(file: Path) -> None:
    """Hold the write lock, for longer than a statement of ours is usually worth."""
    with contextlib.closing(sqlite3.connect(file, timeout=30, isolation_level=None)) as link:
        for _ in range(3):
            link.execute("BEGIN IMMEDIATE")
            time.sleep(1)
            link.execute("COMMIT")
            time.sleep(0.3)


def test_sql_10_each_task_runs_once_and_nobody_complains(embedded_stack: Stack, notes: Path) -> None:
    home = embedded_stack.home
    second = home.begin("scheduler")
    worker = home.worker("--processes", "2")
    stranger = threading.Thread(target=lock_three_times, args=[home.settings.home / "taskkit.db"])
    stranger.start()
    ids = home.enqueue_many("mark", [{"path": str(notes)}] * 600)
    tasks = home.wait_all(ids, seconds=60)
    stranger.join()
    assert {(task.status, task.attempt) for task in tasks} == {(Status.SUCCESS, 1)}
    assert sorted(int(line.split()[0]) for line in notes.read_text().splitlines()) == ids
    workers = {run.worker_id for run in home.kit.center.read.runs(ids)}
    assert workers == {worker.id, embedded_stack.worker.id}, "both took part"
    for process in (second, worker, embedded_stack.worker, embedded_stack.scheduler):
        assert process.popen.poll() is None
        assert process.err.read_text() == ""
        assert not [line for line in process.lines() if "locked" in line["message"]]
    assert [worker.stop(), second.stop()] == [0, 0]
