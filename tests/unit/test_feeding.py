"""Which child gets which task: prefetch by time, neither hoarding nor starving; kinds share fairly; suspects run alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from taskkit.model import Claimed
from taskkit.settings import Worker
from taskkit.worker import frames
from taskkit.worker.feeding import Feeder
from taskkit.worker.frames import HandlerInfo, RunJobs
from taskkit.worker.slots import Slot
from tests.unit.test_verdicts import claimed

HANDLERS = {
    code: HandlerInfo(code, mode, None, None, 0.0)
    for code, mode in {
        "noop": "sync", "slow": "sync", "new": "sync", "fetch": "async", "wait": "thread",
    }.items()
}  # fmt: skip


class Parent:
    """The parent's side of some children that never answer by themselves; time is what the test says."""

    def __init__(self, children: int, **settings: Any) -> None:
        self.feeder = Feeder(Worker(processes=children, **settings), HANDLERS)
        self.slots: list[Slot] = []
        self.ends: list[int] = []
        self.now = 1000.0
        self.id = 0
        for number in range(children):
            slot, end = Slot.create(number, 200, at_once=self.feeder.at_once)
            slot.pid = 40_000 + number
            self.slots.append(slot)
            self.ends.append(end)

    def tasks(self, code: str, n: int, **fields: Any) -> list[Claimed]:
        self.id += n
        return [claimed(code, id=self.id - n + 1 + k, **fields) for k in range(n)]

    def place(self, *tasks: Claimed) -> list[Claimed]:
        return self.feeder.place(tasks, self.slots, self.now)

    def room(self) -> int:
        return self.feeder.room(self.slots, self.now)

    def knows(self, code: str, seconds: float) -> None:
        for _ in range(60):
            self.feeder.learn(code, seconds)

    def codes(self) -> list[list[str]]:
        return [[given.task.task_code for given in slot.jobs.values()] for slot in self.slots]

    def begin_all(self) -> None:
        """Each child begins its first job."""
        for slot in self.slots:
            self.begin(slot)

    def begin(self, slot: Slot, job: int = 0) -> None:
        """The child begins one of its jobs."""
        given = list(slot.jobs.values())[job]
        assert slot.marks.begin(given.job.seq, given.job.slot, self.now)

    def end(self, slot: Slot) -> None:
        """The child ends the job it has begun first."""
        given = next(iter(slot.jobs.values()))
        slot.marks.end(given.job.slot)
        slot.settle(given.job.seq)


@pytest.fixture
def parents() -> Iterator[list[Parent]]:
    made: list[Parent] = []
    yield made
    import os

    for parent in made:
        for slot in parent.slots:
            slot.close()
        for end in parent.ends:
            os.close(end)


@pytest.fixture
def two(parents: list[Parent]) -> Parent:
    parents.append(Parent(2, threads=4))
    return parents[-1]


@pytest.fixture
def one(parents: list[Parent]) -> Parent:
    parents.append(Parent(1))
    return parents[-1]


@pytest.mark.parametrize("code", ["noop", "fetch", "wait"])
def test_a_child_is_never_given_more_tasks_than_it_may_serve(parents: list[Parent], code: str) -> None:
    """Some leak with each task, and want a new process for every one."""
    parents.append(Parent(2, threads=4, max_tasks_per_child=3))
    (parent,) = parents
    parent.knows(code, 0.0001)
    left = parent.place(*parent.tasks(code, 10))
    assert [len(slot.jobs) for slot in parent.slots] == [3, 3]
    assert (len(left), parent.room(), parent.feeder.one_starves(parent.slots)) == (4, 0, False)
    for slot in parent.slots:
        for seq in list(slot.jobs):
            slot.settle(seq)
        slot.served = 2
    assert parent.room() == 2
    assert len(parent.place(*left)) == 2


def test_of_an_unknown_kind_each_child_gets_one(two: Parent) -> None:
    assert two.room() == 2
    left = two.place(*two.tasks("new", 5))
    assert two.codes() == [["new"], ["new"]]
    assert len(left) == 3
    assert two.room() == 0


def test_tasks_of_300_ms_are_not_hoarded(two: Parent) -> None:
    two.knows("slow", 0.3)
    assert two.room() == 2
    two.place(*two.tasks("slow", 2))
    assert two.room() == 0
    two.begin_all()
    two.now += 0.24
    assert two.room() == 0, "60 ms before the end"
    two.now += 0.05
    assert two.room() == 2, "10 ms before it the next one of each is fetched, and no more"
    assert len(two.place(*two.tasks("slow", 4))) == 2
    assert two.room() == 0


def test_tasks_of_seconds_are_fetched_by_who_is_free(two: Parent) -> None:
    """The time of a fetch is nothing to them, and their end is not known to 50 ms."""
    two.knows("slow", 2.0)
    two.place(*two.tasks("slow", 2))
    two.begin_all()
    two.now += 1.99
    assert two.room() == 0


def test_tasks_that_take_nothing_are_not_starved(two: Parent) -> None:
    two.knows("noop", 1e-6)
    assert two.room() == 500, "as many as a child can do in 50 ms, up to max_prefetch"
    left = two.place(*two.tasks("noop", 500))
    assert left == []
    assert [len(codes) for codes in two.codes()] == [250, 250]


def test_the_budget_is_50_ms_of_work(one: Parent) -> None:
    one.knows("noop", 0.01)
    assert one.room() == pytest.approx(5, abs=1)
    assert len(one.place(*one.tasks("noop", 20))) == 15


def test_a_long_async_task_says_nothing_about_plain_ones(two: Parent) -> None:
    two.knows("noop", 1e-6)
    two.knows("fetch", 60.0)
    assert two.room() == 500


def test_rule_12_what_waits_behind_a_long_task_is_taken_back_when_another_child_idles(two: Parent) -> None:
    """However short it was thought to be."""
    two.knows("noop", 0.001)
    two.place(*two.tasks("noop", 20))
    two.begin_all()
    busy, idle = two.slots
    back: list[Claimed] = []
    two.feeder.share_back(two.slots, two.now, back.extend)
    assert back == [], "nobody idles"
    while idle.jobs:
        two.end(idle)
    two.feeder.share_back(two.slots, two.now + 0.05, back.extend)
    assert back == [], "it is no long one yet"
    two.now += 2
    two.feeder.share_back(two.slots, two.now, back.extend)
    assert [task.id for task in back] == list(range(3, 21, 2)), "in order, without the one that runs"
    assert len(busy.jobs) == 1
    assert two.place(*back) == []
    assert len(idle.jobs) == 9, "to the idle one, not behind the long one again"


def test_a_child_that_is_busy_for_longer_than_thought_gets_no_more(two: Parent) -> None:
    two.knows("noop", 0.001)
    two.place(*two.tasks("noop", 2))
    two.begin_all()
    two.now += 5
    assert two.room() == 0
    assert len(two.place(*two.tasks("noop", 1))) == 1


def test_async_tasks_share_a_child_and_plain_ones_get_another(two: Parent) -> None:
    left = two.place(*two.tasks("fetch", 30), *two.tasks("new", 1), *two.tasks("fetch", 30))
    assert left == []
    assert sorted(len(codes) for codes in two.codes()) == [1, 60]
    assert [set(codes) for codes in two.codes()] == [{"fetch"}, {"new"}]


def test_a_hundred_async_tasks_and_no_more_run_in_a_child(one: Parent) -> None:
    left = one.place(*one.tasks("fetch", 130))
    assert len(left) == 30
    assert one.room() == 0


def test_blocking_tasks_run_in_threads_where_there_are_some(two: Parent, one: Parent) -> None:
    assert len(two.place(*two.tasks("wait", 10))) == 2
    assert [len(codes) for codes in two.codes()] == [4, 4]
    assert len(one.place(*one.tasks("wait", 3))) == 2, "with one thread they are like any plain task"
    assert one.slots[0].mode == "sync"


def test_threads_have_the_next_tasks_at_hand(two: Parent) -> None:
    """As many as its threads begin in 50 ms wait in a child, in the order of which it begins them."""
    two.knows("wait", 0.01)
    two.place(*two.tasks("wait", 8))
    assert 20 <= two.room() <= 26, (
        "13 each: the last of its four has 17.5 ms to go, and what is known comes near"
    )
    assert two.place(*two.tasks("wait", 60)) != []
    assert [len(codes) for codes in two.codes()] == [17, 17]


def test_async_tasks_that_take_nothing_are_not_starved(one: Parent) -> None:
    one.knows("fetch", 1e-4)
    one.place(*one.tasks("fetch", 100))
    assert one.room() == 100, "as many as there are places for; they would begin within 50 ms"
    assert one.place(*one.tasks("fetch", 150)) != []
    assert [len(codes) for codes in one.codes()] == [200]


def test_what_waits_behind_long_tasks_in_threads_goes_to_a_child_that_idles(two: Parent) -> None:
    two.knows("wait", 0.005)
    busy, idle = two.slots
    idle.retiring = True
    assert two.place(*two.tasks("wait", 12)) == []
    for job in range(4):
        two.begin(busy, job)
    idle.retiring = False
    back: list[Claimed] = []
    two.now += 2
    two.feeder.share_back(two.slots, two.now, back.extend)
    assert [task.id for task in back] == list(range(5, 13)), "in order, without those that run"


def test_a_plain_task_gets_a_child_although_async_ones_keep_coming(one: Parent) -> None:
    """The child runs dry of the one kind, then takes the other, and the other way round."""
    slot = one.slots[0]
    one.place(*one.tasks("fetch", 3))
    waiting = [*one.tasks("new", 1), *one.tasks("fetch", 5)]
    for _ in range(3):
        assert one.place(*waiting) == waiting, "nothing more of the kind that runs"
        one.end(slot)
    left = one.place(*waiting)
    assert [task.task_code for task in left] == ["fetch"] * 5
    assert slot.mode == "sync"
    stream = one.tasks("new", 2)
    assert one.place(*left, *stream) == [*left, *stream]
    one.end(slot)
    assert one.place(*left, *stream) == stream
    assert slot.mode == "async"


def test_each_kind_keeps_its_share_of_the_children(parents: list[Parent]) -> None:
    parents.append(Parent(4, threads=4))
    four = parents[-1]
    four.place(*four.tasks("fetch", 400))
    waiting = [*four.tasks("new", 8), *four.tasks("fetch", 8)]
    for _ in range(500):
        for slot in four.slots:
            if slot.mode == "async":
                four.end(slot)
        waiting = four.place(*waiting) + four.tasks("fetch", 4)
    assert sorted(slot.mode for slot in four.slots) == ["async", "async", "sync", "sync"]


def test_a_suspect_runs_alone(two: Parent) -> None:
    (suspect,) = two.tasks("fetch", 1, suspect=True)
    others = two.tasks("fetch", 10)
    assert two.place(suspect, *others) == []
    assert sorted(len(codes) for codes in two.codes()) == [1, 10]
    alone = next(slot for slot in two.slots if len(slot.jobs) == 1)
    assert next(iter(alone.jobs.values())).task == suspect
    two.place(*two.tasks("fetch", 10))
    assert len(alone.jobs) == 1
    two.end(alone)
    assert not alone.alone
    two.place(*two.tasks("new", 1))
    assert len(alone.jobs) == 1, "it may have others again"


def test_a_suspect_does_not_wait_for_ever_beside_a_stream_of_others(two: Parent) -> None:
    two.knows("noop", 0.01)
    two.place(*two.tasks("noop", 10))
    (suspect,) = two.tasks("noop", 1, suspect=True)
    waiting = [suspect]
    for _ in range(30):
        waiting = two.place(*waiting, *two.tasks("noop", 5))
        if suspect not in waiting:
            break
        for slot in two.slots:
            if slot.jobs:
                two.end(slot)
    assert suspect not in waiting
    (alone,) = [slot for slot in two.slots if slot.alone]
    assert [given.task for given in alone.jobs.values()] == [suspect]


def test_two_suspects_never_meet(two: Parent) -> None:
    suspects = two.tasks("fetch", 3, suspect=True)
    assert two.place(*suspects) == suspects[2:]
    assert [len(slot.jobs) for slot in two.slots] == [1, 1]


def test_more_than_a_second_of_known_work_does_not_wait_here(two: Parent) -> None:
    """After a flood of no-ops a worker may have claimed more than it can do soon."""
    two.knows("slow", 0.3)
    tasks = [*two.tasks("slow", 2, suspect=True), *two.tasks("new", 50), *two.tasks("slow", 10)]
    assert two.feeder.excess(tasks, two.slots, 100.0) == set(), "nothing has waited yet"
    assert two.feeder.excess(tasks, two.slots, 100.9) == set()
    assert two.feeder.excess(tasks, two.slots, 101.0) == {task.id for task in tasks[-6:]}, (
        "2 s for two children, without what is not known yet"
    )


def test_what_one_job_that_took_long_makes_look_slow_does_not_go_back_at_once(two: Parent) -> None:
    """On a busy machine a no-op may take a second; the next ones tell that it is none of a second."""
    two.knows("noop", 0.0001)
    two.feeder.learn("noop", 5.0)
    tasks = two.tasks("noop", 100)
    assert two.feeder.excess(tasks, two.slots, 100.0) == set()
    for _ in range(40):
        two.feeder.learn("noop", 0.0001)
    assert two.feeder.excess(tasks[50:], two.slots, 101.5) == set()


def test_a_task_that_was_placed_and_comes_again_begins_to_wait_anew(two: Parent) -> None:
    two.knows("slow", 3.0)
    (first, second) = two.tasks("slow", 2)
    two.feeder.excess([first, second], two.slots, 100.0)
    two.feeder.excess([second], two.slots, 100.5)
    assert two.feeder.excess([second, first], two.slots, 101.2) == {second.id}, (
        "2 s of room, and 3 s of work before it"
    )


def test_what_waits_behind_jobs_that_hang_goes_back_though_no_child_idles(two: Parent) -> None:
    """Fetched when they were about to end, which they did not; of what runs on as usual nothing is taken."""
    two.knows("slow", 0.3)
    two.place(*two.tasks("slow", 2))
    two.begin_all()
    two.now += 0.29
    late = two.tasks("slow", 2)
    assert two.place(*late) == []
    _, well = two.slots
    two.now += 0.1
    two.end(well)
    two.begin(well)
    back: list[Claimed] = []
    two.now += 0.9
    two.feeder.share_back(two.slots, two.now, back.extend)
    assert back == [], "it takes a second longer than usual only from now on"
    two.now += 0.1
    two.feeder.share_back(two.slots, two.now, back.extend)
    assert [task.id for task in back] == [late[0].id]
    assert two.place(*back) == back
    assert two.room() == 0
    assert two.feeder.excess(back, two.slots, two.now) == set()
    two.now += 1.1
    assert two.feeder.excess(back, two.slots, two.now) == {late[0].id}, "both hang by now"
    two.end(well)
    assert two.feeder.excess(back, two.slots, two.now) == set(), "one is free again"


def test_of_jobs_that_run_together_one_that_hangs_holds_up_nobody(two: Parent) -> None:
    two.knows("wait", 0.01)
    two.place(*two.tasks("wait", 20))
    first = two.slots[0]
    for job in range(4):
        two.begin(first, job)
        two.begin(two.slots[1], job)
    two.now += 1.2
    assert first.overdue(two.now) > 1
    for _ in range(3):
        two.end(first)
    for job in range(1, 4):
        two.begin(first, job)
    assert first.overdue(two.now) < 1


def test_retiring_and_ending_children_get_nothing(two: Parent) -> None:
    two.slots[0].retiring = True
    two.slots[1].ending = True
    tasks = two.tasks("new", 2)
    assert two.place(*tasks) == tasks
    assert two.room() == 0


def test_jobs_go_out_in_order_with_what_the_child_needs(one: Parent) -> None:
    import socket

    one.knows("noop", 0.001)
    tasks = [replace(task, payload='{"n":1}', timeout=7) for task in one.tasks("noop", 3)]
    one.place(*tasks)
    with socket.socket(fileno=one.ends.pop()) as child:
        (body,) = frames.Unpacker().feed(child.recv(frames.CHUNK))
    frame = msgspec.msgpack.decode(body, type=RunJobs)
    assert [job.task_id for job in frame.jobs] == [task.id for task in tasks]
    assert [job.seq for job in frame.jobs] == [1, 2, 3]
    assert {(job.payload, job.timeout, job.mode, job.attempt) for job in frame.jobs} == {
        ('{"n":1}', 7, "sync", 1)
    }


def test_rule_19_a_task_lost_twice_with_its_worker_waits_for_the_others_and_runs_alone(two: Parent) -> None:
    two.place(*two.tasks("new", 2))
    (poison,) = two.tasks("new", 1, suspect=True, lost_count=2)
    neighbours = two.tasks("new", 2)
    waiting = two.place(poison, *neighbours)
    assert waiting == [poison, *neighbours]
    assert two.room() == 0, "nothing more is taken meanwhile"
    assert two.feeder.excess(waiting, two.slots, 0.0) == {task.id for task in neighbours}, (
        "others may run elsewhere"
    )
    two.end(two.slots[0])
    assert two.place(poison) == [poison], "the other child still runs one"
    two.end(two.slots[1])
    assert two.place(poison, *neighbours) == neighbours
    assert two.place(*neighbours) == neighbours
    assert two.room() == 0
    two.end(next(slot for slot in two.slots if slot.jobs))
    assert two.place(*neighbours) == []
    two.end(two.slots[0])
    assert two.room() > 0


def test_rule_19_a_task_lost_once_has_neighbours(two: Parent) -> None:
    (lost,) = two.tasks("new", 1, lost_count=1)
    assert two.place(lost, *two.tasks("new", 1)) == []


def test_rule_19_a_worker_that_emptied_itself_for_a_task_goes_on_when_that_task_is_gone(two: Parent) -> None:
    """It was cancelled while it waited, or handed back: nobody is left to wait for."""
    two.place(*two.tasks("new", 2))
    (poison,) = two.tasks("new", 1, suspect=False, lost_count=2)
    assert two.place(poison) == [poison]
    assert two.feeder.excess([poison], two.slots, 0.0) == set(), (
        "it waits here: elsewhere it would have to as well"
    )
    assert two.room() == 0
    for slot in two.slots:
        two.end(slot)
    assert two.place() == []
    assert two.room() > 0
