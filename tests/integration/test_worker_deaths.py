"""Violent ends: the parent, its nursery, its children; nothing is left behind and nobody else suffers."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from taskkit.states import Status
from tests.pids import alive
from tests.processes import Process, Stack
from tests.waiting import wait_until

pytest_plugins = ["tests.stacks"]
QUEUE = "deaths"


@pytest.fixture(scope="module")
def worker(server_stack: Stack) -> Iterator[Process]:
    """A worker of its own, which must live to the end of the module."""
    found = server_stack.home.worker("--queue", QUEUE, "--processes", "2")
    yield found
    assert found.popen.poll() is None
    assert found.stop() == 0


def spawn(stack: Stack, notes: Path, queue: str) -> tuple[int, list[int]]:
    """A task whose handler waits for a shell, which waits for a child; the pids of these two."""
    task_id = stack.home.enqueue("spawn", {"path": str(notes)}, queue=queue, max_retry=0)
    wait_until(lambda: len(notes.read_text().split()) == 2)
    stack.home.wait(task_id, Status.RUNNING)
    return task_id, [int(word) for word in notes.read_text().split()]


def test_a_killed_parent_takes_everything_with_it_within_a_second(server_stack: Stack, notes: Path) -> None:
    worker = server_stack.home.worker("--queue", "killed", "--processes", "2")
    _, grandchildren = spawn(server_stack, notes, "killed")
    family = [process.pid for process in worker.family()]
    assert set(grandchildren) <= set(family)
    assert len(family) == 1 + 2 + 2
    worker.popen.kill()
    worker.popen.wait()
    wait_until(lambda: not any(alive(pid) for pid in family), 1)


def test_a_killed_nursery_is_replaced_and_the_worker_goes_on(
    server_stack: Stack, worker: Process, notes: Path
) -> None:
    home, nursery = server_stack.home, worker.nursery
    task_id, grandchildren = spawn(server_stack, notes, QUEUE)
    before = worker.children()
    os.kill(nursery, signal.SIGKILL)
    assert home.wait(task_id).status is Status.GIVEN_UP
    (run,) = home.runs(task_id)
    assert "killed by signal 9" in (run.error or "")
    assert not any(alive(pid) for pid in [*before, *grandchildren]), "gone before the row leaves status 2"
    after = home.enqueue("echo", {"value": "again"}, queue=QUEUE)
    assert home.wait(after).status is Status.SUCCESS
    assert worker.nursery != nursery


TURNING = """
from taskkit import Taskkit
kit = Taskkit()

@kit.task("turning", max_retry=0)
{handler} turning() -> str:
    return "{word}"
"""


def test_a_new_nursery_runs_the_code_that_it_has_loaded(server_stack: Stack) -> None:
    """A deployment in place: a handler that became async meanwhile runs as one, and one that is gone is told."""
    home = server_stack.home
    module = home.folder / "turning.py"
    module.write_text(TURNING.format(handler="def", word="plain"))
    arguments = ("--app", "turning:kit", "--queue", "turning", "--processes", "1")
    worker = home.begin("worker", *arguments).ready()
    first, nursery = home.enqueue("turning"), worker.nursery
    assert home.wait(first).result == '"plain"'
    module.write_text(TURNING.format(handler="async def", word="async"))
    os.kill(nursery, signal.SIGKILL)
    wait_until(lambda: worker.nursery not in {None, nursery} and worker.children())
    assert home.wait(home.enqueue("turning")).result == '"async"'
    nursery = worker.nursery
    module.write_text(TURNING.format(handler="def", word="other").replace('"turning"', '"another"'))
    os.kill(nursery, signal.SIGKILL)
    gone = home.wait(home.enqueue("turning", max_retry=0))
    assert gone.status is Status.GIVEN_UP
    assert "no handler" in (gone.last_result or "")
    assert worker.stop() == 0


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_a_killed_child_fails_exactly_its_own_task(
    server_stack: Stack, worker: Process, notes: Path, number: signal.Signals
) -> None:
    """At once, with the signal in the record; what it had not begun runs elsewhere, uncounted."""
    home = server_stack.home
    victim = home.enqueue("nap", {"seconds": 60, "path": str(notes)}, queue=QUEUE, max_retry=0)
    wait_until(lambda: notes.read_text().endswith("begun\n"))
    others = home.enqueue_many("echo", [{"value": n} for n in range(50)], queue=QUEUE)
    os.kill(int(notes.read_text().split()[2]), number)
    assert home.wait(victim, seconds=5).status is Status.GIVEN_UP
    (run,) = home.runs(victim)
    assert f"killed by signal {number.value} ({number.name})" in (run.error or "")
    assert {task.status for task in home.wait_all(others)} == {Status.SUCCESS}
    assert {tuple(home.outcomes(task_id)) for task_id in others} == {("success",)}


def test_children_and_nursery_killed_again_and_again(server_stack: Stack, worker: Process) -> None:
    """Whatever dies in whatever order, every task has exactly one success and the parent lives."""
    home = server_stack.home
    ids = home.enqueue_many(
        "nap", [{"seconds": 0.005}] * 120, queue=QUEUE, max_retry=200, retry_delays=[0.01]
    )
    for blow in range(8):
        wait_until(lambda: len(worker.family()) >= 2)
        family = worker.family()
        victims = [family[0]] if blow % 4 == 3 else family[1:]
        for victim in victims:
            victim.kill()
        wait_until(lambda v=victims: not any(alive(p.pid) for p in v))  # type: ignore[misc]
    home.wait_all(ids)
    runs = home.kit.center.read.runs(ids)
    assert sorted(run.task_id for run in runs if run.outcome == "success") == sorted(ids)
    assert {run.outcome.value for run in runs} <= {"success", "failed", "handed_back", "lost"}
    assert worker.popen.poll() is None
    assert worker.err.read_text() == ""
