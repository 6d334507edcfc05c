"""The writer: ends are held while SQL is away, and one that no database takes harms nobody but itself."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pytest
from sqlalchemy.exc import IntegrityError

from taskkit.errors import DatabaseUnavailable, InputError, StoreError
from taskkit.model import Finish, NewTask
from taskkit.states import Move, Outcome
from taskkit.worker import writer as module
from taskkit.worker.enqueues import EnqueueRequest
from taskkit.worker.frames import EnqueueAnswer
from taskkit.worker.progress import ProgressReport
from taskkit.worker.tally import Tally
from taskkit.worker.writer import ENOUGH, Writer
from tests.unit.test_verdicts import claimed
from tests.waiting import wait_until


class Desk:
    """Stands for SQL: takes ends, but for those that are poison, and nothing while it is away."""

    def __init__(self) -> None:
        self.taken: list[Finish] = []
        self.calls = 0
        self.away = self.given_back = 0
        self.gives_back = False
        self.batches: list[int] = []
        self.poison: dict[str, Exception] = {}

    def finish(self, ends: Sequence[Finish]) -> list[Finish]:
        self.calls += 1
        if self.calls <= self.away:
            raise DatabaseUnavailable("away")
        for end in ends:
            for word in (end.result, end.error):
                if word in self.poison:
                    raise self.poison[word]
        self.taken += ends
        self.batches.append(len(ends))
        self.given_back += self.gives_back
        return []

    def progress(self, *_: object) -> None:
        raise self.poison.get("progress", StoreError("away"))

    def insert(self, tasks: Sequence[NewTask]) -> list[int]:
        raise self.poison.get(tasks[0].task_code, InputError("at", "is too late"))


def end(task_id: int, **fields: Any) -> Finish:
    return Finish(claimed(id=task_id), Outcome.SUCCESS, Move.SUCCEED, 0, **fields)


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
def writer(desk: Desk) -> Writer:
    class Center:
        intake = desk

    return Writer(Center(), desk, lambda _: None, Tally())  # type: ignore[arg-type]


def write(writer: Writer, *items: Any) -> None:
    for item in items:
        writer.put(item)
    writer.start()
    assert writer.finish(10)


def test_ends_wait_until_sql_is_back(writer: Writer, desk: Desk) -> None:
    desk.away = 2
    write(writer, end(1), end(2))
    assert [one.task.id for one in desk.taken] == [1, 2]
    assert desk.calls == 3


@pytest.fixture
def patient(writer: Writer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Writer]:
    """A writer that begins a commit a minute, and has begun one."""
    monkeypatch.setattr(module, "PACE_SECONDS", 60)
    writer.put(end(0))
    writer.start()
    yield writer
    assert writer.finish(20)


def test_an_end_after_a_pause_is_written_at_once(patient: Writer, desk: Desk) -> None:
    wait_until(lambda: desk.batches, 20)
    assert desk.batches == [1]


def test_in_a_flow_ends_are_written_together_as_soon_as_they_are_enough(patient: Writer, desk: Desk) -> None:
    wait_until(lambda: desk.batches == [1], 20)
    numbers = itertools.count(1)

    def more() -> bool:
        for _ in range(8):
            patient.put(end(next(numbers)))
        return len(desk.batches) > 1

    wait_until(more, 20)
    assert desk.batches[1] >= ENOUGH


def test_an_end_that_makes_way_for_another_task_is_not_kept_waiting(
    writer: Writer, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PACE_SECONDS", 60)
    desk.gives_back = True
    writer.start()
    for number in range(3):
        writer.put(end(number))
        wait_until(lambda n=number: sum(desk.batches) > n, 20)
    assert writer.finish(20)
    assert desk.batches == [1, 1, 1]


@pytest.mark.parametrize(
    "error",
    [StoreError("Data too long"), IntegrityError("INSERT", {}, Exception("taken")), InputError("text", "is none"), ValueError("?")],
    ids=["store", "integrity", "input", "any"],
)  # fmt: skip
def test_an_end_that_no_database_takes_is_written_without_its_words(
    writer: Writer, desk: Desk, error: Exception
) -> None:
    desk.poison["bad"] = error
    write(
        writer,
        end(1),
        end(2, result="bad"),
        end(3, result="7", last_result="7"),
        ProgressReport(1, 1, 0.5, "x"),
    )
    by_id = {one.task.id: one for one in desk.taken}
    assert sorted(by_id) == [1, 2, 3]
    assert by_id[2].result is None
    assert f"could not be written: {type(error).__name__}" in (by_id[2].last_result or "")
    assert by_id[2].outcome is Outcome.SUCCESS
    assert by_id[3].result == "7"


def test_an_end_that_cannot_be_written_at_all_is_left_to_recovery(
    writer: Writer, desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    class Always(dict[str, Exception]):
        def __contains__(self, key: object) -> bool:
            return True

        def __missing__(self, key: object) -> Exception:
            return ValueError("whatever")

    desk.poison = Always()
    write(writer, end(1))
    assert desk.taken == []
    assert "this end cannot be written, and its row stays in status 2" in caplog.text
    assert "whatever" in caplog.text
    assert writer.unwritten == {(1, 1)}, "this worker has it still: it must not hand it back and run it again"


def test_a_handlers_enqueue_is_always_answered(writer: Writer, desk: Desk) -> None:
    desk.poison["odd"] = RuntimeError("unforeseen")
    desk.poison["progress"] = InputError("text", "is none")
    answers: list[EnqueueAnswer] = []
    requests = [
        EnqueueRequest([msgspec.msgpack.encode(NewTask(code, "{}", "q"))], answers.append)
        for code in ("x", "odd")
    ]
    garbage = EnqueueRequest([b"\xff"], answers.append)
    write(writer, *requests, garbage, ProgressReport(1, 1, 0.5, "x"), end(7))
    assert [answer.error and answer.error[:2] for answer in answers] == [
        ("InputError", "at"), ("StoreError", ""), ("StoreError", ""),
    ]  # fmt: skip
    assert [one.task.id for one in desk.taken] == [7]


def test_it_ends_when_told_to(writer: Writer) -> None:
    writer.start()
    assert writer.finish(5)
    assert "writer" not in {thread.name for thread in threading.enumerate()}
