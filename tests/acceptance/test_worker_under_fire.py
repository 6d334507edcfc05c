"""A worker under fire, from outside: C code that nothing interrupts, signals at any moment, violent deaths."""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path

import pytest

from taskkit.states import Status
from tests.fires import APP, burning, pids, works
from tests.pids import alive
from tests.processes import Stack
from tests.waiting import wait_until

pytest_plugins = ["tests.stacks"]
LARGE = bool(os.environ.get("TASKKIT_TEST_LARGE"))
ROUNDS = 50 if LARGE else 4
SLACK_S = 1.0 if LARGE else 5.0
"""What the machine that runs all tests at once may take beyond what is promised."""


def test_guarantee_5_a_loop_in_c_that_ignores_sigterm_ends_at_its_limit_with_its_grandchild(
    server_stack: Stack, notes: Path
) -> None:
    """Within its time limit and three seconds; the heart beats throughout, and the slot works again."""
    home, queue = server_stack.home, "fire-c"
    with burning(home, queue, "--processes", "1", worker_kill_grace_s=2) as worker:
        task_id = home.enqueue("spin_with_shell", {"path": str(notes)}, queue=queue, timeout=2)
        wait_until(lambda: len(pids(notes)) == 2)
        family, ages = [*pids(notes), *worker.children()], []

        def ended() -> bool:
            ages.append(float((worker.row() or {})["heartbeat_age_s"]))
            return home.task(task_id).status is not Status.RUNNING

        wait_until(ended, 2 + 3 + SLACK_S)
        assert not any(alive(pid) for pid in family), "gone before the row leaves status 2"
        assert home.outcomes(task_id) == ["timeout"]
        assert max(ages) < 5, "a worker whose heart stood still for so long would soon be taken for dead"
        works(home, queue)


@pytest.mark.parametrize(("code", "options"), [("nap_async", {}), ("meet_blocking", {"worker_threads": 100})])
def test_guarantee_7_sigterm_during_200_running_tasks(
    server_stack: Stack, tmp_path: Path, code: str, options: dict[str, int]
) -> None:
    """At random moments: no row stays in status 2, none counts a retry, and it exits with 0 within grace + 2 s."""
    home, rng, grace = server_stack.home, random.Random(11), 1.0
    for number in range(ROUNDS):
        queue, folder = f"fire-{code}-{number}", tmp_path / f"{number}"
        folder.mkdir()
        payload = {"seconds": 60} if code == "nap_async" else {"folder": str(folder), "n": 999}
        ids = home.enqueue_many(code, [payload] * 200, queue=queue)
        arguments = ("--queue", queue, "--processes", "2", "--grace", str(grace))
        worker = home.begin("worker", "--app", APP, *arguments, **options)
        enough = 200 if number % 2 else rng.randrange(200)
        wait_until(lambda i=ids, n=enough: running(server_stack, i) >= n, 30)  # type: ignore[misc]
        assert worker.stop(grace + 2 + SLACK_S) == 0
        tasks = home.kit.center.read.tasks(ids)
        assert {task.status for task in tasks} <= {Status.PENDING, Status.DISPATCHED}
        assert {task.retry_count for task in tasks} == {0}
        assert {run.outcome.value for run in home.kit.center.read.runs(ids)} <= {"handed_back"}
        for task_id in ids:
            home.kit.operations.cancel(task_id, "tester")


def running(stack: Stack, ids: list[int]) -> int:
    return sum(status is Status.RUNNING for status, *_ in stack.home.kit.center.read.statuses(ids).values())


def test_work_02_b_a_killed_child_fails_its_attempt_at_once_and_the_task_runs_again_after_its_back_off(
    server_stack: Stack, notes: Path
) -> None:
    """Within two seconds, with the signal; its slot works meanwhile."""
    home, queue = server_stack.home, "fire-child"
    with burning(home, queue, "--processes", "1"):
        task_id = home.enqueue(
            "nap", {"seconds": 2, "path": str(notes)}, queue=queue, retry_delays=[3], max_retry=1
        )
        wait_until(lambda: notes.read_text().endswith("begun\n"))
        os.kill(int(notes.read_text().split()[2]), signal.SIGKILL)
        wait_until(lambda: home.task(task_id).status is Status.FAILED, 2 + SLACK_S)
        (run,) = home.runs(task_id)
        assert "killed by signal 9 (SIGKILL)" in (run.error or "")
        works(home, queue)
        assert home.wait(task_id).status is Status.SUCCESS
        first, second = home.runs(task_id)
        assert second.started_at
        assert (second.started_at - first.finished_at).total_seconds() >= 3
        assert home.task(task_id).retry_count == 1


def test_a_killed_parent_leaves_nothing_behind(server_stack: Stack, notes: Path) -> None:
    """Children, their groups and their sessions are gone within a second."""
    home, queue = server_stack.home, "fire-parent"
    worker = home.begin("worker", "--app", APP, "--queue", queue, "--processes", "3").ready()
    home.enqueue("spin_with_shell", {"path": str(notes)}, queue=queue)
    home.enqueue("leave", {"how": "in a session", "path": str(notes), "then": "spin"}, queue=queue)
    wait_until(lambda: len(pids(notes)) == 3)
    family = {*pids(notes), *(process.pid for process in worker.family())}
    assert len(family) >= 1 + 3 + 3
    worker.popen.kill()
    wait_until(lambda: not any(alive(pid) for pid in family), 1 if LARGE else 3)


def test_work_05_a_worker_that_grows_or_has_done_enough_gets_new_children(server_stack: Stack) -> None:
    """Between tasks: nothing fails, nothing runs twice, and the old children are gone."""
    home, queue = server_stack.home, "fire-growth"
    options = {"worker_max_growth_mib": 32, "worker_heartbeat_s": 0.2}
    with burning(home, queue, "--processes", "1", **options) as worker:
        (before,) = worker.children()
        first = home.enqueue("grow", {"mib": 64}, queue=queue)
        assert home.kit.result(first, timeout=20) == before
        wait_until(lambda: before not in worker.children() and not alive(before))
        ids = home.enqueue_many("grow", [{"mib": 1}] * 5, queue=queue)
        home.wait_all(ids)
        assert before not in {home.kit.result(task_id) for task_id in ids}
        assert {tuple(home.outcomes(task_id)) for task_id in [first, *ids]} == {("success",)}
        assert worker.lines(level="warning") == []
