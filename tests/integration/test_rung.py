"""A ring that names its task: an idle scheduler lets that go at once, and nothing else changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta

import msgspec
import pytest

from taskkit.center import TaskCenter
from taskkit.center.reading import TaskFilter
from taskkit.clock import utc_now
from taskkit.errors import BrokerUnavailable, PushUnknown, StoreError
from taskkit.limits import Limit, Scope
from taskkit.model import NO_TASK, ListName, Message, Ring
from taskkit.producer import Producer
from taskkit.queues import MemoryQueue
from taskkit.registry import Registry
from taskkit.scheduler import pushing
from taskkit.scheduler.dispatcher import FULL_PAUSE, Dispatcher
from taskkit.settings import Scheduler
from taskkit.states import Status
from taskkit.worker.enqueues import EnqueueRequest, Enqueues
from taskkit.worker.frames import EnqueueAnswer
from tests.centers import dispatch, new, task

pytest_plugins = ["tests.center_fixtures"]
HERE = ListName("q")


def idle(center: TaskCenter, queue: MemoryQueue, **settings: int) -> Dispatcher:
    """A scheduler that has dispatched something already, which a worker has taken, and found nothing more."""
    dispatcher = Dispatcher(center, queue, Scheduler(**settings))
    center.intake.insert([new()])
    assert dispatcher.scan() > 0
    assert len(queue.pull(["q"], 10, 0).messages) == 1
    return dispatcher


def rung_for(dispatcher: Dispatcher, task_id: int) -> float:
    """A producer rings for a task; the seconds until the next scan."""
    dispatcher.look_anew(Ring(task_id, "q"))
    return dispatcher.scan()


def waiting(queue: MemoryQueue) -> list[int]:
    return [message.task_id for message in queue.listing(HERE) or ()]


def test_a_task_that_is_rung_for_goes_before_a_look_at_the_lists(
    center: TaskCenter, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = MemoryQueue()
    dispatcher = idle(center, queue)
    one, other = center.intake.insert([new(), new()])
    seen: list[list[int]] = []
    look = center.dispatch.due_lists
    monkeypatch.setattr(center.dispatch, "due_lists", lambda: (seen.append(waiting(queue)), look())[1])
    rung_for(dispatcher, other)
    assert seen[0] == [other]
    assert waiting(queue) == [other, one]
    assert dispatcher.counters.dispatched == 3


def test_a_scheduler_that_has_not_looked_yet_goes_the_ordinary_way(center: TaskCenter) -> None:
    queue = MemoryQueue()
    dispatcher = Dispatcher(center, queue, Scheduler())
    one, other = center.intake.insert([new(), new()])
    rung_for(dispatcher, other)
    assert waiting(queue) == [one, other]


@pytest.mark.parametrize("taken", [0, 3])
def test_a_ring_overtakes_nothing_that_was_due_and_had_no_room(
    center: TaskCenter, monkeypatch: pytest.MonkeyPatch, taken: int
) -> None:
    """The bell is also waited for while a full list is to be filled up; nor when there is room by now."""
    monkeypatch.setattr("taskkit.scheduler.dispatcher.ROOM_S", 0)
    queue = MemoryQueue()
    dispatcher = idle(center, queue, window=4)
    ids = center.intake.insert([new() for _ in range(10)])
    assert dispatcher.scan() == FULL_PAUSE
    assert len(queue.pull(["q"], taken, 0).messages if taken else []) == taken
    (late,) = center.intake.insert([new()])
    for _ in range(2):
        rung_for(dispatcher, late)
    assert waiting(queue) == ids[taken : 4 + taken]


class HalfAway(MemoryQueue):
    """Of a cluster whose node with the lists of ``q`` went away in the middle of a push, while it is ``away``."""

    away = False

    def push(self, messages: Mapping[ListName, Sequence[Message]]) -> dict[ListName, StoreError]:
        here = {name: found for name, found in messages.items() if not (self.away and name.queue == "q")}
        return {name: PushUnknown("cut") for name in messages.keys() - here.keys()} | dict(super().push(here))

    def depth(self, lists: Sequence[ListName]) -> dict[ListName, int]:
        if self.away and any(name.queue == "q" for name in lists):
            raise BrokerUnavailable("no answer")
        return dict(super().depth(lists))


def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A list in doubt is asked in the next scan."""
    for name in ("FIRST_S", "LONGEST_S"):
        monkeypatch.setattr(f"taskkit.scheduler.pushing.{name}", 0)


class Deaf(MemoryQueue):
    """Says what waits in it; its answers to pushes to ``q`` get lost, and with them the messages, while it is ``deaf``."""

    deaf = True

    def push(self, messages: Mapping[ListName, Sequence[Message]]) -> dict[ListName, StoreError]:
        here = {name: found for name, found in messages.items() if not (self.deaf and name.queue == "q")}
        return {name: PushUnknown("cut") for name in messages.keys() - here.keys()} | dict(super().push(here))


def test_a_list_that_answers_and_takes_nothing_is_not_drained_into(
    center: TaskCenter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each push in doubt closes it for twice as long, and only one that succeeded ends that."""
    now = [1000.0]
    monkeypatch.setattr("taskkit.scheduler.pushing.monotonic", lambda: now[0])
    queue = Deaf()
    dispatcher = Dispatcher(center, queue, Scheduler(batch=2, window=20))
    center.intake.insert([new() for _ in range(40)])
    center.intake.insert([new(queue="other") for _ in range(6)])
    dispatched = TaskFilter(statuses=(int(Status.DISPATCHED),), queue="q", limit=1000)
    tried = []
    for _ in range(100):
        dispatcher.scan()
        tried.append(len(center.read.find(dispatched)))
        now[0] += 0.1
    assert len(queue.listing(ListName("other")) or ()) == 6, "another list goes on"
    assert 2 <= tried[-1] <= 2 * 8, "0.1 s, 0.2 s, 0.4 s … of ten seconds"
    queue.deaf = False
    now[0] += pushing.LONGEST_S
    for _ in range(2):
        dispatcher.scan()
    assert len(waiting(queue)) == 4


def test_a_ring_overtakes_nothing_in_a_list_that_opens_again(
    center: TaskCenter, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once(monkeypatch)
    queue = HalfAway()
    dispatcher = idle(center, queue, batch=2)
    (first,) = center.intake.insert([new()])
    queue.away = True
    rung_for(dispatcher, first)
    ids = center.intake.insert([new() for _ in range(4)])
    dispatcher.scan()
    queue.away = False
    rung_for(dispatcher, ids[-1])
    assert waiting(queue) == ids[:2]


def test_a_list_that_is_back_opens_while_another_is_still_away(
    center: TaskCenter, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr("taskkit.scheduler.pushing.monotonic", lambda: now[0])
    queue = HalfAway()
    pushes = Dispatcher(center, queue, Scheduler()).pushes
    queue.away = True
    for names in (("q", "back"), ("back", "q")):
        pushes.doubtful = {ListName(name): 0.0 for name in names}
        for _ in range(2):
            pushes.ask()
        assert list(pushes.doubtful) == [HERE]


def test_rule_04_nothing_more_goes_to_a_list_that_is_in_doubt_before_it_answers_and_others_go_on(
    center: TaskCenter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither what is rung for, nor what is due, nor a dispatch that is settled now."""
    at_once(monkeypatch)
    queue = HalfAway()
    dispatcher = idle(center, queue)
    (first,) = center.intake.insert([new()])
    queue.away = True
    rung_for(dispatcher, first)
    assert task(center, first).status is Status.DISPATCHED
    second, third, other = center.intake.insert([new(), new(), new(queue="other")])
    batch = center.dispatch.claim([second])
    center.dispatch.doubts.remember([second], batch.token)
    for _ in range(3):
        rung_for(dispatcher, third)
    assert [message.task_id for message in queue.listing(ListName("other")) or ()] == [other]
    assert {task(center, one).status for one in (second, third)} == {Status.PENDING}
    assert (task(center, third).attempt, waiting(queue)) == (0, [])
    queue.away = False
    dispatcher.scan()
    assert waiting(queue) == [second, third]
    assert task(center, first).status is Status.DISPATCHED


def test_a_ring_after_a_scan_that_failed_goes_the_ordinary_way(
    center: TaskCenter, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = MemoryQueue()
    dispatcher = idle(center, queue)
    one, other = center.intake.insert([new(), new()])
    monkeypatch.setattr(center.dispatch, "due_lists", _refuse)
    with pytest.raises(ValueError, match="does not take"):
        dispatcher.scan()
    monkeypatch.undo()
    rung_for(dispatcher, other)
    assert waiting(queue) == [one, other]


def test_a_broker_that_has_gone_is_asked_before_a_row_is_touched(
    center: TaskCenter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was seen of the room in its lists is old after a while."""
    monkeypatch.setattr("taskkit.scheduler.dispatcher.ROOM_S", 0)
    queue = MemoryQueue()
    dispatcher = idle(center, queue)
    (task_id,) = center.intake.insert([new()])
    queue.close()
    with pytest.raises(BrokerUnavailable):
        rung_for(dispatcher, task_id)
    assert task(center, task_id).status is Status.PENDING
    assert task(center, task_id).attempt == 0


def test_half_of_a_small_queue_is_enough(center: TaskCenter) -> None:
    """The window of a queue may be smaller than that of one of its lists."""
    queue = MemoryQueue()
    dispatcher = idle(center, queue, window=1000, queue_window=10)
    one, other = center.intake.insert([new(), new()])
    rung_for(dispatcher, other)
    assert waiting(queue) == [other, one]


@pytest.mark.parametrize("queue_window", [4, 100])
def test_rings_do_not_fill_a_list_beyond_its_window(center: TaskCenter, queue_window: int) -> None:
    queue = MemoryQueue()
    dispatcher = idle(center, queue, window=4, queue_window=queue_window)
    for _ in range(9):
        (task_id,) = center.intake.insert([new()])
        rung_for(dispatcher, task_id)
    assert len(waiting(queue)) == 4


def test_rings_for_all_priorities_do_not_fill_a_queue_beyond_its_window(center: TaskCenter) -> None:
    queue = MemoryQueue()
    dispatcher = idle(center, queue, window=1000, queue_window=10)
    for n in range(30):
        (task_id,) = center.intake.insert([new(priority=n % 10)])
        dispatcher.look_anew(Ring(task_id, "q", n % 10))
        dispatcher.scan()
    assert sum(queue.depth([ListName("q", priority) for priority in range(10)]).values()) == 10


def not_yet(center: TaskCenter) -> int:
    return center.intake.insert([new(plan_next_run_at=utc_now() + timedelta(hours=1))])[0]


def dispatched_already(center: TaskCenter) -> int:
    task_id = center.intake.insert([new()])[0]
    dispatch(center)
    return task_id


def cancelled(center: TaskCenter) -> int:
    task_id = center.intake.insert([new()])[0]
    center.people.cancel(task_id, "ada")
    return task_id


@pytest.mark.parametrize("make", [not_yet, dispatched_already, cancelled, lambda _: 2**62])
def test_a_ring_for_what_may_not_go_does_nothing(
    center: TaskCenter, make: Callable[[TaskCenter], int]
) -> None:
    queue = MemoryQueue()
    dispatcher = idle(center, queue)
    task_id = make(center)
    before = center.read.tasks([task_id])
    assert rung_for(dispatcher, task_id) > 0
    assert waiting(queue) == []
    assert center.read.tasks([task_id]) == before


def test_where_limits_are_set_they_decide(center: TaskCenter) -> None:
    queue = MemoryQueue()
    dispatcher = idle(center, queue)
    center.limits.put(Limit(Scope.QUEUE, "q", concurrency=1), "ada")
    ids = center.intake.insert([new(), new()])
    for task_id in reversed(ids):
        rung_for(dispatcher, task_id)
    assert waiting(queue) == ids[:1]


def test_a_task_that_the_database_refuses_is_set_aside_and_rung_for_in_vain(
    center: TaskCenter, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = MemoryQueue()
    dispatcher = idle(center, queue)
    (task_id,) = center.intake.insert([new()])
    monkeypatch.setattr(center.dispatch, "claim", _refuse)
    rung_for(dispatcher, task_id)
    monkeypatch.undo()
    assert task(center, task_id).status is Status.HELD
    rung_for(dispatcher, task_id)
    assert waiting(queue) == []


def _refuse(*_: object) -> None:
    raise ValueError("a value that the database does not take")


@pytest.mark.parametrize(
    ("tasks", "named"),
    [
        ([{}], True),
        ([{"queue": "other", "priority": 0}], True),
        ([{"expires_at": utc_now() + timedelta(days=1)}], True),
        ([{}, {}], False),
        ([{"delay": 60}], False),
        ([{"cron": "0 2 * * *"}], False),
        ([{"limit_key": "shop"}], False),
        ([{"at": utc_now()}], False),
    ],
)
def test_a_producer_names_the_task_when_it_is_one_that_may_go_at_once(
    center: TaskCenter, tasks: list[dict[str, object]], named: bool
) -> None:
    rings: list[Ring] = []
    producer = Producer(lambda: center, rings.append, Registry())
    ids = producer.enqueue_many([{"code": "mail", **options} for options in tasks])
    found = task(center, ids[0])
    assert rings == [Ring(ids[0], found.queue, found.priority) if named else NO_TASK]


def test_the_ring_for_a_handlers_task_names_it_as_well(center: TaskCenter) -> None:
    rings: list[Ring] = []
    answers: list[EnqueueAnswer] = []
    enqueues = Enqueues(center, rings.append)
    for count in (1, 2):
        raws = [msgspec.msgpack.encode(new()) for _ in range(count)]
        enqueues.put(EnqueueRequest(raws, answers.append))
    assert enqueues.finish(10)
    assert rings == [Ring(answers[0].ids[0], "q", 5), NO_TASK]
