"""``taskkit drill``: each drill on the embedded default and on servers, passed by a healthy system and failed by a sick one."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from taskkit.center import TaskFilter
from taskkit.embedded import Embedded
from taskkit.lab.drills import DRILLS, Drill, Report
from taskkit.lab.ground import Ground
from taskkit.model import ListName
from taskkit.settings import Scheduler
from taskkit.states import ENDED
from tests.commands import program
from tests.processes import Installation, Stack, alive

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
    passes_and_leaves_nothing(embedded_stack, kind)


@pytest.mark.parametrize("kind", DRILLS)
def test_a_healthy_installation_on_servers_passes(server_stack: Stack, kind: str) -> None:
    passes_and_leaves_nothing(server_stack, kind)


def passes_and_leaves_nothing(stack: Stack, kind: str) -> None:
    code, found = drilled(stack, kind)
    assert (code, found["passed"]) == (0, True), found
    assert found["recovered_s"] > 0
    assert all(check["held"] for check in found["checks"])
    assert [alive(stack.scheduler.pid), alive(stack.worker.pid)] == [True, True]
    center = stack.home.kit.center
    assert not [
        node for node in center.nodes.workers() if found["queue"] in node["queues"] and alive(node["pid"])
    ]
    assert center.read.find(TaskFilter(queue=found["queue"], limit=1000)) == []
    assert stack.queue.depth([ListName(found["queue"])]) == {ListName(found["queue"]): 0}


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


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Installation]:
    with Installation(tmp_path) as one, contextlib.closing(one.kit):
        one.enqueue("echo")
        Embedded(one.settings.home).join()
        yield one
        Embedded(one.settings.home).leave()
