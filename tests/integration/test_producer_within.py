"""Enqueuing from inside a running handler: from its thread, from others, from its event loop, from a fork."""

from __future__ import annotations

from pathlib import Path

import pytest

from taskkit.center import TaskFilter
from taskkit.states import Status
from tests.processes import Stack

pytest_plugins = ["tests.stacks"]


def test_rule_13_follow_up_tasks_come_back_with_their_ids_and_carry_the_trace(
    stack: Stack, notes: Path
) -> None:
    first = stack.home.enqueue("follow", {"path": str(notes)}, trace_id="the-trace")
    ids = stack.home.kit.result(first, timeout=20)
    assert len(ids) == 6
    assert ids[4] == ids[5], "the unique key gives the same task"
    stack.home.wait_all(ids[:4])
    assert {task.trace_id for task in stack.home.kit.center.read.tasks(ids)} == {"the-trace"}
    assert sorted(notes.read_text().splitlines()) == sorted(
        f"{task_id} 1 {text}" for task_id, text in zip(ids, ["one", *["many"] * 3], strict=False)
    )
    assert stack.home.task(ids[4]).delay == 3600


@pytest.mark.parametrize(
    ("code", "texts"),
    [
        ("follow_in_threads", ["0", "1", "2", "3", "main"]),
        ("follow_blocking", ["blocking"]),
        ("follow_async", ["in a thread", "in the loop"]),
        ("follow_in_fork", ["by the handler", "forked"]),
    ],
)
def test_rule_13_a_task_is_enqueued_from_wherever_in_a_handler(
    stack: Stack, notes: Path, code: str, texts: list[str]
) -> None:
    first = stack.home.enqueue(code, {"path": str(notes)}, max_retry=0)
    assert stack.home.wait(first).status is Status.SUCCESS
    written = [task for task in stack.home.kit.center.read.find(_marks()) if task.id > first]
    stack.home.wait_all([task.id for task in written])
    assert sorted(line.split(" ", 2)[2] for line in notes.read_text().splitlines()) == texts


def _marks() -> TaskFilter:
    return TaskFilter(code="mark", limit=20)


def test_many_handlers_at_once_get_their_own_ids(stack: Stack, notes: Path) -> None:
    """Each marks a file of its own line: no answer goes to another handler."""
    codes = ["follow_in_threads", "follow_async", "follow_blocking"]
    tasks = [{"code": code, "payload": {"path": str(notes)}} for code in codes * 10]
    ids = stack.home.kit.producer.enqueue_many(tasks)
    stack.home.wait_all(ids)
    found: list[int] = []
    for task_id in ids:
        result = stack.home.kit.result(task_id)
        found += result if isinstance(result, list) else [result]
    assert len(found) == len(set(found)) == 10 * (5 + 2 + 1)
    stack.home.wait_all(found)
    assert sorted(int(line.split()[0]) for line in notes.read_text().splitlines()) == sorted(found)


def test_rule_13_guarantee_8_bad_input_raises_what_it_raises_outside(stack: Stack, notes: Path) -> None:
    task_id = stack.home.enqueue("refused", {"path": str(notes)}, max_retry=0)
    found = stack.home.kit.result(task_id, timeout=20)
    assert [(name, field) for name, field, _ in found[:4]] == [
        ("InputError", "priority"),
        ("PayloadError", "payload"),
        ("PayloadError", "payload"),
        ("CronError", "cron"),
    ]
    assert "$.path " in found[1][2]
    assert "set" in found[1][2]
    assert "does not fit mark: " in found[2][2]
    if stack.home.settings.database_url:
        assert found[4][:2] == ["InputError", "at"], "refused by the parent, which knows the database"


@pytest.mark.parametrize("commit", [True, False])
def test_rule_13_rule_23_in_a_transaction_of_the_handlers_own(
    stack: Stack, notes: Path, commit: bool
) -> None:
    first = stack.home.enqueue("joined", {"path": str(notes), "commit": commit})
    follower = stack.home.kit.result(first, timeout=20)
    known = stack.home.kit.center.read.tasks([follower])
    assert len(known) == commit
    if commit:
        stack.home.wait(follower)
        assert notes.read_text().split() == [str(follower), "1"]
