"""The puller and stale messages: as after a broker came back with an old snapshot, or SQL with one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from taskkit import clock
from taskkit.center import TaskCenter
from taskkit.model import Claims, Finish, ListName, Message
from taskkit.queues import MemoryQueue
from taskkit.queues.base import Pulled
from taskkit.service import Stop
from taskkit.states import Move, Outcome
from taskkit.worker import puller
from taskkit.worker.pool import Pool
from taskkit.worker.puller import WIDEST, Puller
from taskkit.worker.tally import Tally
from tests.centers import QUEUE, dispatch, messages, new, start, succeeded

pytest_plugins = ["tests.center_fixtures"]
LIST = ListName(QUEUE)


class Counting(MemoryQueue):
    """Notes how many messages each pull asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[int] = []

    def pull(self, queues: Sequence[str], count: int, timeout: float) -> Pulled:
        self.asked.append(count)
        return super().pull(queues, count, timeout)


class Worker:
    """A puller with room for one task, turned by hand."""

    def __init__(self, center: TaskCenter) -> None:
        self.queue, self.pool, self.tally = Counting(), Pool(lambda: None), Tally()
        desk = center.worker_desk("host:1:w")
        self.puller = Puller(self.queue, desk, [QUEUE], self.pool, Stop(), self.tally)
        self.pool.set_room(1, hurry=True)

    def turn_until_it_has_one(self, turns: int) -> None:
        for _ in range(turns):
            self.puller._turn()
            if len(self.pool):
                return
        raise AssertionError(f"no task in {turns} turns, asked for {self.queue.asked}")


@pytest.fixture
def worker(center: TaskCenter) -> Iterator[Worker]:
    found = Worker(center)
    yield found
    found.queue.close()


def test_a_flood_of_stale_messages_is_taken_in_great_gulps_and_the_good_one_behind_it_runs(
    center: TaskCenter, worker: Worker
) -> None:
    """One by one, as there is room for, 3,000 pulls would go to messages of a task that has long ended."""
    (ended,) = start(center, "host:1:before")
    assert center.worker_desk("host:1:before").finish([succeeded(ended)]) == []
    (good,) = center.intake.insert([new()])
    worker.queue.push({LIST: [Message(ended.id, "mail", 1)] * 3000 + messages(dispatch(center))})
    worker.turn_until_it_has_one(40)
    assert [task.id for task in worker.pool.take_all()] == [good]
    assert worker.tally.dropped == 3000
    assert max(worker.queue.asked) == WIDEST


def test_a_claim_that_took_long_does_not_put_the_clock_of_runs_into_the_future(
    center: TaskCenter, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection that had died silently costs a minute; the answer is of its end, and was asked for at its begin."""
    before = worker.tally.instant(0.0)
    center.intake.insert([new()])
    worker.queue.push({LIST: messages(dispatch(center))})
    now, claim = clock.monotonic(), worker.puller.desk.claim
    seconds = iter([now, now, now])

    def slow(found: Sequence[Message], token: str) -> Claims:
        monkeypatch.setattr(puller, "monotonic", lambda: now + 60)
        return claim(found, token)

    monkeypatch.setattr(puller, "monotonic", lambda: next(seconds))
    monkeypatch.setattr(worker.puller.desk, "claim", slow)
    worker.turn_until_it_has_one(1)
    assert worker.tally.instant(0.0) == before


@pytest.mark.parametrize("meanwhile", ["declared dead", "nothing"])
def test_a_worker_that_stood_still_in_its_claim_begins_only_what_is_still_its_own(
    center: TaskCenter, worker: Worker, monkeypatch: pytest.MonkeyPatch, meanwhile: str
) -> None:
    """Frozen between the commit of its claim and the answer; recovery may have given the task to others by then."""
    (task_id,) = center.intake.insert([new(max_retry=3)])
    worker.queue.push({LIST: messages(dispatch(center))})
    claim, asked = worker.puller.desk.claim, []

    def slow(found: Sequence[Message], token: str) -> Claims:
        claims = claim(found, token)
        asked.append([task.attempt for task in claims.won])
        if len(asked) == 1:
            if meanwhile == "declared dead":
                taken = {task_id: 1}
                center.recovery.lose("host:1:w", taken, lambda c: Finish(c, Outcome.LOST, Move.LOSE, 0))
            now = clock.monotonic() + puller.STALE_S + 1
            monkeypatch.setattr(puller, "monotonic", lambda: now)
        return claims

    monkeypatch.setattr(worker.puller.desk, "claim", slow)
    worker.puller._turn()
    begun = [(task.id, task.attempt) for task in worker.pool.take_all()]
    if meanwhile == "nothing":
        assert (asked, begun, worker.tally.dropped) == ([[1], [1]], [(task_id, 1)], 0)
    else:
        assert (asked, begun, worker.tally.dropped) == ([[1], []], [], 1)


def test_messages_that_are_good_are_taken_only_as_there_is_room(center: TaskCenter, worker: Worker) -> None:
    center.intake.insert([new() for _ in range(50)])
    worker.queue.push({LIST: messages(dispatch(center))})
    for _ in range(20):
        worker.turn_until_it_has_one(1)
        worker.pool.take_all()
        worker.pool.set_room(1, hurry=True)
    assert set(worker.queue.asked) == {1}
