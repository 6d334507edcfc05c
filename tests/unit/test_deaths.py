"""Whom a death blames: every job of a dead child gets exactly one answer, also when all children die at a blow."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from taskkit.states import Outcome
from taskkit.worker.deaths import Deaths
from taskkit.worker.pool import Pool
from taskkit.worker.slots import Given, ParentVerdict, Slot
from tests.unit.test_verdicts import claimed


class Ends:
    """Notes what is said of each job, and settles it as the real one does."""

    def __init__(self) -> None:
        self.said: list[tuple[int, Outcome, bool]] = []

    def by_verdict(self, slot: Slot, given: Given, verdict: ParentVerdict, *, suspect: bool = False) -> None:
        self.said.append((given.task.id, verdict.outcome, suspect))
        slot.settle(given.job.seq)


class Scene:
    """Children with jobs, of which some have begun."""

    def __init__(self) -> None:
        self.ends, self.pool = Ends(), Pool(lambda: None)
        self.deaths = Deaths(self.ends, self.pool)  # type: ignore[arg-type]
        self.slots: list[Slot] = []
        self.channels: list[int] = []
        self.tasks = iter(claimed(id=number) for number in range(1, 100))

    def child(self, begun: int, waiting: int = 0) -> Slot:
        slot, channel = Slot.create(len(self.slots) + 1, 4)
        slot.pid = 1
        self.slots.append(slot)
        self.channels.append(channel)
        jobs = [slot.prepare(next(self.tasks), "sync", 0.1) for _ in range(begun + waiting)]
        for job in jobs[:begun]:
            assert slot.marks.begin(job.seq, 0, 1.0)
        return slot

    def waiting(self) -> list[int]:
        return [task.id for task in self.pool.take_all()]


@pytest.fixture
def scene() -> Iterator[Scene]:
    found = Scene()
    yield found
    for slot in found.slots:
        slot.close()
    for channel in found.channels:
        os.close(channel)


def test_a_dead_child_fails_the_job_it_was_at_and_gives_the_others_back(scene: Scene) -> None:
    slot = scene.child(1, waiting=2)
    scene.deaths.of_child(slot, -9)
    assert scene.ends.said == [(1, Outcome.FAILED, False)]
    assert sorted(scene.waiting()) == [2, 3]
    assert slot.jobs == {}


def test_rule_12_a_job_that_had_not_begun_goes_to_another_child_once(scene: Scene) -> None:
    slots = [scene.child(0, waiting=1), scene.child(1, waiting=1)]
    scene.deaths.of_nursery(slots, -9)
    for slot in slots:
        scene.deaths.of_child(slot, -9)  # as the hub does, when it lets each child go
    assert scene.ends.said == [(2, Outcome.FAILED, False)]
    assert sorted(scene.waiting()) == [1, 3]


def test_rule_19_several_that_ran_when_the_nursery_died_are_lost_and_none_is_blamed(scene: Scene) -> None:
    scene.deaths.of_nursery([scene.child(1), scene.child(1), scene.child(0)], -9)
    assert {outcome for _, outcome, _ in scene.ends.said} == {Outcome.LOST}
    assert len(scene.ends.said) == 2


def test_a_job_that_was_being_ended_gets_its_own_verdict(scene: Scene) -> None:
    slot = scene.child(1)
    (seq,) = slot.jobs
    slot.verdicts[seq] = ParentVerdict(Outcome.TIMEOUT, "timeout")
    scene.deaths.of_nursery([slot, scene.child(1)], -9)
    assert sorted(scene.ends.said) == [(1, Outcome.TIMEOUT, False), (2, Outcome.FAILED, False)]
