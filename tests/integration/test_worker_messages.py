"""What comes out of the broker: doubled, stale, malformed and misplaced messages do no harm; priorities hold."""

from __future__ import annotations

import gzip
import re
import time
from pathlib import Path

import msgspec

from taskkit.model import DeadMessage, ListName, Message
from taskkit.queues.redis import RedisQueue
from taskkit.states import Status
from taskkit.worker.feeding import UNKNOWN_SECONDS
from taskkit.worker.puller import PULL_SECONDS
from tests.centers import sql
from tests.processes import Stack
from tests.waiting import wait_until

pytest_plugins = ["tests.stacks"]

MALFORMED = [
    b"",
    b"\xff\xfe\x00",
    b"\x80abc",
    b"not json",
    b"null",
    b"123",
    b'"x"',
    b"[]",
    b"{}",
    b'{"id":-1}',
    b'{"task_id":-1}',
    b'{"task_id":0}',
    b'{"task_id":99999999999999999999}',
    b'{"task_id":true}',
    b'{"task_id":1.0}',
    b'{"task_id":"1"}',
    b'{"task_id":1,"attempt":0}',
    b'{"task_id":1,"dispatched_at":"yesterday"}',
    b'\xef\xbb\xbf{"task_id":1}',
    gzip.compress(b'{"task_id":1}'),
    b"x" * 5_000_000,
]


def test_guarantee_8_malformed_messages_are_put_aside_once_and_the_good_one_behind_them_runs(
    server_stack: Stack,
) -> None:
    """With ids that have no row, or whose row is done, among them."""
    done = server_stack.home.enqueue("echo")
    server_stack.home.wait(done)
    nobody = Message(done + 1_000_000, "nobodys", 1)
    buried = len(_buried(server_stack))
    pids = (server_stack.worker.pid, server_stack.worker.children())
    good = server_stack.home.enqueue("echo", {"value": "good"}, queue="nobody")
    server_stack.home.wait(good, Status.DISPATCHED)
    finished = Message(done, "echo", 1)
    server_stack.push("echo", *MALFORMED, nobody, finished, Message(good, "echo", 1))
    assert server_stack.home.wait(good, seconds=5).status is Status.SUCCESS
    wait_until(lambda: len(_buried(server_stack)) >= buried + len(MALFORMED) + 1)
    fresh = _buried(server_stack)[buried:]
    assert len(fresh) == len(MALFORMED) + 1, "each once"
    assert [one.raw[:4096] for one in fresh[:-1]] == [raw[:4096] for raw in MALFORMED]
    assert all(one.reason for one in fresh)
    assert re.match("no task has this id, or none that can be claimed, after 5 s", fresh[-1].reason)
    assert fresh[-1].queue == "echo"
    assert (server_stack.worker.pid, server_stack.worker.children()) == pids
    assert server_stack.home.outcomes(done) == ["success"]


def _buried(stack: Stack) -> list[DeadMessage]:
    queue = stack.queue
    assert isinstance(queue, RedisQueue)
    return queue.buried(1000)


def test_rule_09_twenty_messages_of_one_task_run_it_once(stack: Stack, notes: Path) -> None:
    """Only one guarded UPDATE wins; the other messages are dropped, and that is logged."""
    task_id = stack.home.enqueue("mark", {"path": str(notes)}, queue="nobody")
    stack.home.wait(task_id, Status.DISPATCHED)
    message = Message(task_id, "mark", 1)
    by_hand = Message(task_id)
    stack.push("mark", *[message] * 10, by_hand, *[message] * 9)
    stack.home.wait(task_id)
    stack.deliver(task_id)
    assert notes.read_text().splitlines() == [f"{task_id} 1 "]
    assert stack.home.outcomes(task_id) == ["success"]
    told = "dropped a message: the task is not waiting for this attempt"
    wait_until(lambda: len(stack.worker.lines(task_id=task_id, message=told)) >= 20)
    assert len(stack.worker.lines(task_id=task_id, message=told)) == 20, (
        "twenty and one more, but for one that won"
    )


def test_rule_09_a_message_without_an_attempt_starts_a_task_that_waits_for_it(
    stack: Stack, notes: Path
) -> None:
    task_id = stack.home.enqueue("mark", {"path": str(notes)}, queue="nobody")
    stack.home.wait(task_id, Status.DISPATCHED)
    stack.push("mark", b'{"task_id": %d}' % task_id)
    assert stack.home.wait(task_id).status is Status.SUCCESS


def test_a_message_that_comes_late_changes_nothing(stack: Stack, notes: Path) -> None:
    """While the task runs, while its retry waits, after it has ended, and of an older attempt."""
    running = stack.home.enqueue("nap", {"seconds": 1.5, "path": str(notes)})
    retrying = stack.home.enqueue("fail", {"path": str(notes)}, max_retry=1, retry_delays=[1.5])
    stack.home.wait(running, Status.RUNNING)
    stack.home.wait(retrying, Status.FAILED)
    due = stack.home.task(retrying).plan_next_run_at
    for task_id in (running, retrying):
        stack.deliver(task_id)
        stack.push("echo", Message(task_id), Message(task_id, attempt=2), Message(task_id, attempt=9))
    assert stack.home.task(retrying).status is Status.FAILED
    tasks = stack.home.wait_all([running, retrying])
    assert [task.status for task in tasks] == [Status.SUCCESS, Status.GIVEN_UP]
    second = stack.home.runs(retrying)[1]
    assert second.started_at
    assert due
    assert second.started_at >= due
    assert [len(stack.home.runs(task_id)) for task_id in (running, retrying)] == [1, 2]


def test_rule_10_a_message_ahead_of_its_transaction_is_tried_again(stack: Stack, notes: Path) -> None:
    """The row is not there yet, and is as soon as somebody commits."""
    last = stack.home.enqueue("echo")
    stack.home.wait(last)
    stack.push("mark", Message(last + 1, "mark", 1))
    wait_until(lambda: not stack.queue.depth([ListName("mark")])[ListName("mark")])
    payload = msgspec.json.encode({"path": str(notes)}).decode()
    sql(
        stack.home.kit.center,
        "INSERT INTO task_center (task_code, queue, payload, status, attempt, plan_next_run_at, dispatched_at, list_name)"
        " VALUES ('mark', 'mark', :payload, 1, 1, {now}, {now}, 'mark:5')",
        payload=payload,
    )
    assert stack.home.wait(last + 1, seconds=5).status is Status.SUCCESS
    assert notes.read_text().split() == [str(last + 1), "1"]


def test_sched_09_urgent_tasks_go_first_and_the_lowest_do_not_starve(
    stack: Stack, notes: Path, tmp_path: Path
) -> None:
    """At least one in twenty of what a busy worker takes has the lowest priority that waits."""
    gate = tmp_path / "gate"
    gate.mkdir()
    blockers = stack.home.enqueue_many("stand", [{"folder": str(gate), "n": 3}] * 2)
    stack.home.wait_all(blockers, Status.RUNNING)
    wait_until(lambda: len(list(gate.iterdir())) == 2)
    # by now they take longer than is thought of what is not known, so nothing is fetched to come after them; but a
    # pull that was begun before may last for so long
    time.sleep(UNKNOWN_SECONDS + 2 * PULL_SECONDS)
    low = stack.home.enqueue_many("mark", [{"path": str(notes), "text": "low"}] * 5, priority=9)
    high = stack.home.enqueue_many("mark", [{"path": str(notes), "text": "high"}] * 95, priority=0)
    wait_until(
        lambda: (
            {found[0] for found in stack.home.kit.center.read.statuses(low + high).values()}
            == {Status.DISPATCHED}
        )
    )
    (gate / "open").touch()
    stack.home.wait_all(low + high)
    order = [line.split()[2] for line in notes.read_text().splitlines()]
    assert order.count("high") == 95
    first = order.index("low")
    assert first < 60
    assert order[:5].count("high") >= 3
