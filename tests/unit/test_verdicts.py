"""What follows the end of an attempt: the arithmetic of retries, and the words for deaths."""

from __future__ import annotations

import random
import signal
from datetime import UTC, datetime
from typing import Any

import pytest

from taskkit.model import Claimed
from taskkit.states import Move, Outcome, TaskType
from taskkit.worker.frames import HandlerInfo
from taskkit.worker.verdicts import Judge, death

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HANDLERS = {
    "plain": HandlerInfo("plain", "sync", None, None, 0.0),
    "quick": HandlerInfo("quick", "sync", None, (0.5, 2.0), 0.0),
    "jittery": HandlerInfo("jittery", "sync", None, None, 0.5),
}


def claimed(code: str = "plain", **fields: Any) -> Claimed:
    usual: dict[str, Any] = {
        "id": 1,
        "task_code": code,
        "attempt": 1,
        "queue": code,
        "payload": "{}",
        "task_type": TaskType.ONE_OFF,
        "timeout": 300,
        "max_retry": 3,
        "retry_count": 0,
        "retry_delays": None,
        "dispatched_at": NOW,
        "claimed_at": NOW,
        "occurrence_at": None,
        "cron_expr": None,
        "timezone": None,
        "misfire": "once",
        "dst_gap": "after",
        "dst_overlap": "first",
        "trace_id": "t",
    }
    return Claimed(**usual | fields)


def retries(
    judge: Judge, code: str = "plain", outcome: Outcome = Outcome.FAILED, **fields: Any
) -> list[float]:
    """The delays before the retries of a task that fails whenever it runs."""
    delays: list[float] = []
    count = 0
    while True:
        end = judge.finish(claimed(code, retry_count=count, **fields), outcome)
        count = end.retry_count
        if end.move is not Move.FAIL:
            assert end.move is Move.EXHAUST
            return delays
        delays.append(end.delay)


@pytest.mark.parametrize(
    ("code", "fields", "expected"),
    [
        ("plain", {}, [5, 30, 120]),
        ("plain", {"max_retry": 0}, []),
        ("plain", {"max_retry": 1}, [5]),
        ("plain", {"max_retry": 5}, [5, 30, 120, 120, 120]),
        ("quick", {}, [0.5, 2, 2]),
        ("quick", {"retry_delays": "7,8"}, [7, 8, 8]),
        ("quick", {"retry_delays": "by hand, wrong"}, [0.5, 2, 2]),
        ("plain", {"retry_delays": "by hand, wrong"}, [5, 30, 120]),
        ("unheard of", {}, [5, 30, 120]),
    ],
)
def test_a_task_that_always_fails_is_retried_after_5_30_and_120_s(
    code: str, fields: dict[str, Any], expected: list[float]
) -> None:
    delays = retries(Judge(HANDLERS), code, **fields)
    assert len(delays) == len(expected)
    for delay, wanted in zip(delays, expected, strict=True):
        assert wanted <= delay <= wanted * 1.1


@pytest.mark.parametrize("most", [127, 128, 255])
def test_the_counter_holds_the_most_retries_there_are(most: int) -> None:
    assert len(retries(Judge(HANDLERS), max_retry=most)) == most


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.TIMEOUT])
def test_every_bad_end_counts_alike(outcome: Outcome) -> None:
    assert retries(Judge(HANDLERS), outcome=outcome) == [5, 30, 120]


def test_rule_19_a_loss_counts_apart_from_retries() -> None:
    judge = Judge(HANDLERS)
    ends = [judge.finish(claimed(lost_count=n, max_retry=1), Outcome.LOST) for n in range(5)]
    assert [end.move for end in ends] == [Move.LOSE] * 4 + [Move.EXHAUST]
    assert [end.delay is None for end in ends[:2]] == [True, False]
    assert [end.suspect for end in ends] == [False, True, True, True, True]
    assert {end.retry_count for end in ends} == {0}


def test_jitter_only_lengthens_and_differs() -> None:
    judge = Judge(HANDLERS, random.Random(1))
    delays = {judge.finish(claimed("jittery"), Outcome.FAILED).delay for _ in range(50)}
    assert len(delays) == 50
    assert all(5 <= delay <= 7.5 for delay in delays)


@pytest.mark.parametrize(
    ("outcome", "periodic", "move", "count"),
    [
        (Outcome.SUCCESS, False, Move.SUCCEED, 2),
        (Outcome.SUCCESS, True, Move.NEXT_OCCURRENCE, 0),
        (Outcome.FAILED, False, Move.FAIL, 3),
        (Outcome.FAILED, True, Move.FAIL, 3),
        (Outcome.GIVEN_UP, False, Move.EXHAUST, 2),
        (Outcome.GIVEN_UP, True, Move.NEXT_OCCURRENCE, 0),
        (Outcome.HANDED_BACK, False, Move.HAND_BACK, 2),
        (Outcome.HANDED_BACK, True, Move.HAND_BACK, 2),
        (Outcome.CANCELLED, False, Move.HONOUR_CANCEL, 2),
        (Outcome.CANCELLED, True, Move.HONOUR_CANCEL, 2),
    ],
)
def test_what_follows_an_end(outcome: Outcome, periodic: bool, move: Move, count: int) -> None:
    kind = TaskType.PERIODIC if periodic else TaskType.ONE_OFF
    end = Judge(HANDLERS).finish(claimed(retry_count=2, task_type=kind), outcome)
    assert (end.move, end.retry_count) == (move, count)


def test_a_periodic_task_out_of_retries_goes_on_with_its_schedule() -> None:
    end = Judge(HANDLERS).finish(claimed(retry_count=3, task_type=TaskType.PERIODIC), Outcome.FAILED)
    assert (end.move, end.retry_count) == (Move.NEXT_OCCURRENCE, 0)


def test_what_the_handler_asks_for_replaces_the_delay_and_not_the_count() -> None:
    end = Judge(HANDLERS).finish(claimed(), Outcome.FAILED, delay=77.0)
    assert (end.move, end.delay, end.retry_count) == (Move.FAIL, 77.0, 1)
    last = Judge(HANDLERS).finish(claimed(retry_count=3), Outcome.FAILED, delay=77.0)
    assert last.move is Move.EXHAUST


def test_deaths_are_told_in_words() -> None:
    assert death(0) == "the child process exited with code 0 before the handler had returned"
    assert death(-signal.SIGSEGV) == "the child process was killed by signal 11 (SIGSEGV)"
    assert "out-of-memory killer" in death(-signal.SIGKILL)
    assert "signal 63" in death(-63)


def test_rule_19_what_is_handed_back_unstarted_stays_suspect() -> None:
    back = Judge(HANDLERS).finish(claimed(lost_count=2, suspect=True), Outcome.HANDED_BACK)
    assert back.suspect
    assert not Judge(HANDLERS).finish(claimed(suspect=True), Outcome.SUCCESS).suspect
