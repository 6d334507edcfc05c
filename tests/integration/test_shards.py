"""Queues that are split into shards, on each database: where tasks go, what is looked into, what changing it does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from taskkit import Taskkit
from taskkit.beats import WorkerBeat
from taskkit.center import TaskCenter
from taskkit.model import ListName, Message
from taskkit.queues import MemoryQueue, Order
from taskkit.scheduler import lost_messages
from taskkit.scheduler.dispatcher import Dispatcher
from taskkit.scheduler.lost_messages import MessageRecovery
from taskkit.scheduler.sampler import Sampler
from taskkit.scheduler.shards import ShardKeeper
from taskkit.settings import Scheduler
from taskkit.shards import Split, list_text, portions
from taskkit.shortway import ShortWay
from taskkit.states import Status
from taskkit.testing import Sandbox
from taskkit.worker.portions import Portions
from tests.bounded import limited
from tests.centers import Clock, instant, new, on_clock, sql, succeeded, task
from tests.commands import built, done, refused

pytest_plugins = ["tests.center_fixtures"]

START = instant(2026, 3, 1, 12)


class Case:
    """A task center and a broker whose clocks a test moves, one scheduler, and workers that take what they are told to."""

    def __init__(self, url: str, monkeypatch: pytest.MonkeyPatch, **settings: Any) -> None:
        self.clock = Clock(START)
        self.center = on_clock(url, self.clock)
        self.order = Order()
        self.queue = MemoryQueue(order=self.order)
        self.dispatcher = Dispatcher(self.center, self.queue, Scheduler(**settings))
        self.messages = MessageRecovery(self.center, self.queue, "s", Scheduler(**settings))
        self.keeper = ShardKeeper(self.center, self.center, self.queue, "s")
        self.ran: Counter[int] = Counter()
        monkeypatch.setattr(lost_messages, "monotonic", self.seconds)

    def seconds(self) -> float:
        return (self.clock.at - START).total_seconds()

    def split(self, shards: int, queue: str = "q") -> Split:
        return self.center.shards.split(queue, shards, "somebody")

    def enqueue(self, count: int, **fields: Any) -> list[int]:
        """Tasks that are dispatched as far as there is room."""
        ids = self.center.intake.insert([new(**fields) for _ in range(count)])
        self.scan()
        return ids

    def scan(self) -> None:
        while not self.dispatcher.scan():
            pass

    def depths(self, queue: str = "q") -> list[int]:
        """What waits in each shard of priority 5."""
        return list(self.queue.depth([ListName(queue, 5, shard) for shard in range(8)]).values())

    def work(self, count: int = 1000) -> int:
        """A worker that knows what there is takes up to so many and succeeds; how many it ran."""
        self.order.share(portions(self.center.shards.refresh(), ["q"], "w", {}))
        desk = self.center.worker_desk("host:1:w")
        won = desk.claim([m for _, m in self.queue.pull(["q"], count, 0).messages]).won
        assert desk.finish([succeeded(claimed) for claimed in won]) == []
        self.ran.update(claimed.id for claimed in won)
        return len(won)

    def pass_by(self, seconds: int) -> None:
        for _ in range(seconds // 2):
            self.clock.move(seconds=2)
            self.messages.look()

    def agree(self, ids: list[int]) -> bool:
        """Whether each row says the list in which its message stands."""
        places = {m.task_id: name for name in self.all_lists() for m in self.queue.listing(name) or ()}
        return all(task(self.center, i).list_name == list_text(places[i]) for i in ids)

    def all_lists(self) -> list[ListName]:
        return [ListName(q, p, shard) for q in "qr" for p in range(10) for shard in range(8)]


@pytest.fixture
def case(center_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Case]:
    found = Case(center_url, monkeypatch)
    yield found
    found.center.close()


# where tasks go


def test_tasks_are_spread_by_their_ids_and_rows_say_where_their_messages_stand(case: Case) -> None:
    case.split(4)
    ids = case.enqueue(40) + case.enqueue(10, priority=0) + case.enqueue(6, queue="r")
    assert case.depths() == [10, 10, 10, 10, 0, 0, 0, 0]
    assert case.depths("r") == [6, 0, 0, 0, 0, 0, 0, 0]
    assert case.agree(ids)
    assert task(case.center, ids[0]).list_name == ("q:5" if ids[0] % 4 == 0 else f"q:5/{ids[0] % 4}")
    assert {list_text(ListName("q", 0, i % 4)) for i in ids[40:50]} == {
        task(case.center, i).list_name for i in ids[40:50]
    }


def test_a_batch_may_be_of_queues_that_are_split_differently(case: Case) -> None:
    case.split(3)
    case.split(2, "r")
    tasks = [new(queue=queue) for queue in "qrs" for _ in range(6)]
    ids = case.center.intake.insert(tasks)
    case.scan()
    assert (case.depths(), case.depths("r")) == ([2, 2, 2, 0, 0, 0, 0, 0], [3, 3, 0, 0, 0, 0, 0, 0])
    assert case.depths("s")[0] == 6
    assert case.agree(ids[:12])


def test_what_a_limit_lets_go_is_spread_as_well(case: Case) -> None:
    case.split(4)
    limited(case.center, queue="q", concurrency=8)
    ids = case.enqueue(20)
    case.scan()
    assert case.depths() == [2, 2, 2, 2, 0, 0, 0, 0]
    assert case.agree([i for i in ids if task(case.center, i).status is Status.DISPATCHED])


def test_rule_05_windows_hold_for_all_shards_of_a_list_and_of_a_queue_together(
    center_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = Case(center_url, monkeypatch, window=40, queue_window=60)
    case.split(4)
    case.center.intake.insert([new() for _ in range(100)])
    for _ in range(3):
        case.dispatcher.scan()
    assert sum(case.depths()) == 40
    case.center.intake.insert([new(priority=9) for _ in range(100)])
    case.dispatcher.look_anew()  # as a producer's ring has it
    for _ in range(3):
        case.dispatcher.scan()
    total = sum(case.queue.depth(case.all_lists()).values())
    assert total == 60
    assert case.work(25) == 25
    case.dispatcher.scan()
    assert sum(case.depths()) == 40
    case.center.close()


def test_the_short_way_deals_tasks_out_to_the_shards_in_turn(center: TaskCenter) -> None:
    center.shards.split("q", 4, "somebody")
    queue = MemoryQueue()
    ids = ShortWay(lambda: center, lambda: queue, lambda: None, 8000, 16_000).write(
        [new() for _ in range(40)]
    )
    assert ids is not None
    lists = [ListName("q", 5, shard) for shard in range(4)]
    assert list(queue.depth(lists).values()) == [10] * 4
    for name in lists:
        for message in queue.listing(name) or ():
            assert task(center, message.task_id).list_name == list_text(name)


def test_rule_05_the_short_way_counts_what_waits_in_all_shards(center: TaskCenter) -> None:
    center.shards.split("q", 4, "somebody")
    queue = MemoryQueue()
    queue.push({ListName("q", 5, shard): [Message(n) for n in range(1, 20)] for shard in range(4)})
    assert ShortWay(lambda: center, lambda: queue, lambda: None, 80, 160).write([new()]) is None
    assert ShortWay(lambda: center, lambda: queue, lambda: None, 160, 80).write([new()]) is None
    assert ShortWay(lambda: center, lambda: queue, lambda: None, 160, 160).write([new()]) is not None


def test_a_dispatch_whose_commit_got_no_reply_knows_its_shards(case: Case) -> None:
    case.split(4)
    ids = case.center.intake.insert([new() for _ in range(8)])
    batch = case.center.dispatch.claim(ids)
    assert case.center.dispatch.doubts.won(ids, batch.token) == batch.won
    assert Counter(won.shard for won in batch.won) == {0: 2, 1: 2, 2: 2, 3: 2}


# changing the number


@pytest.mark.parametrize("numbers", [(1, 4, 1), (4, 2, 8), (8, 1, 3), (2, 3, 2)])
def test_changing_the_number_with_messages_inside_loses_and_doubles_nothing(
    case: Case, numbers: tuple[int, ...]
) -> None:
    ids: list[int] = []
    for number in numbers:
        split = case.split(number)
        assert split.shards == number
        ids += case.enqueue(30)
        assert case.work(13) == 13
        assert case.agree([i for i in ids if not case.ran[i]])
    while case.work():
        pass
    case.pass_by(40)
    assert case.ran == Counter(ids), "each once"
    assert case.messages.rung_again == 0
    assert {task(case.center, i).attempt for i in ids} == {1}


def test_a_scheduler_that_does_not_know_of_it_yet_loses_nothing(case: Case) -> None:
    """It dispatches by the number of before, until its next look."""
    late = on_clock(case.center.database.url.render_as_string(hide_password=False), case.clock)
    scheduler = Dispatcher(late, case.queue, Scheduler())
    case.split(4)
    assert late.shards.book.of("q").shards == 4
    case.split(2)
    ids = case.center.intake.insert([new() for _ in range(40)])
    scheduler.scan()
    assert case.depths()[:4] == [10, 10, 10, 10]
    while case.work():
        pass
    assert case.ran == Counter(ids)
    late.close()


def test_lists_that_are_left_over_are_looked_into_until_nothing_is_in_them(case: Case) -> None:
    case.split(4)
    case.enqueue(8)
    assert case.split(2) == Split(2, 4)
    case.clock.move(seconds=61)
    case.keeper.narrow()
    assert case.center.shards.refresh().of("q") == Split(2, 4), "messages and rows are there"
    case.queue.store.lists.clear()
    case.keeper.narrow()
    assert case.center.shards.refresh().of("q") == Split(2, 4), "the rows are dispatched to there"
    case.pass_by(24)
    case.scan()
    case.keeper.narrow()
    assert case.center.shards.refresh().of("q") == Split(2, 2)
    assert case.depths() == [4, 4, 0, 0, 0, 0, 0, 0]


def test_lists_that_are_left_over_are_looked_into_until_everybody_knows(case: Case) -> None:
    case.split(4)
    case.split(1)
    case.keeper.narrow()
    assert case.center.shards.refresh().of("q") == Split(1, 4)
    case.queue.push({ListName("q", 5, 3): [Message(10**9)]})
    case.clock.move(seconds=61)
    case.keeper.narrow()
    assert case.center.shards.refresh().of("q") == Split(1, 4), "something waits there, whatever it is"
    case.work()
    case.keeper.narrow()
    assert not case.center.shards.refresh(), "it is a whole queue like all others"
    assert sql(case.center, "SELECT COUNT(*) FROM task_queue") == [(0,)]


def test_who_splits_a_queue_again_meanwhile_is_not_overruled(case: Case) -> None:
    case.split(4)
    before = case.split(2)
    case.split(3)
    case.center.shards.narrow("q", before)
    assert case.center.shards.refresh().of("q") == Split(3, 4)


def test_a_whole_queue_that_is_made_whole_leaves_no_row(case: Case) -> None:
    assert case.split(1) == Split(1, 1)
    assert sql(case.center, "SELECT COUNT(*) FROM task_queue") == [(0,)]
    (action,) = sql(case.center, "SELECT actor, action, detail FROM task_action")
    assert tuple(action) == ("somebody", "shards", "queue q: 1")


# recovery


def test_rule_16_a_flushed_broker_gets_the_messages_of_all_shards_back(case: Case) -> None:
    case.split(4)
    ids = case.enqueue(40)
    case.queue.store.lists.clear()
    case.pass_by(24)
    case.scan()
    assert case.depths() == [10, 10, 10, 10, 0, 0, 0, 0]
    assert case.agree(ids)
    case.work()
    assert case.ran == Counter(ids)
    assert {task(case.center, i).attempt for i in ids} == {2}


def test_rule_16_what_is_lost_in_one_shard_is_found_and_what_waits_in_the_others_is_not_lost(
    case: Case,
) -> None:
    """Also when the others hold older messages, and newer ones stand in front of nothing."""
    case.split(4)
    ids = case.enqueue(40)
    gone = {m.task_id for m in case.queue.listing(ListName("q", 5, 2)) or ()}
    case.queue.store.lists[ListName("q", 5, 2)].clear()
    case.pass_by(24)
    assert {i for i in ids if task(case.center, i).status is Status.PENDING} == gone
    case.pass_by(600)
    assert case.messages.rung_again == len(gone) == 10
    run = case.center.read.runs([min(gone)])[0]
    assert run.error is not None and run.error.endswith("in the list q:5/2")


def test_rule_16_the_head_of_one_shard_says_nothing_of_another(case: Case) -> None:
    case.split(2)
    old = case.enqueue(10)
    for name in (ListName("q", 5, 0), ListName("q", 5, 1)):
        case.queue.store.lists[name].clear()
    case.clock.move(seconds=30)
    young = case.enqueue(2)
    case.pass_by(24)
    statuses = {i: task(case.center, i).status for i in [*old, *young]}
    assert {statuses[i] for i in old} == {Status.PENDING}
    assert {statuses[i] for i in young} == {Status.DISPATCHED}


def test_rule_16_messages_where_nobody_looks_are_found_by_their_rows_and_looked_into(
    case: Case, caplog: pytest.LogCaptureFixture
) -> None:
    """A scheduler that was stopped for long dispatched by what it knew before it was stopped."""
    case.split(4)
    ids = case.enqueue(8)
    sql(case.center, "DELETE FROM task_queue")
    case.center.shards.refresh()
    assert case.work() == 2
    case.pass_by(14)
    assert case.center.shards.refresh().of("q") == Split(1, 4)
    assert "messages wait in q:5/3" in caplog.text
    while case.work():
        pass
    assert case.ran == Counter(ids)
    assert case.messages.rung_again == 0
    case.clock.move(seconds=61)
    case.keeper.narrow()
    assert not case.center.shards.refresh()


def test_a_row_edited_by_hand_to_a_list_that_cannot_be_is_lost_and_comes_back(case: Case) -> None:
    ids = case.enqueue(2)
    sql(case.center, "UPDATE task_center SET list_name = 'q:5/99' WHERE id = :id", id=ids[0])
    case.queue.store.lists.clear()
    case.pass_by(24)
    case.scan()
    assert case.depths()[0] == 2


# who serves what


def beat(worker: str, queues: str) -> WorkerBeat:
    return WorkerBeat(worker, "host", 1, queues, 1, 0, 0, 0, 0, None, 0, 0.0, [], [])


def test_a_worker_prefers_its_portion_of_the_shards_among_the_workers_that_live(case: Case) -> None:
    for worker, queues in (("w1", "q,r"), ("w2", "q"), ("w3", "r")):
        case.center.nodes.enter_worker(beat(worker, queues))
    asked = Order()
    mine = Portions(case.center, "w2", ["q"], asked, 5.0)
    mine.look()
    assert not asked.is_split(("q",))
    case.split(4)
    mine.look()
    assert asked.slots(("q",)) == [("q", 1), ("q", 3)]
    case.clock.move(seconds=20)
    case.center.nodes.beat_worker(beat("w2", "q"))
    again = Portions(case.center, "w2", ["q"], asked, 5.0)
    again.look()
    assert asked.slots(("q",)) == [("q", 0), ("q", 1), ("q", 2), ("q", 3)], "the others are silent"
    assert case.center.nodes.serving() == {"w2": "q"}
    case.center.nodes.leave_worker("w2")
    assert case.center.nodes.serving() == {}


def test_samples_and_status_count_all_shards(case: Case) -> None:
    case.split(4)
    case.enqueue(40)
    Sampler(case.center, case.queue, "s").tick()
    assert [tuple(row) for row in sql(case.center, "SELECT queue, queued FROM task_sample")] == [("q", 40)]


# from outside


def test_queues_are_split_shown_and_made_whole_from_the_command_line() -> None:
    built()
    assert "no queue is split" in done("shards").out
    assert done("shards", "set", "mail", 4).out == "queue mail: 4 shards\n"
    assert "look into 4 lists" in done("shards", "set", "mail", 2).out
    assert done("shards", "set", "mail", 2, "--json").json == {"queue": "mail", "shards": 2, "lists": 4}
    assert done("shards", "--json").json == [
        {"queue": "mail", "shards": 2, "lists": 4, "waiting_by_shard": None}
    ]
    assert "mail" in done("shards").out
    assert "65 is not in the range" in refused("shards", "set", "mail", 65)
    assert "queue: name one queue" in refused("shards", "set", "a,b", 2)


def test_a_sandbox_runs_tasks_of_split_queues() -> None:
    kit = Taskkit()

    @kit.task("greet")
    def greet(name: str) -> str:
        return f"hello {name}"

    with Sandbox(kit) as box:
        kit.operations.set_shards("greet", 4)
        ids = [greet.enqueue(name=name) for name in "abcdefgh"]
        box.run()
        assert [box.result(i) for i in ids] == [f"hello {name}" for name in "abcdefgh"]
