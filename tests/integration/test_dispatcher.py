"""One scheduler's scan, step by step: what another one does in between, what a broker refuses or leaves in doubt."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

import pytest

from taskkit.center import TaskCenter
from taskkit.errors import BrokerUnavailable, PushRefused, PushUnknown, StoreError
from taskkit.model import DueList, ListName, Message
from taskkit.queues import MemoryQueue
from taskkit.scheduler.dispatcher import FULL_PAUSE, Dispatcher
from taskkit.scheduler.process import SchedulerProcess
from taskkit.service import Stop
from taskkit.settings import Scheduler, Settings
from taskkit.states import Status
from tests.centers import Clock, instant, new, occurrences, on_clock, periodic, succeeded, task
from tests.waiting import wait_until

pytest_plugins = ["tests.center_fixtures"]


class Interrupted(Dispatcher):
    """Something happens between its look at the candidates and its claim, as when the process is stopped there."""

    def __init__(self, center: TaskCenter, queue: MemoryQueue, meanwhile: Callable[[], None]) -> None:
        super().__init__(center, queue, Scheduler())
        self.meanwhile = meanwhile

    def _choose(self, due: Sequence[DueList], room: Mapping[ListName, int]) -> list[int]:
        ids = super()._choose(due, room)
        assert ids
        self.meanwhile()
        return ids


class Troubled(MemoryQueue):
    """Refuses the pushes to some lists, and is in doubt about others."""

    def __init__(self, **troubles: StoreError) -> None:
        super().__init__()
        self.troubles = troubles

    def push(self, batches: Mapping[ListName, Sequence[Message]]) -> dict[ListName, StoreError]:
        bad = {name: self.troubles[name.queue] for name in batches if name.queue in self.troubles}
        return bad | super().push({name: rows for name, rows in batches.items() if name not in bad})


def scan_all(center: TaskCenter, queue: MemoryQueue) -> None:
    while not Dispatcher(center, queue, Scheduler()).scan():
        pass


def run_all(center: TaskCenter, queue: MemoryQueue, queues: Sequence[str]) -> int:
    """A worker takes what waits and succeeds at once; how many it ran."""
    desk = center.worker_desk("host:1:w")
    messages = [message for _, message in queue.pull(queues, 100, 0).messages]
    won = desk.claim(messages).won
    assert desk.finish([succeeded(claimed) for claimed in won]) == []
    return len(won)


def test_rule_01_a_scheduler_that_was_stopped_before_its_claim_does_not_fire_tomorrows_occurrence(
    center_url: str,
) -> None:
    """Others dispatch and finish a periodic task meanwhile; its next time is not due."""
    clock = Clock(instant(2026, 1, 1, 12))
    center, queue = on_clock(center_url, clock), MemoryQueue()
    (daily, once) = center.intake.insert([periodic(clock.at, "0 13 * * *"), new()])
    clock.move(hours=1, seconds=5)

    def meanwhile() -> None:
        scan_all(center, queue)
        assert run_all(center, queue, ["q"]) == 2

    stopped = Interrupted(center, queue, meanwhile)
    stopped.scan()
    assert stopped.counters.dispatched == 0
    assert queue.pull(["q"], 10, 0).messages == []
    assert (task(center, daily).status, task(center, daily).attempt) == (Status.PENDING, 1)
    assert task(center, daily).occurrence_at == instant(2026, 1, 2, 13)
    assert task(center, once).status is Status.SUCCESS
    assert len(center.read.runs([daily, once])) == 2
    center.close()


def test_rule_01_what_was_cancelled_held_or_moved_before_the_claim_is_not_dispatched(
    center: TaskCenter,
) -> None:
    queue = MemoryQueue()
    a, b, c, d = center.intake.insert([new() for _ in range(4)])

    def meanwhile() -> None:
        center.people.cancel(a, "somebody")
        center.people.pause(b, "somebody")
        assert center.dispatch.claim([c]).won

    Interrupted(center, queue, meanwhile).scan()
    assert [message.task_id for _, message in queue.pull(["q"], 10, 0).messages] == [d]
    assert [task(center, i).status.label for i in (a, b, c, d)] == [
        "cancelled", "held", "dispatched", "dispatched",
    ]  # fmt: skip


def test_rule_04_a_refused_list_goes_back_one_in_doubt_stays_and_the_others_are_pushed(
    center: TaskCenter,
) -> None:
    """Only a definite refusal may be put back: what is in doubt may have arrived."""
    queue = Troubled(full=PushRefused("OOM"), slow=PushUnknown("no answer"))
    ids = center.intake.insert([new(queue=name) for name in ("full", "slow", "fine") for _ in range(3)])
    dispatcher = Dispatcher(center, queue, Scheduler())
    with pytest.raises(BrokerUnavailable, match="OOM"):
        dispatcher.scan()
    assert [task(center, i).status.label for i in ids] == (
        ["pending"] * 3 + ["dispatched"] * 3 + ["dispatched"] * 3
    )
    assert len(queue.pull(["fine"], 10, 0).messages) == 3
    assert (dispatcher.counters.put_back, dispatcher.counters.dispatched) == (3, 6)
    assert center.read.runs(ids) == [], "refused pushes write no run"
    queue.troubles.clear()
    dispatcher.scan()
    messages = [message for _, message in queue.pull(["full", "slow"], 10, 0).messages]
    assert [(message.task_id, message.attempt) for message in messages] == [(i, 2) for i in ids[:3]]


def test_rule_02_a_put_back_moves_nothing_that_somebody_else_has_meanwhile(center: TaskCenter) -> None:
    """Matched by attempt and token, never by status alone."""
    (task_id,) = center.intake.insert([new()])
    first = center.dispatch.claim([task_id])
    assert center.dispatch.put_back(first.won, first.token) == 1
    second = center.dispatch.claim([task_id])
    assert center.dispatch.put_back(first.won, first.token) == 0
    assert second.won[0].attempt == 2
    assert task(center, task_id).status is Status.DISPATCHED


@pytest.mark.parametrize(("misfire", "runs"), [("skip", 0), ("once", 1)])
def test_an_occurrence_whose_push_was_refused_for_hours_is_left_to_its_misfire_policy(
    center_url: str, misfire: str, runs: int
) -> None:
    """It did not fire, so it is planned as before, whatever it had been counted as in between."""
    clock = Clock(instant(2026, 1, 1, 12))
    center, queue = on_clock(center_url, clock), Troubled(q=PushRefused("OOM"))
    (daily,) = center.intake.insert([periodic(clock.at, "0 13 * * *", misfire=misfire)])
    center.plan.sweep()
    dispatcher = Dispatcher(center, queue, Scheduler())
    clock.move(hours=1)
    for _ in range(3):
        with pytest.raises(BrokerUnavailable, match="OOM"):
            dispatcher.scan()
    assert occurrences(center, daily, "fired") == []
    queue.troubles.clear()
    clock.move(hours=6)
    scan_all(center, queue)
    center.plan.sweep()
    scan_all(center, queue)
    assert run_all(center, queue, ["q"]) == runs
    assert task(center, daily).occurrence_at == instant(2026, 1, 2, 13)
    (today,) = [o for o in center.read.occurrences(daily, 10) if o.planned_at == instant(2026, 1, 1, 13)]
    assert today.state == ("fired" if runs else "skipped")
    center.close()


def order(center: TaskCenter, settings: Scheduler) -> list[str]:
    queue = MemoryQueue()
    Dispatcher(center, queue, settings).scan()
    lists = [ListName(name, priority) for priority in range(10) for name in ("a", "b")]
    return [f"{name.queue}{name.priority}" for name in lists for _ in range(queue.depth([name])[name])]


def test_sched_09_a_batch_is_filled_by_priority_with_a_twentieth_for_the_lowest(center: TaskCenter) -> None:
    """Also when the urgent ones alone would fill every batch."""
    center.intake.insert([new(queue="a", priority=9) for _ in range(50)])
    center.intake.insert([new(queue="a", priority=0) for _ in range(200)])
    center.intake.insert([new(queue="b", priority=5) for _ in range(50)])
    assert order(center, Scheduler(batch=100)) == ["a0"] * 95 + ["a9"] * 5
    assert order(center, Scheduler(batch=100, strict_priority=True)) == ["a0"] * 100


@pytest.mark.parametrize(
    ("window", "total", "expected"), [(7, 20_000, (7, 7)), (100, 10, (10, 10)), (1, 1, (1, 1))]
)
def test_rule_05_the_room_of_a_list_is_its_own_and_its_queues(
    center: TaskCenter, window: int, total: int, expected: tuple[int, int]
) -> None:
    queue = MemoryQueue()
    center.intake.insert([new(queue=name) for name in "ab" for _ in range(30)])
    dispatcher = Dispatcher(center, queue, Scheduler(window=window, queue_window=total))
    for _ in range(3):
        dispatcher.scan()
    assert tuple(queue.depth([ListName("a"), ListName("b")]).values()) == expected
    assert center.read.counts()[Status.PENDING] == 60 - sum(expected)


def test_rule_06_a_scan_says_when_the_next_one_is_worth_while(center_url: str) -> None:
    clock = Clock(instant(2026, 1, 1))
    center = on_clock(center_url, clock)
    dispatcher = Dispatcher(center, MemoryQueue(), Scheduler())
    assert dispatcher.scan() == 0.5, "a plain INSERT wakes nobody"
    center.intake.insert([new(plan_next_run_at=instant(2026, 1, 1, 0, 1))])
    assert dispatcher.scan() == 0.5
    clock.move(seconds=59.8)
    assert dispatcher.scan() == pytest.approx(0.2, abs=1e-3)
    clock.move(seconds=0.2)
    dispatcher.scan()
    assert dispatcher.counters.dispatched == 1
    center.close()


def test_nothing_that_a_scan_meets_ends_a_scheduler(
    center: TaskCenter, caplog: pytest.LogCaptureFixture
) -> None:
    queue, stop = MemoryQueue(), Stop()
    process = SchedulerProcess(Settings(scheduler=Scheduler(poll_s=0.05)), center, queue, stop)
    scan, calls = process.dispatcher.scan, []

    def unlucky() -> float:
        calls.append(1)
        if len(calls) <= 2:
            raise [RuntimeError("unforeseen"), StoreError("SQL is away")][len(calls) - 1]
        return scan()

    process.dispatcher.scan = unlucky  # type: ignore[method-assign]
    thread = threading.Thread(target=process.run)
    thread.start()
    (task_id,) = center.intake.insert([new()])
    try:
        wait_until(lambda: task(center, task_id).status is Status.DISPATCHED)
    finally:
        stop.ask()
        thread.join()
    assert "unforeseen" in caplog.text


class Looks:
    """Counts the looks at the lists of a task center."""

    def __init__(self, center: TaskCenter, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count, look = 0, center.dispatch.due_lists

        def counted() -> tuple[list[DueList], datetime | None]:
            self.count += 1
            return look()

        monkeypatch.setattr(center.dispatch, "due_lists", counted)


def test_while_a_backlog_lasts_one_look_at_the_lists_serves_many_batches(
    center: TaskCenter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the scheduler rests only after a look that found nothing more."""
    monkeypatch.setattr("taskkit.scheduler.dispatcher.LOOK_S", 60)
    looks, dispatcher = Looks(center, monkeypatch), Dispatcher(center, MemoryQueue(), Scheduler(batch=10))
    center.intake.insert([new(queue=name) for name in "abc" for _ in range(15)])
    assert [dispatcher.scan() for _ in range(4)] == [0, 0, 0, 0]
    assert (looks.count, dispatcher.counters.dispatched) == (1, 40)
    center.intake.insert([new(queue="d")])
    assert [dispatcher.scan() for _ in range(3)] == [0, 0.5, 0.5]
    assert (looks.count, dispatcher.counters.dispatched) == (3, 46)


def test_a_list_that_is_full_is_looked_at_again_before_the_scheduler_rests(
    center: TaskCenter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("taskkit.scheduler.dispatcher.LOOK_S", 60)
    looks, queue = Looks(center, monkeypatch), MemoryQueue()
    dispatcher = Dispatcher(center, queue, Scheduler(window=10, batch=10))
    center.intake.insert([new() for _ in range(15)])
    assert [dispatcher.scan() for _ in range(3)] == [0, FULL_PAUSE, FULL_PAUSE]
    assert (looks.count, dispatcher.counters.dispatched) == (1, 10)
    assert run_all(center, queue, ["q"]) == 10
    assert [dispatcher.scan() for _ in range(3)] == [0, 0.5, 0.5]
    assert (looks.count, dispatcher.counters.dispatched) == (3, 15)


def test_what_did_not_fit_follows_when_there_is_room_and_not_half_a_second_later(center: TaskCenter) -> None:
    """Also when another list has room and nothing left, and the batch was not full."""
    queue = MemoryQueue()
    dispatcher = Dispatcher(center, queue, Scheduler(window=10, batch=100))
    center.intake.insert([new(queue=name) for name, n in (("a", 15), ("b", 3)) for _ in range(n)])
    assert dispatcher.scan() == FULL_PAUSE
    assert dispatcher.counters.dispatched == 13
    assert run_all(center, queue, ["a"]) == 10
    assert [dispatcher.scan() for _ in range(3)] == [0, 0.5, 0.5]
    assert dispatcher.counters.dispatched == 18


@pytest.mark.parametrize(("taken", "left"), [(3, 97), (29, 71), (30, 100), (60, 100)])
def test_a_list_with_plenty_is_filled_up_by_whole_batches(center: TaskCenter, taken: int, left: int) -> None:
    """A batch of three rows costs a commit as one of a thousand does, and half a window is still there to work on."""
    queue = MemoryQueue()
    dispatcher = Dispatcher(center, queue, Scheduler(window=100, batch=30))
    center.intake.insert([new() for _ in range(200)])
    while dispatcher.scan() != FULL_PAUSE:
        pass
    queue.pull(["q"], taken, 0)
    while dispatcher.scan() != FULL_PAUSE:
        pass
    assert queue.depth([ListName("q")])[ListName("q")] == left


def test_a_ring_has_the_lists_looked_at_again(center: TaskCenter, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that what was enqueued just now does not wait for what is known of the lists to be old."""
    monkeypatch.setattr("taskkit.scheduler.dispatcher.LOOK_S", 60)
    dispatcher = Dispatcher(center, MemoryQueue(), Scheduler(window=1))
    center.intake.insert([new() for _ in range(2)])
    assert [dispatcher.scan() for _ in range(2)] == [FULL_PAUSE, FULL_PAUSE]
    (other,) = center.intake.insert([new(queue="other")])
    dispatcher.scan()
    assert task(center, other).status is Status.PENDING
    dispatcher.look_anew()
    dispatcher.scan()
    assert task(center, other).status is Status.DISPATCHED


def test_a_look_is_old_after_a_while_so_that_what_is_urgent_gets_its_turn(
    center: TaskCenter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("taskkit.scheduler.dispatcher.LOOK_S", 0)
    queue = MemoryQueue()
    dispatcher = Dispatcher(center, queue, Scheduler(batch=10))
    center.intake.insert([new() for _ in range(30)])
    dispatcher.scan()
    (urgent,) = center.intake.insert([new(priority=0)])
    dispatcher.scan()
    assert task(center, urgent).status is Status.DISPATCHED
