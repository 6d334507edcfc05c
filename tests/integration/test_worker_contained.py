"""A child may do what it likes: exactly that attempt fails, with the reason, and its slot works again."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from taskkit.states import Status
from tests.fires import burning, works
from tests.pids import alive
from tests.processes import Process, Stack
from tests.waiting import wait_until

pytest_plugins = ["tests.stacks"]
QUEUE = "contained"


@pytest.fixture(scope="module")
def worker(server_stack: Stack) -> Iterator[Process]:
    with burning(server_stack.home, QUEUE, "--processes", "2") as found:
        yield found


HURTS = {
    "closes all": "exited with code 1|connection to the worker was closed",
    "closes all and sleeps": "connection to the worker was closed",
    "closes all and opens others": "exited with code 1|connection to the worker was closed",
    "writes garbage": "what it sent to the worker cannot be read",
    "writes a giant frame": "what it sent to the worker cannot be read",
    "fills a pipe": "^timeout",
    "ignores signals": "^timeout",
    "stops itself": "^timeout",
    "forks many and exits": "exited with code 5 before",
    "reads nowhere": r"killed by signal 11 \(SIGSEGV\)",
    "aborts": r"killed by signal 6 \(SIGABRT\)",
    "exits 0": "exited with code 0 before",
    "kills itself": r"killed by signal 9 \(SIGKILL\)",
    "forks and returns twice": "",
    "closes stdout": "",
}
IN_THE_LOOP = {
    "closes all": "exited with code 1",
    "closes all and opens others": "exited with code 1",
    "reads nowhere": "SIGSEGV",
    "exits 0": "exited with code 0 before",
    "kills itself": "SIGKILL",
    "stops itself": "^timeout",
    "forks and returns twice": "",
}
CASES = [("hurt", *item) for item in HURTS.items()] + [("hurt_async", *item) for item in IN_THE_LOOP.items()]


@pytest.mark.parametrize(("code", "how", "reason"), CASES, ids=[f"{code}-{how}" for code, how, _ in CASES])
def test_guarantee_6_work_05_work_07_what_a_child_does_fails_only_its_own_attempt(
    server_stack: Stack, worker: Process, code: str, how: str, reason: str
) -> None:
    """A neighbour runs through all of it; afterwards the same parent has as many working slots as before."""
    home = server_stack.home
    neighbour = home.enqueue("nap", {"seconds": 0.5}, queue=QUEUE)
    home.wait(neighbour, Status.RUNNING)
    task_id = home.enqueue(code, {"how": how}, queue=QUEUE, timeout=2 if reason == "^timeout" else 20)
    task = home.wait(task_id, seconds=40)
    if reason:
        (run,) = home.runs(task_id)
        assert (task.status, run.outcome.value) == (
            Status.GIVEN_UP,
            "timeout" if reason == "^timeout" else "failed",
        )
        assert re.search(reason, run.error or ""), run.error
        assert run.pid is not None
        wait_until(lambda: not alive(run.pid or 0))
    else:
        assert (task.status, home.outcomes(task_id)) == (Status.SUCCESS, ["success"])
    assert home.wait(neighbour).status is Status.SUCCESS
    assert home.outcomes(neighbour) == ["success"]
    works(home, QUEUE, 2)


@pytest.mark.parametrize(("how", "signal_name"), [("reads nowhere", "SIGSEGV"), ("kills itself", "SIGKILL")])
def test_guarantee_6_work_04_b_c_a_task_that_kills_its_child_every_time_is_given_up_and_its_neighbours_end_well(
    server_stack: Stack, worker: Process, notes: Path, how: str, signal_name: str
) -> None:
    home = server_stack.home
    healthy = home.enqueue_many("nap", [{"seconds": 0.02}] * 50, queue=QUEUE)
    task_id = home.enqueue("poison", {"path": str(notes), "how": how}, queue=QUEUE)
    assert home.wait(task_id).status is Status.GIVEN_UP
    assert home.outcomes(task_id) == ["failed"] * 4
    assert len(notes.read_text().splitlines()) == 4
    assert all(signal_name in (run.error or "") for run in home.runs(task_id))
    assert {task.status for task in home.wait_all(healthy)} == {Status.SUCCESS}
    assert {tuple(home.outcomes(i)) for i in healthy} == {("success",)}


def test_work_04_a_handler_that_kills_the_nursery_is_blamed_when_it_ran_alone(
    server_stack: Stack, worker: Process, notes: Path
) -> None:
    """A counted retry each time, with the signal in the record."""
    home = server_stack.home
    task_id = home.enqueue("kill_nursery", {"path": str(notes)}, queue=QUEUE)
    assert home.wait(task_id).status is Status.GIVEN_UP
    assert home.outcomes(task_id) == ["failed"] * 4
    assert all("killed by signal 9 (SIGKILL)" in (run.error or "") for run in home.runs(task_id))
    assert len(notes.read_text().splitlines()) == 4
    works(home, QUEUE, 2)


def test_when_the_nursery_dies_under_several_tasks_none_of_them_is_blamed(
    server_stack: Stack, worker: Process, notes: Path
) -> None:
    """Each is lost, which counts as no retry; what had not begun is not touched by it."""
    home = server_stack.home
    ids = home.enqueue_many("nap", [{"seconds": 1, "path": str(notes)}] * 2, queue=QUEUE)
    wait_until(lambda: len(notes.read_text().splitlines()) == 2)
    os.kill(worker.nursery, signal.SIGKILL)
    tasks = home.wait_all(ids)
    assert {(task.status, task.retry_count) for task in tasks} == {(Status.SUCCESS, 0)}
    assert {tuple(home.outcomes(task_id)) for task_id in ids} == {("lost", "success")}
