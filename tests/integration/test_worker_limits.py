"""Time limits, cancellations and the recycling of children, with real processes."""

from __future__ import annotations

import os
import re
import signal
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from taskkit.states import Status
from tests.pids import alive
from tests.processes import Process, Stack
from tests.waiting import wait_until

pytest_plugins = ["tests.stacks"]


def words(path: Path) -> list[str]:
    return path.read_text().split()


ENDLESS: dict[str, dict[str, Any]] = {
    "spin": {},
    "nap": {"seconds": 60},
    "swallow": {"path": "NOTES"},
    "nap_async": {"seconds": 60},
    "stubborn_async": {"path": "NOTES"},
    "meet_blocking": {"folder": "FOLDER", "n": 99},
    "shell": {"argv": ["sleep", "60"]},
}


def test_rule_12_guarantee_5_a_time_limit_ends_whatever_a_handler_does(
    server_stack: Stack, notes: Path, tmp_path: Path
) -> None:
    """Also a loop in C, in which no handler of a signal ever runs; other tasks go on meanwhile."""
    home, places = server_stack.home, {"NOTES": str(notes), "FOLDER": str(tmp_path)}
    ids = [
        home.enqueue(code, {k: places.get(str(v), v) for k, v in payload.items()}, timeout=1, max_retry=0)
        for code, payload in ENDLESS.items()
    ]
    after = home.enqueue("echo", {"value": 1}, priority=9)
    for code, task in zip(ENDLESS, home.wait_all(ids), strict=True):
        *before, run = home.runs(task.id)
        assert {one.outcome.value for one in before} <= {"handed_back"}, "its neighbour took the child along"
        assert (task.status, run.outcome.value) == (Status.GIVEN_UP, "timeout"), code
        assert re.match("timeout: still running after 1 s", run.error or ""), (code, run.error)
        assert run.runtime_ms is not None
        assert 1000 <= run.runtime_ms < 4000, code
        assert (task.last_result or "").startswith("timeout: ")
    assert home.wait(after).status is Status.SUCCESS


def test_a_task_that_times_out_is_tried_again(server_stack: Stack) -> None:
    task_id = server_stack.home.enqueue("spin", timeout=1, max_retry=1, retry_delays=[0.05])
    assert server_stack.home.wait(task_id).retry_count == 1
    assert server_stack.home.outcomes(task_id) == ["timeout", "timeout"]


def test_the_heart_beats_and_other_tasks_run_while_a_child_spins(server_stack: Stack) -> None:
    task_id = server_stack.home.enqueue("spin", timeout=2, max_retry=0)
    server_stack.home.wait(task_id, Status.RUNNING)
    beats = set()
    while server_stack.home.task(task_id).status is Status.RUNNING:
        row = server_stack.worker.row()
        assert row is not None
        beats.add(row["heartbeat_at"])
        echo = server_stack.home.enqueue("echo")
        assert server_stack.home.wait(echo).status is Status.SUCCESS
    assert len(beats) >= 2


@pytest.mark.parametrize("wait", [True, False])
def test_rule_12_guarantee_5_grandchildren_end_with_their_task(
    server_stack: Stack, notes: Path, wait: bool
) -> None:
    """A shell and what it started, whether the handler waits for it or has returned."""
    task_id = server_stack.home.enqueue("spawn", {"path": str(notes), "wait": wait}, timeout=1, max_retry=0)
    wait_until(lambda: len(words(notes)) >= 2)
    pids = [int(word) for word in words(notes)]
    task = server_stack.home.wait(task_id)
    assert task.status is (Status.GIVEN_UP if wait else Status.SUCCESS)
    if wait:
        wait_until(lambda: not any(alive(pid) for pid in pids), 5)
    else:
        # documented: what a handler leaves behind runs on until its child ends
        assert all(alive(pid) for pid in pids)
        os.kill(server_stack.home.runs(task_id)[0].pid or 0, signal.SIGKILL)
        wait_until(lambda: not any(alive(pid) for pid in pids), 5)


def test_a_waiting_task_that_is_cancelled_never_starts(stack: Stack, notes: Path) -> None:
    late = stack.home.enqueue("mark", {"path": str(notes)}, delay=3600)
    queued = stack.home.enqueue("mark", {"path": str(notes)}, queue="nobody")
    stack.home.wait(queued, Status.DISPATCHED)
    for task_id in (late, queued):
        assert stack.home.kit.operations.cancel(task_id, "tester") is Status.CANCELLED
    stack.deliver(queued)
    assert stack.home.task(queued).status is Status.CANCELLED
    assert (words(notes), stack.home.runs(queued)) == ([], [])


@pytest.mark.parametrize("code", ["nap", "nap_async", "spin"])
def test_a_running_task_can_be_cancelled(server_stack: Stack, notes: Path, code: str) -> None:
    payload = {} if code == "spin" else {"seconds": 60, "path": str(notes)}
    task_id = server_stack.home.enqueue(code, payload)
    server_stack.home.wait(task_id, Status.RUNNING)
    if code != "spin":
        wait_until(lambda: words(notes))
    assert server_stack.home.kit.operations.cancel(task_id, "tester") is Status.RUNNING
    task = server_stack.home.wait(task_id)
    assert (task.status, task.retry_count) == (Status.CANCELLED, 0)
    assert server_stack.home.outcomes(task_id) == ["cancelled"]
    assert task.last_result == "cancelled by a person"
    assert ("cancelled" in words(notes)) == (code == "nap_async"), "the async handler is told"


def test_a_task_never_starts_after_it_has_expired(stack: Stack, notes: Path) -> None:
    soon = stack.home.kit.center.now() + timedelta(seconds=1)
    queued = stack.home.enqueue("mark", {"path": str(notes)}, queue="nobody", expires_at=soon)
    late = stack.home.enqueue("mark", {"path": str(notes)}, delay=2, expires_at=soon)
    stack.home.wait(queued, Status.DISPATCHED)
    wait_until(lambda: stack.home.kit.center.now() > soon)
    stack.deliver(queued)
    tasks = stack.home.wait_all([queued, late])
    assert [task.status for task in tasks] == [Status.CANCELLED] * 2
    assert {task.last_result for task in tasks} == {"expired before it could start"}
    assert words(notes) == []


@pytest.fixture(scope="module")
def single(server_stack: Stack) -> Iterator[Process]:
    """A worker with one child, which is replaced after 10 tasks; its queue is ``single``."""
    worker = server_stack.home.worker("--queue", "single", "--processes", "1", worker_max_tasks_per_child=10)
    yield worker
    assert worker.stop() == 0


def test_rule_12_neighbours_of_a_task_that_takes_its_child_along_run_again_uncounted(
    server_stack: Stack, single: Process, tmp_path: Path
) -> None:
    """Tasks in threads share a child: the overdue one fails, the others go back and run alone."""
    meeting, home = tmp_path / "m", server_stack.home
    meeting.mkdir()
    overdue = home.enqueue(
        "meet_blocking", {"folder": str(meeting), "n": 99}, queue="single", timeout=1, max_retry=0
    )
    home.wait(overdue, Status.RUNNING)
    others = home.enqueue_many("meet_blocking", [{"folder": str(meeting), "n": 4}] * 2, queue="single")
    home.wait(overdue)
    (meeting / "one more").touch()
    tasks = home.wait_all(others)
    assert [(task.status, task.retry_count) for task in tasks] == [(Status.SUCCESS, 0)] * 2
    assert {tuple(home.outcomes(task_id)) for task_id in others} == {("handed_back", "success")}
    assert "its child ended: " in (home.runs(others[0])[0].error or "")


def test_children_are_replaced_after_so_many_tasks(server_stack: Stack, single: Process) -> None:
    home = server_stack.home
    ids = home.enqueue_many("whoami", [{}] * 35, queue="single")
    tasks = home.wait_all(ids)
    served = Counter(home.kit.result(task_id) for task_id in ids)
    pids = list(served)
    assert max(served.values()) <= 10, served
    assert {task.attempt for task in tasks} == {1}, "nothing ran twice"
    wait_until(lambda: not any(alive(pid) for pid in pids[:-1]))


def test_rule_19_a_worker_goes_on_when_the_task_it_emptied_itself_for_is_cancelled(
    server_stack: Stack,
) -> None:
    """A task lost twice waits in the worker until nothing else runs there; then somebody cancels it."""
    home = server_stack.home
    worker = home.worker("--queue", "emptied", "--processes", "3", "--grace", "0")
    busy = home.enqueue_many("nap", [{"seconds": 100}] * 2, queue="emptied", timeout=200)
    for task_id in busy:
        home.wait(task_id, Status.RUNNING)
    poison = home.enqueue("nap", {"seconds": 0}, queue="emptied", delay=3600)
    center = home.kit.center
    center.database.write(
        lambda c: c.exec_driver_sql(
            f"UPDATE task_center SET lost_count = 2, plan_next_run_at = created_at WHERE id = {poison}"
        )
    )
    home.wait(poison, Status.RUNNING)
    center.people.cancel(poison, "ann")
    after = home.enqueue("nap", {"seconds": 0}, queue="emptied")
    assert home.wait(poison, Status.CANCELLED).status is Status.CANCELLED
    assert home.wait(after).status is Status.SUCCESS
    assert worker.stop() == 0
