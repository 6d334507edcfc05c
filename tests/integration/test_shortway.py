"""The short way, at the desk: when it is taken, when not, and what becomes of rows whose message was refused."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from taskkit import shortway
from taskkit.center import TaskCenter
from taskkit.errors import BrokerUnavailable, PushRefused, PushUnknown, StoreError
from taskkit.model import ListName, Message
from taskkit.queues import MemoryQueue
from taskkit.shortway import ShortWay
from taskkit.states import Status
from tests.centers import dispatch, new, periodic, task

pytest_plugins = ["tests.center_fixtures"]

LIST = ListName("q", 5)


class Moody(MemoryQueue):
    """A broker that answers every push as it is told."""

    answer: StoreError | None = None
    gone = False

    def push(self, batches: dict[ListName, list[Message]]) -> dict[ListName, StoreError]:  # type: ignore[override]
        if self.answer is not None:
            return dict.fromkeys(batches, self.answer)
        return super().push(batches)

    def depth(self, lists: list[ListName]) -> dict[ListName, int]:  # type: ignore[override]
        if self.gone:
            raise BrokerUnavailable("away")
        return super().depth(lists)


@pytest.fixture
def broker() -> Moody:
    return Moody()


@pytest.fixture
def short(center: TaskCenter, broker: Moody) -> Iterator[ShortWay]:
    yield ShortWay(lambda: center, lambda: broker, lambda: None, window=80, queue_window=160)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every look is made anew, and a shut way opens at once."""
    monkeypatch.setattr(shortway, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(shortway, "SHUT_SECONDS", 0.0)


def test_a_due_task_is_written_as_dispatched_and_its_message_says_the_same(
    center: TaskCenter, broker: Moody, short: ShortWay
) -> None:
    ids = short.write([new(), new(priority=0)])
    assert ids is not None
    rows = [task(center, task_id) for task_id in ids]
    assert [(row.status, row.attempt, row.list_name) for row in rows] == [
        (Status.DISPATCHED, 1, "q:5"),
        (Status.DISPATCHED, 1, "q:0"),
    ]
    messages = [message for _, message in broker.pull(["q"], 10, 0).messages]
    assert {(m.task_id, m.attempt, m.task_code) for m in messages} == {(i, 1, "mail") for i in ids}
    (won,) = center.worker_desk("w:1:a").claim([m for m in messages if m.task_id == ids[0]]).won
    assert won.dispatched_at == rows[0].dispatched_at >= rows[0].created_at
    assert abs((won.claimed_at - won.dispatched_at).total_seconds()) < 60


@pytest.mark.usefixtures("impatient")
def test_a_task_is_never_dispatched_before_it_is_made(center: TaskCenter, short: ShortWay) -> None:
    """Not even by the half of a millisecond that a clock's text is rounded by."""
    ids = [task_id for _ in range(40) for task_id in short.write([new()]) or []]
    assert len(ids) == 40
    assert all(row.dispatched_at and row.created_at <= row.dispatched_at for row in center.read.tasks(ids))


def test_planned_delayed_and_keyed_tasks_go_the_long_way(center: TaskCenter, short: ShortWay) -> None:
    now = center.now()
    for other in (new(delay=5), new(plan_next_run_at=now), new(unique_key="k"), periodic(now)):
        assert short.write([new(), other]) is None
    assert sum(center.read.counts().values()) == 0


@pytest.mark.usefixtures("impatient")
def test_nothing_overtakes_what_waits_in_sql(center: TaskCenter, short: ShortWay) -> None:
    center.intake.insert([new()])
    assert short.write([new()]) is None
    assert short.write([new(priority=4)]) is not None, "another list has nothing that waits"
    assert dispatch(center).won
    assert short.write([new()]) is not None


@pytest.mark.usefixtures("impatient")
def test_a_failed_task_whose_time_has_come_is_not_overtaken_either(
    center: TaskCenter, short: ShortWay
) -> None:
    failing = center.intake.insert([new()])[0]
    center.database.write(
        lambda c: c.exec_driver_sql(f"UPDATE task_center SET status = 4 WHERE id = {failing}")
    )
    assert short.write([new()]) is None


def test_rule_05_a_producer_takes_an_eighth_of_the_room_between_two_looks(
    short: ShortWay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shortway, "LOOK_SECONDS", 3600.0)
    assert short.write([new()] * 11) is None
    assert short.write([new()] * 10) is not None
    assert short.write([new()]) is None


@pytest.mark.usefixtures("impatient")
def test_rule_05_a_full_list_or_a_full_queue_sends_them_to_sql(broker: Moody, short: ShortWay) -> None:
    broker.push({LIST: [Message(n) for n in range(1, 74)]})
    assert short.write([new()]) is None
    broker.push({ListName("q", 9): [Message(n) for n in range(100, 180)]})
    assert short.write([new(priority=1)]) is None


@pytest.mark.usefixtures("impatient")
def test_rule_04_a_refused_push_puts_the_rows_back_and_a_doubtful_one_leaves_them_to_recovery(
    center: TaskCenter, broker: Moody, short: ShortWay
) -> None:
    broker.answer = PushRefused("READONLY")
    refused = short.write([new(), new()])
    broker.answer = PushUnknown("cut")
    doubtful = short.write([new(priority=1)])
    assert refused is not None
    assert doubtful is not None
    assert {row.status for row in center.read.tasks(refused)} == {Status.PENDING}
    assert task(center, doubtful[0]).status is Status.DISPATCHED


def test_a_broker_that_is_away_costs_one_try_and_nothing_is_written(
    center: TaskCenter, broker: Moody, short: ShortWay
) -> None:
    broker.gone = True
    assert short.write([new()]) is None
    broker.gone = False
    assert short.write([new()]) is None, "left alone for a while"
    assert sum(center.read.counts().values()) == 0


def test_without_a_broker_all_go_the_long_way(center: TaskCenter) -> None:
    assert ShortWay(lambda: center, lambda: None, lambda: None, 80, 160).write([new()]) is None
