"""Processes that handlers leave behind, in sessions of their own too, end with their child, whatever ends that."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from taskkit.states import Status
from tests.fires import APP, burning, pids, works
from tests.pids import alive, command_line
from tests.processes import Process, Stack
from tests.sample_fire import LEAVE
from tests.waiting import wait_until

pytest_plugins = ["tests.stacks"]
QUEUE = "strays"
MARKED = set(LEAVE) - {"without environment"}
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="documented as not covered without /proc")


@pytest.fixture(scope="module")
def worker(server_stack: Stack) -> Iterator[Process]:
    with burning(server_stack.home, QUEUE, "--processes", "2") as found:
        yield found


def left_behind(stack: Stack, notes: Path, how: str, then: str) -> tuple[int, list[int]]:
    payload = {"how": how, "path": str(notes), "then": then}
    task_id = stack.home.enqueue("leave", payload, queue=QUEUE, timeout=2)
    wait_until(lambda: pids(notes))
    return task_id, pids(notes)


@pytest.mark.parametrize("how", LEAVE)
@pytest.mark.parametrize("then", ["spin", "die"])
def test_work_05_what_left_its_group_ends_before_the_row_leaves_status_2(
    server_stack: Stack, worker: Process, notes: Path, how: str, then: str
) -> None:
    """(b) and (d): after a timeout of a loop in C, and after a crash."""
    task_id, left = left_behind(server_stack, notes, how, then)
    if then == "spin":
        assert all(alive(pid) for pid in left)
    assert server_stack.home.wait(task_id, seconds=10).status is Status.GIVEN_UP
    assert not any(alive(pid) for pid in left if how != "without environment")
    assert server_stack.home.outcomes(task_id) == ["timeout" if then == "spin" else "failed"]
    if how == "without environment":  # its neighbour could have started it as well, and lives
        kill_children(worker)
        wait_until(lambda: not any(alive(pid) for pid in left), 10)
    works(server_stack.home, QUEUE, 2)


def kill_children(worker: Process, *but: int) -> list[int]:
    """Kill the children that live now, and wait for their ends; one may have been killed just before."""
    below = [process.pid for process in psutil.Process(worker.nursery).children()]
    victims = [pid for pid in below if pid not in but and is_child(pid)]
    for victim in victims:
        with contextlib.suppress(ProcessLookupError):
            os.kill(victim, signal.SIGKILL)
    wait_until(lambda: not any(alive(victim) for victim in victims))
    return victims


def is_child(pid: int) -> bool:
    """Whether it is a fork of the nursery that handles tasks, not what was left behind by one."""
    with contextlib.suppress(ProcessLookupError):
        return "taskkit.worker.nursery" in command_line(pid) and os.getpgid(pid) == pid
    return False


@pytest.mark.parametrize("how", LEAVE)
def test_work_05_e_what_a_handler_leaves_behind_runs_on_until_its_own_child_ends(
    server_stack: Stack, worker: Process, notes: Path, how: str
) -> None:
    """And it is not taken along by the end of a neighbour."""
    home = server_stack.home
    task_id, left = left_behind(server_stack, notes, how, "return")
    assert home.wait(task_id).status is Status.SUCCESS
    (run,) = home.runs(task_id)
    assert run.pid
    neighbours = kill_children(worker, run.pid, *left)
    assert len(neighbours) == 1
    works(home, QUEUE, 2)
    assert all(alive(pid) for pid in left)
    os.kill(run.pid, signal.SIGKILL)
    if how == "without environment":
        kill_children(worker, *left)
    wait_until(lambda: not any(alive(pid) for pid in left), 10)
    works(home, QUEUE, 2)


@pytest.mark.parametrize(
    ("victim", "how"), [("parent", how) for how in LEAVE] + [("nursery", how) for how in sorted(MARKED)]
)
def test_nothing_survives_a_killed_parent_or_nursery(
    server_stack: Stack, notes: Path, victim: str, how: str
) -> None:
    """Groups and sessions included."""
    home, queue = server_stack.home, f"kill-{victim}-{how}".replace(" ", "-")
    worker = home.begin("worker", "--app", APP, "--queue", queue, "--processes", "2").ready()
    home.enqueue("leave", {"how": how, "path": str(notes), "then": "spin"}, queue=queue)
    wait_until(lambda: pids(notes))
    shell = notes.parent / "shell"
    home.enqueue("spin_with_shell", {"path": str(shell)}, queue=queue)
    wait_until(lambda: shell.exists() and len(pids(shell)) == 2)
    nursery, before = worker.nursery, worker.family()
    assert len(before) >= 5
    doomed = {*pids(notes), *pids(shell), *(process.pid for process in before)}
    os.kill(worker.pid if victim == "parent" else nursery, signal.SIGKILL)
    wait_until(lambda: not [pid for pid in doomed if alive(pid)], 1 if victim == "parent" else 3)
    if victim == "nursery":
        works(home, queue, 2)
        assert worker.stop() == 0
