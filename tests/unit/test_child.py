"""A child by itself, in this process: its parent is played by the test."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from taskkit import Taskkit
from taskkit.worker.child import Child
from taskkit.worker.frames import Cancel, ChildJob, Done, RunJobs
from taskkit.worker.marks import Marks
from tests.waiting import wait_until

MODES = {"nap": "thread", "doze": "async", "wrapped": "thread"}


class Played(Child):
    """A child whose parent answers each end at once, before the child does anything else."""

    def __init__(self, kit: Taskkit, marks: Marks) -> None:
        self.ours, theirs = socket.socketpair()
        super().__init__(kit, theirs, marks)
        self.ends: list[Done] = []
        self.at_end: list[RunJobs] = []

    def send(self, frame: Any) -> None:
        """What the child says: an end, to which the parent has an answer ready."""
        self.ends.append(frame)
        if self.at_end:
            self._run_jobs(self.at_end.pop(0))

    def give(self, *jobs: ChildJob) -> None:
        self._run_jobs(RunJobs(list(jobs)))


@pytest.fixture
def child() -> Iterator[Played]:
    kit = Taskkit()

    @kit.task("nap", blocking=True)
    def nap() -> str:
        return "nap"

    @kit.task("doze")
    async def doze(seconds: float = 0) -> str:
        await asyncio.sleep(seconds)
        return "doze"

    @kit.task("wrapped", blocking=True)
    def wrapped() -> object:
        return asyncio.sleep(0)

    marks = Marks.create(2)
    played = Played(kit, marks)
    yield played
    played.ours.close()
    played.sock.close()
    marks.close()


def job(seq: int, code: str, payload: str = "{}") -> ChildJob:
    return ChildJob(seq, 0, seq, 1, code, "q", payload, 60.0, f"task-{seq}", None, MODES[code])


@pytest.mark.parametrize(("first", "second"), [("nap", "doze"), ("doze", "nap")])
def test_a_job_of_another_mode_that_comes_upon_an_end_runs_in_its_own_way(
    child: Played, first: str, second: str
) -> None:
    """The thread, or the loop, that frees its place finds a job which it must not run itself."""
    child.at_end.append(RunJobs([job(2, second)]))
    child.give(job(1, first))
    wait_until(lambda: len(child.ends) == 2)
    assert [(end.seq, end.outcome, end.result) for end in child.ends] == [
        (1, "success", f'"{first}"'),
        (2, "success", f'"{second}"'),
    ]


def test_an_async_job_is_cancelled_by_the_frame_that_follows_its_start(child: Played) -> None:
    child.give(job(1, "doze", '{"seconds": 60}'))
    child._cancel(Cancel(1, "cancelled"))
    wait_until(lambda: child.ends)
    assert [(end.seq, end.outcome) for end in child.ends] == [(1, "cancelled")]


def test_a_plain_handler_that_returns_a_coroutine_has_done_nothing_and_is_no_success(child: Played) -> None:
    """As a decorator makes of an ``async def`` that does not await it; no retry helps."""
    child.give(job(1, "wrapped"))
    wait_until(lambda: child.ends)
    (end,) = child.ends
    assert (end.outcome, end.result) == ("given_up", None)
    assert "returned a coroutine, which nobody awaits" in (end.error or "")
