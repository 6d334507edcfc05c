"""``kit.result()`` whose time is over says when nobody is there to run the task."""

from __future__ import annotations

import contextlib

import pytest

from taskkit import Taskkit
from taskkit.beats import WorkerBeat
from taskkit.errors import ResultTimeout


def timed_out(kit: Taskkit, task_id: int) -> str:
    with pytest.raises(ResultTimeout) as raised:
        kit.result(task_id, timeout=0.01)
    return str(raised.value)


def test_a_result_that_does_not_come_says_who_is_missing() -> None:
    with contextlib.closing(Taskkit()) as kit:
        task_id = kit.producer.enqueue("mail")
        assert "no scheduler and no worker is alive, `taskkit up` starts them" in timed_out(kit, task_id)
        kit.center.nodes.enter_scheduler("host:8:b", "host", 8)
        assert ": no worker is alive" in timed_out(kit, task_id)
        kit.center.nodes.enter_worker(WorkerBeat("h:7:a", "h", 7, "q", 1, 0, 0, 0, 0, None, 0, 0.0, [], []))
        assert (
            timed_out(kit, task_id)
            == f"task {task_id} had not ended after 0.01 s; `taskkit tasks show {task_id}`"
        )
