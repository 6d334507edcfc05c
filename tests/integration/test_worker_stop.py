"""SIGTERM while tasks run, wait and arrive; what was not finished goes back, uncounted."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest

from taskkit.states import Status
from tests.processes import Stack, alive
from tests.waiting import wait_until

pytest_plugins = ["tests.stacks"]


def napping(stack: Stack, notes: Path, queue: str, seconds: float, code: str = "nap") -> int:
    task_id = stack.home.enqueue(code, {"seconds": seconds, "path": str(notes)}, queue=queue)
    wait_until(lambda: notes.read_text().endswith("begun\n"))
    return task_id


@pytest.mark.parametrize("whole_group", [False, True], ids=["the parent", "the group"])
def test_a_running_task_may_finish_and_nothing_more_is_taken(
    server_stack: Stack, notes: Path, whole_group: bool
) -> None:
    """(a) and (c): the signal to the parent, or to everybody as supervisors do it."""
    home, queue = server_stack.home, f"calm-{whole_group}"
    worker = home.worker("--queue", queue, "--processes", "1", "--grace", "30")
    task_id = napping(server_stack, notes, queue, 2)
    (os.killpg if whole_group else os.kill)(worker.pid, signal.SIGTERM)
    wait_until(lambda: worker.lines(message=f"worker {worker.id} is stopping"))
    time.sleep(0.6)  # a pull that had begun before the signal may last that long
    late = home.enqueue("echo", queue=queue)
    assert worker.wait() == 0
    assert home.task(task_id).status is Status.SUCCESS
    assert home.outcomes(task_id) == ["success"]
    assert home.task(late).status in {Status.PENDING, Status.DISPATCHED}
    assert home.runs(late) == []
    assert worker.row() is None


def test_after_the_grace_the_children_are_ended_and_their_tasks_go_back(
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
    assert time.monotonic() - begun < 0.5 + 2 + 2
    tasks = home.kit.center.read.tasks(ids)
    assert {task.status for task in tasks} <= {Status.PENDING, Status.DISPATCHED}
    assert {task.retry_count for task in tasks} == {0}
    assert [home.outcomes(task_id) for task_id in ids] == [["handed_back"]] * 3
    assert not any(alive(pid) for pid in family)


def test_a_second_signal_stops_at_once_and_leaves_no_process(server_stack: Stack, notes: Path) -> None:
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
    worker = server_stack.home.begin("worker", "--app", "tests.sample_app:kit", "--queue", "early")
    wait_until(worker.family)
    assert worker.stop() == 0
    assert worker.err.read_text() == ""


def test_stopping_at_any_moment_loses_nothing(server_stack: Stack, notes: Path) -> None:
    """(e): short tasks flow while workers come and go."""
    home, rng = server_stack.home, random.Random(7)
    ids = home.enqueue_many("mark", [{"path": str(notes)}] * 1500, queue="flow")
    for last in (False, False, True):
        worker = home.worker("--queue", "flow", "--processes", "2", "--grace", "10")
        done = len(notes.read_text().splitlines())
        wait_until(lambda n=done: len(notes.read_text().splitlines()) >= n + rng.randrange(1, 400))  # type: ignore[misc]
        tasks = home.wait_all(ids) if last else []
        assert worker.stop() == 0
        assert not [task for task in home.kit.center.read.tasks(ids) if task.status is Status.RUNNING]
    assert {(task.status, task.retry_count) for task in tasks} == {(Status.SUCCESS, 0)}
    begun = sorted(int(line.split()[0]) for line in notes.read_text().splitlines())
    assert begun == sorted(ids), "each had its effect once"
