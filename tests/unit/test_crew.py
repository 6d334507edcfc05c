"""How many children there are to be: births, departures without a death, and those that are asked to stay after all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice

import pytest

from taskkit.clock import monotonic
from taskkit.model import Claimed
from taskkit.settings import Worker
from taskkit.worker import crew
from taskkit.worker.crew import Crew
from taskkit.worker.feeding import Feeder
from taskkit.worker.frames import HandlerInfo
from taskkit.worker.pool import Pool
from taskkit.worker.slots import Slot
from taskkit.worker.workload import LOOK_S, Workload
from tests.unit.test_verdicts import claimed

MODES = {"noop": "sync", "fetch": "async", "wait": "thread"}
HANDLERS = {code: HandlerInfo(code, mode, None, None, 0.0) for code, mode in MODES.items()}


class Nursery:
    """Bears children that do nothing."""

    worker_id = "host:1:w"

    def __init__(self) -> None:
        self.born: list[int] = []

    def spawn(self, number: int, channel: int, _marks: int, _stacks: int) -> None:
        self.born.append(number)
        os.close(channel)


class Family:
    """A crew whose nursery is none, and the tasks of its children."""

    def __init__(self, processes: int, **settings: float) -> None:
        self.slots: dict[int, Slot] = {}
        self.pool, self.nursery = Pool(lambda: None), Nursery()
        self.settings = Worker(processes=processes, max_processes=8, **settings)  # type: ignore[arg-type]
        self.feeder = Feeder(self.settings, HANDLERS)
        at_once = {"sync": 1, "async": 100, "thread": 1}
        self.crew = Crew(self.slots, self.nursery, self.pool, self.settings, at_once, lambda _: None)  # type: ignore[arg-type]
        self.crew.open()
        self.born()

    def born(self, now: float = 1e12) -> list[int]:
        """Let those be born that are due."""
        before = set(self.slots)
        self.crew.give_birth(now)
        for slot in self.slots.values():
            slot.pid = slot.pid or 40_000 + slot.number
        return sorted(set(self.slots) - before)

    def give(self, number: int, *tasks: Claimed) -> None:
        slot = self.slots[number]
        for task in tasks:
            slot.prepare(task, MODES[task.task_code], 0.01)

    def begin(self, number: int, jobs: int = 1) -> None:
        """A child begins its first jobs."""
        for given in islice(self.slots[number].jobs.values(), jobs):
            assert self.slots[number].marks.begin(given.job.seq, given.job.slot, monotonic())

    def gone(self, number: int) -> None:
        slot = self.slots.pop(number)
        self.crew.died(slot)
        slot.close()

    @property
    def leaving(self) -> list[int]:
        return sorted(number for number, slot in self.slots.items() if slot.leaving)


@pytest.fixture
def families() -> Iterator[list[Family]]:
    made: list[Family] = []
    yield made
    for family in made:
        for slot in family.slots.values():
            slot.close()


@pytest.fixture
def four(families: list[Family]) -> Family:
    families.append(Family(4))
    return families[0]


def tasks(n: int, code: str = "noop") -> list[Claimed]:
    return [claimed(code, id=number) for number in range(1, n + 1)]


def test_more_children_are_born_from_the_nursery(four: Family) -> None:
    four.crew.staff(6)
    assert four.born() == [5, 6]
    assert four.nursery.born == [1, 2, 3, 4, 5, 6]
    assert four.crew.wanted == 6


def test_children_that_are_not_born_yet_are_not_born_when_fewer_are_wanted(four: Family) -> None:
    four.crew.staff(8)
    four.crew.staff(5)
    assert four.born() == [5]


def test_those_leave_that_have_nothing_to_do_and_the_youngest_first(four: Family) -> None:
    four.give(4, *tasks(1))
    four.crew.staff(2)
    assert four.leaving == [2, 3]
    assert not four.slots[2].usable
    assert [number for number, slot in four.slots.items() if slot.usable] == [1, 4]


def test_who_leaves_gives_back_what_it_has_not_begun_and_finishes_the_rest(four: Family) -> None:
    for number in (1, 2, 3):
        four.give(number, *tasks(5))
        four.begin(number)
    four.give(4, *tasks(3))
    four.begin(4)
    four.crew.staff(3)
    assert four.leaving == [4]
    assert [given.task.id for given in four.slots[4].jobs.values()] == [1]
    assert [task.id for task in four.pool.take_all()] == [2, 3]
    assert not four.slots[4].ending, "nobody kills it"


def test_async_and_blocking_jobs_of_who_leaves_are_finished_where_they_run(four: Family) -> None:
    for number in (1, 2, 3, 4):
        four.give(number, *tasks(3, "fetch" if number % 2 else "wait"))
        four.begin(number, 2)
    four.crew.staff(1)
    assert len(four.leaving) == 3
    assert len(four.pool.take_all()) == 3, "what had not begun"
    assert sorted(len(slot.jobs) for slot in four.slots.values()) == [2, 2, 2, 3]


def test_who_has_left_is_not_replaced_and_who_died_is(four: Family) -> None:
    four.crew.staff(3)
    four.slots[4].ending = True
    four.gone(4)
    assert four.born() == []
    four.slots[2].served = 1
    four.gone(2)
    assert four.born() == [5]
    assert sorted(four.slots) == [1, 3, 5]


def test_a_child_that_dies_while_another_leaves_is_replaced(four: Family) -> None:
    for number in four.slots:
        four.give(number, *tasks(1, "wait"))
    four.crew.staff(3)
    (leaving,) = four.leaving
    other = next(number for number in four.slots if number != leaving)
    four.gone(other)
    assert len(four.born()) == 1
    four.gone(leaving)
    assert four.born() == []
    assert len(four.slots) == 3


def test_who_is_leaving_and_not_gone_stays_when_more_are_wanted(four: Family) -> None:
    for number in four.slots:
        four.give(number, *tasks(number, "wait"))
        four.begin(number, number)
    four.crew.staff(1)
    assert four.leaving == [1, 2, 3]
    four.slots[3].ending = True
    four.crew.staff(2)
    assert four.leaving == [1, 3], "the one with the most to do stays, of those that have not been told to go"
    four.crew.staff(4)
    assert four.leaving == [3]
    assert four.born() == [5]
    assert sum(slot.usable for slot in four.slots.values()) == 4


def test_a_child_that_is_of_no_use_is_born_again_with_a_pause(
    four: Family, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crew, "monotonic", lambda: 100.0)
    four.gone(1)
    assert four.born(now=100.0) == []
    assert four.born(now=100.0 + crew.REBIRTH_PAUSE) == [5]
    four.slots[2].served = 3
    four.gone(2)
    assert four.born(now=100.0) == [6]


# what they have to do


def looked(family: Family, now: float = 1000.0) -> Workload:
    workload = Workload(family.slots, family.pool, family.feeder)
    workload.sample(now)
    return workload


def test_a_child_counts_as_busy_by_the_part_of_it_that_is(families: list[Family]) -> None:
    family = Family(4, async_concurrency=100, threads=4)
    families.append(family)
    family.give(1, *tasks(5))
    family.give(2, *tasks(30, "fetch"))
    family.give(3, *tasks(2, "wait"))
    family.pool.add(tasks(7))
    load = looked(family).load
    assert load is not None
    assert load.busy == pytest.approx(1 + 0.3 + 0.5)
    assert load.pooled == 7


def test_what_runs_and_what_has_ended_make_the_time_of_a_task(four: Family) -> None:
    now = monotonic()
    workload = looked(four, now)
    four.give(1, *tasks(1))
    four.begin(1)
    workload.sample(now + 100)
    assert workload.load is not None
    assert workload.load.seconds == pytest.approx(100, abs=5)
    for _ in range(200):
        four.feeder.learn("noop", 0.5)
    workload.sample(now + 100 + LOOK_S)
    assert workload.load.seconds == pytest.approx(0.5 + 101 / 49, abs=0.2)


def test_a_worker_that_does_not_scale_measures_nothing(four: Family) -> None:
    assert four.feeder.times is None
    four.feeder.learn("noop", 0.5)
    assert not Worker(processes=4).scales
    assert not Worker(processes=4, max_processes=4).scales
    assert Worker(processes=4, max_processes=5).scales
