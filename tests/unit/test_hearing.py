"""What a child says at its end: what it had finished before it was asked to end stands, the rest was ended."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from taskkit.clock import monotonic
from taskkit.settings import Worker
from taskkit.states import Outcome
from taskkit.worker import frames
from taskkit.worker.feeding import Feeder
from taskkit.worker.frames import Done, HandlerInfo
from taskkit.worker.hearing import Hearing
from taskkit.worker.limits import Limits
from taskkit.worker.pool import Pool
from taskkit.worker.slots import Given, ParentVerdict, Slot
from tests.unit.test_verdicts import claimed

STOPPING = ParentVerdict(Outcome.HANDED_BACK, "handed back: the worker is stopping")


class Quiet:
    """Stands for a nursery: sends no signal."""

    def kill(self, *_: object) -> None:
        return


class Ends:
    """Notes what children said of their jobs."""

    def __init__(self) -> None:
        self.said: list[tuple[int, str]] = []

    def by_child(self, slot: Slot, given: Given, done: Done) -> None:
        self.said.append((given.task.id, done.outcome))


class Scene:
    """A child with one job that has begun."""

    def __init__(self) -> None:
        self.slot, channel = Slot.create(1, 4)
        self.slot.pid = 1
        self.child = socket.socket(fileno=channel)
        self.ends = Ends()
        handlers = {"echo": HandlerInfo("echo", "sync", None, None, 0.0)}
        slots: Any = {1: self.slot}
        self.limits = Limits(slots, Quiet(), Pool(lambda: None), 0.5)  # type: ignore[arg-type]
        feeder, ends = Feeder(Worker(), handlers), self.ends
        self.hearing = Hearing(slots, feeder, ends, self.limits, None, lambda: None)  # type: ignore[arg-type]
        self.job = self.slot.prepare(claimed(id=7, task_code="echo"), "sync", 0.1)
        assert self.slot.marks.begin(self.job.seq, 0, monotonic())

    def end(self) -> None:
        """As the hub does at the end of the grace."""
        self.slot.verdicts[self.job.seq] = STOPPING
        self.limits.end_child(self.slot, 0.5)

    def says(self, at: float) -> None:
        """The child's answer, of a job that ended at this moment."""
        self.child.sendall(frames.pack(Done(self.job.seq, "success", at - 1, at)))
        self.hearing.hear(self.slot)


@pytest.fixture
def scene() -> Iterator[Scene]:
    found = Scene()
    yield found
    found.slot.close()
    found.child.close()


def test_guarantee_7_what_had_ended_before_the_child_was_asked_to_end_is_not_handed_back(
    scene: Scene,
) -> None:
    """Its answer lay in the socket: handed back, it would run a second time."""
    ended = monotonic()
    scene.end()
    scene.says(ended)
    assert scene.ends.said == [(7, "success")]
    assert (scene.slot.jobs, scene.slot.verdicts) == ({}, {})


def test_guarantee_7_a_handler_that_was_interrupted_and_returned_is_handed_back(scene: Scene) -> None:
    """It may have left half of its work; what it says after it was asked to end is no success."""
    scene.end()
    scene.says(monotonic())
    assert scene.ends.said == []
    assert list(scene.slot.jobs) == [scene.job.seq]
    assert scene.slot.verdicts == {scene.job.seq: STOPPING}
