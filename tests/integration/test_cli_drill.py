"""``taskkit drill``: each drill on the embedded default and on servers, passed by a healthy system and failed by a sick one."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from taskkit.center import TaskFilter
from taskkit.embedded import Embedded
from taskkit.lab.drills import DRILLS, WAITING, Drill, Report
from taskkit.lab.ground import Ground
from taskkit.model import ListName, Message
from taskkit.settings import Scheduler
from taskkit.states import ENDED
from tests import centers
from tests.commands import program, refused, running
from tests.pids import alive
from tests.processes import Installation, Stack
from tests.waiting import wait_until

pytest_plugins = ["tests.stacks"]
pytestmark = [pytest.mark.faults, pytest.mark.timeout(300)]


def drilled(stack: Stack, kind: str) -> tuple[int, dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-m", "taskkit.cli", "drill", kind, "--json"],
        env=stack.home.environment, cwd=stack.home.folder, capture_output=True, text=True, check=False, timeout=250,
    )  # fmt: skip
    assert done.returncode in {0, 1}, done.stderr
    return done.returncode, json.loads(done.stdout)


@pytest.mark.parametrize("kind", ["worker-kill", "sql-blip"])
def test_a_healthy_embedded_installation_passes(embedded_stack: Stack, kind: str) -> None:
    code, found = drilled(embedded_stack, kind)
    assert (code, wrong_with(embedded_stack, found)) == (0, [])


@pytest.mark.parametrize("kind", DRILLS)
def test_a_healthy_installation_on_servers_passes(server_stack: Stack, kind: str) -> None:
    code, found = drilled(server_stack, kind)
    assert (code, wrong_with(server_stack, found)) == (0, [])


def wrong_with(stack: Stack, found: dict[str, Any]) -> list[str]:
    """What does not hold of a drill that should have passed, and what it left behind."""
    center, name = stack.home.kit.center, ListName(found["queue"])
    workers = [n for n in center.nodes.workers() if found["queue"] in n["queues"] and alive(n["pid"])]
    holds = {
        f"not passed: {found}": found["passed"],
        f"no time to recover: {found}": found["recovered_s"] > 0,
        "the scheduler did not survive": alive(stack.scheduler.pid),
        "the worker did not survive": alive(stack.worker.pid),
        f"workers are left: {workers}": not workers,
        "tasks are left": center.read.find(TaskFilter(queue=found["queue"], limit=1000)) == [],
        "messages are left": stack.queue.depth([name]) == {name: 0},
    }
    failed = [f"does not hold: {check}" for check in found["checks"] if not check["held"]]
    return failed + [problem for problem, held in holds.items() if not held]


def test_a_condition_that_does_not_hold_fails_the_drill(stack: Stack) -> None:
    with Ground(stack.home.kit) as ground:
        drill = Drill("redis-loss", ground, Scheduler(), lambda _: None)
        drill.noticed(0.1, "something that never comes", lambda: False)
        drill.check("another condition", True, "it does")
        assert not drill.report.passed
        ids = ground.enqueue(2)
        drill.ran_once()
        assert ("all tasks succeeded", False, "0 of 2") in drill.report.checks
    assert {task.status for task in stack.home.kit.center.read.tasks(ids)} <= ENDED
    assert not Report("x", "q").passed, "a drill without a condition proves nothing"


def test_without_a_scheduler_there_is_nothing_to_try(home: Installation) -> None:
    for kind in DRILLS:
        done = program("drill", kind, env=home.environment, cwd=home.folder)
        assert (done.returncode, done.stdout) == (1, ""), done.stderr
        assert "no scheduler is alive" in done.stderr


def test_what_a_killed_drill_left_behind_is_removed_and_told(server_stack: Stack, tmp_path: Path) -> None:
    center, environment = server_stack.home.kit.center, server_stack.home.environment
    named = {key: value for key, value in environment.items() if key.startswith("TASKKIT_")}
    with running("drill", "redis-loss", folder=tmp_path, **named) as drill:
        drill.wait_for("tasks wait in the queue")
        assert drill.end(signal.SIGKILL) == -signal.SIGKILL
        wait_until(lambda: not drill.left(), 20)
        (name,) = re.findall(r"wait in the queue (taskkit\.drill-\w+)", drill.said)
    tasks = center.read.find(TaskFilter(queue=name, limit=1000))
    assert len(tasks) == WAITING
    server_stack.push(name, *[Message(task.id, attempt=task.attempt) for task in tasks[:3]])
    assert list(Path(tempfile.gettempdir()).glob(f"{name}-*"))
    centers.sql(center, "UPDATE task_lock SET expires_at = {now}")  # as it does by itself, in some seconds
    cleaned = program("drill", "--clean", "--json", env=environment, cwd=server_stack.home.folder)
    assert json.loads(cleaned.stdout) == {"removed": [{"queue": name, "tasks": WAITING, "running": 0}]}
    assert center.read.find(TaskFilter(queue=name, limit=1000)) == []
    assert center.read.runs([task.id for task in tasks]) == []
    assert server_stack.queue.depth([ListName(name)]) == {ListName(name): 0}
    assert not list(Path(tempfile.gettempdir()).glob(f"{name}-*"))


@pytest.mark.parametrize("arguments", [(), ("--clean", "sql-blip")])
def test_a_drill_is_named_or_only_cleaned_after(arguments: tuple[str, ...]) -> None:
    assert "name one drill (redis-loss, worker-kill, sql-blip, scheduler-kill), or say --clean" in refused(
        "drill", *arguments
    )


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Installation]:
    with Installation(tmp_path) as one, contextlib.closing(one.kit):
        one.enqueue("echo")
        Embedded(one.settings.home).join()
        yield one
        Embedded(one.settings.home).leave()
