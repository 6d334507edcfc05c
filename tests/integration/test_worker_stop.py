"""SIGTERM while tasks run, wait and arrive; what was not finished goes back, uncounted."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

from taskkit.states import Status
from tests.pids import alive
from tests.processes import APP, Stack
from tests.waiting import wait_until

pytest_plugins = ["tests.stacks"]


def napping(stack: Stack, notes: Path, queue: str, seconds: float, code: str = "nap") -> int:
    task_id = stack.home.enqueue(code, {"seconds": seconds, "path": str(notes)}, queue=queue)
    wait_until(lambda: f"{task_id} 1 " in notes.read_text())
    return task_id


def test_guarantee_7_running_tasks_may_finish_and_nothing_more_is_taken(
    server_stack: Stack, notes: Path
) -> None:
    """(a) and (c): the signal to the parent, or to everybody as supervisors do it."""
    home, queues = server_stack.home, ("to-parent", "to-group")
    options = ("--processes", "1", "--grace", "30")
    workers = [home.begin("worker", "--app", APP, "--queue", queue, *options) for queue in queues]
    for worker in workers:
        worker.ready()
    ids = [napping(server_stack, notes, queue, 3) for queue in queues]
    os.kill(workers[0].pid, signal.SIGTERM)
    os.killpg(workers[1].pid, signal.SIGTERM)
    for worker in workers:
        wait_until(lambda w=worker: w.lines(message=f"worker {w.id} is stopping"))  # type: ignore[misc]
    time.sleep(0.6)  # a pull that had begun before the signal may last that long
    late = [home.enqueue("echo", queue=queue) for queue in queues]
    before = [row["heartbeat_at"] for worker in workers if (row := worker.row())]
    wait_until(
        lambda: all(r["heartbeat_at"] > at for w, at in zip(workers, before, strict=True) if (r := w.row()))
    )
    assert [worker.wait() for worker in workers] == [0, 0]
    assert [home.task(task_id).status for task_id in ids] == [Status.SUCCESS] * 2
    assert [home.outcomes(task_id) for task_id in ids] == [["success"]] * 2
    assert {home.task(task_id).status for task_id in late} <= {Status.PENDING, Status.DISPATCHED}
    assert home.kit.center.read.runs(late) == []
    assert [worker.row() for worker in workers] == [None, None]


def test_guarantee_7_after_the_grace_the_children_are_ended_and_their_tasks_go_back(
    server_stack: Stack, notes: Path
) -> None:
    """(b): whatever they are at, with those that waited behind them."""
    home = server_stack.home
    worker = home.worker("--queue", "hurried", "--processes", "3", "--grace", "0.5")
    ids = [napping(server_stack, notes, "hurried", 60, code) for code in ("nap", "nap_async")]
    ids.append(home.enqueue("spin", queue="hurried"))
    home.wait(ids[2], Status.RUNNING)
    family = [process.pid for process in worker.family()]
    begun = time.monotonic()
    assert worker.stop() == 0
    assert time.monotonic() - begun < 30
    tasks = home.kit.center.read.tasks(ids)
    assert {task.status for task in tasks} <= {Status.PENDING, Status.DISPATCHED}
    assert {task.retry_count for task in tasks} == {0}
    assert [home.outcomes(task_id) for task_id in ids] == [["handed_back"]] * 3
    assert not any(alive(pid) for pid in family)


def test_guarantee_7_a_second_signal_stops_at_once_and_leaves_no_process(
    server_stack: Stack, notes: Path
) -> None:
    """(d): what ran stays in status 2, as after a kill, for recovery to find."""
    home = server_stack.home
    worker = home.worker("--queue", "twice", "--processes", "1", "--grace", "60")
    napping(server_stack, notes, "twice", 60)
    family = [process.pid for process in worker.family()]
    worker.signal(signal.SIGTERM)
    wait_until(lambda: worker.lines(message=f"worker {worker.id} is stopping"))
    worker.signal(signal.SIGTERM)
    assert worker.wait(3) == 1
    assert not any(alive(pid) for pid in family)


def test_a_signal_before_it_is_up_stops_it_in_order(server_stack: Stack) -> None:
    worker = server_stack.home.begin("worker", "--app", APP, "--queue", "early")
    wait_until(worker.family)
    assert worker.stop() == 0
    assert worker.err.read_text() == ""


def test_guarantee_7_stopping_at_any_moment_loses_nothing(server_stack: Stack, notes: Path) -> None:
    """(e): short tasks flow while workers come and go."""
    home, rng = server_stack.home, random.Random(7)
    ids = home.enqueue_many("mark", [{"path": str(notes)}] * 1000, queue="flow")
    for _ in range(2):
        worker = home.worker("--queue", "flow", "--processes", "2", "--grace", "10")
        enough = min(begun(notes) + rng.randrange(1, 300), len(ids))
        wait_until(lambda n=enough: begun(notes) >= n)  # type: ignore[misc]
        assert worker.stop() == 0
        assert not [task for task in home.kit.center.read.tasks(ids) if task.status is Status.RUNNING]
    last = home.worker("--queue", "flow", "--processes", "2")
    assert {(task.status, task.retry_count) for task in home.wait_all(ids)} == {(Status.SUCCESS, 0)}
    assert last.stop() == 0
    each = sorted(int(line.split()[0]) for line in notes.read_text().splitlines())
    assert each == sorted(ids), "each had its effect once"


def begun(notes: Path) -> int:
    return len(notes.read_text().splitlines())
