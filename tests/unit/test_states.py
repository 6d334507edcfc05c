"""The life of a task: which moves exist, what follows an attempt's end, how long a failed task waits."""

from __future__ import annotations

import random

import pytest

from taskkit.errors import IllegalMove
from taskkit.states import (
    DEFAULT_RETRY,
    ENDED,
    LIVE,
    MOVES,
    Move,
    Outcome,
    RetryPolicy,
    Status,
    Verdict,
    check,
    judge,
    judge_loss,
    sources,
    target,
)

LEGAL = {
    "dispatch": ({0, 4}, 1),
    "put_back": ({1}, 0),
    "ring_again": ({1}, 0),
    "back_off_over": ({4}, 0),
    "claim": ({1}, 2),
    "succeed": ({2}, 3),
    "fail": ({2}, 4),
    "exhaust": ({2}, 5),
    "next_occurrence": ({2}, 0),
    "hand_back": ({2}, 0),
    "lose": ({2}, 0),
    "honour_cancel": ({2}, 6),
    "expire": ({0, 1, 4}, 6),
    "hold": ({0, 1}, 7),
    "release": ({7}, 0),
    "cancel": ({0, 1, 4, 5, 7}, 6),
    "run_now": ({0, 3, 4}, 0),
    "retry": ({5, 6}, 0),
    "give_up": ({4}, 5),
}
STEPS = {
    0: {0, 1, 6, 7},
    1: {0, 2, 6, 7},
    2: {0, 3, 4, 5, 6},
    3: {0},
    4: {0, 1, 5, 6},
    5: {0, 6},
    6: {0},
    7: {0, 6},
}


def test_the_moves_are_those_of_the_core_rules() -> None:
    assert {m.value: ({int(s) for s in sources(m)}, int(target(m))) for m in Move} == LEGAL


def test_no_status_can_be_left_otherwise_than_the_core_rules_say() -> None:
    steps: dict[int, set[int]] = {int(status): set() for status in Status}
    for froms, to in MOVES.values():
        for status in froms:
            steps[status].add(int(to))
    assert steps == STEPS


SAID = {"hold": "pause", "release": "resume"}
"""Moves as the command line calls them."""


@pytest.mark.parametrize("move", list(Move))
def test_a_move_leads_where_it_should_or_raises_with_the_story_of_the_task(move: Move) -> None:
    froms, to = LEGAL[move.value]
    for status in Status:
        if status in froms:
            assert check(move, status, "task 7 (mail)") == to
            continue
        with pytest.raises(IllegalMove) as raised:
            check(move, status, "task 7 (mail)")
        told = str(raised.value)
        assert told.startswith(
            f"task 7 (mail): cannot {SAID.get(move.value, move.value.replace('_', ' '))} a task that is "
        )
        assert status.label in told
        assert all(Status(s).label in told for s in froms)


def test_a_key_is_taken_in_every_status_in_which_something_still_happens() -> None:
    assert {int(s) for s in LIVE} == {0, 1, 2, 4, 7}
    assert {int(s) for s in ENDED} == {3, 5, 6}


S, F, T, L = Outcome.SUCCESS, Outcome.FAILED, Outcome.TIMEOUT, Outcome.LOST
C, H, G = Outcome.CANCELLED, Outcome.HANDED_BACK, Outcome.GIVEN_UP


@pytest.mark.parametrize(
    ("outcome", "periodic", "count", "most", "move", "next_count"),
    [
        (S, False, 0, 3, Move.SUCCEED, 0),
        (S, False, 2, 3, Move.SUCCEED, 2),
        (S, True, 2, 3, Move.NEXT_OCCURRENCE, 0),
        (F, False, 0, 3, Move.FAIL, 1),
        (F, False, 2, 3, Move.FAIL, 3),
        (F, False, 3, 3, Move.EXHAUST, 3),
        (F, False, 4, 3, Move.EXHAUST, 4),
        (F, False, 0, 0, Move.EXHAUST, 0),
        (F, False, 254, 255, Move.FAIL, 255),
        (F, False, 255, 255, Move.EXHAUST, 255),
        (F, True, 2, 3, Move.FAIL, 3),
        (F, True, 3, 3, Move.NEXT_OCCURRENCE, 0),
        (T, False, 0, 3, Move.FAIL, 1),
        (T, False, 3, 3, Move.EXHAUST, 3),
        (G, False, 0, 3, Move.EXHAUST, 0),
        (G, True, 1, 3, Move.NEXT_OCCURRENCE, 0),
        (H, False, 2, 3, Move.HAND_BACK, 2),
        (H, True, 3, 3, Move.HAND_BACK, 3),
        (C, False, 1, 3, Move.HONOUR_CANCEL, 1),
        (C, True, 1, 3, Move.HONOUR_CANCEL, 1),
    ],
)
def test_what_follows_an_attempt(
    outcome: Outcome, periodic: bool, count: int, most: int, move: Move, next_count: int
) -> None:
    verdict = judge(
        outcome,
        periodic=periodic,
        retry_count=count,
        max_retry=most,
        policy=RetryPolicy(jitter=0),
        rng=random.Random(1),
    )
    assert (verdict.move, verdict.retry_count) == (move, next_count)
    assert (verdict.delay is not None) == (move is Move.FAIL)


@pytest.mark.parametrize(
    ("losses", "most", "periodic", "move", "waits"),
    [
        (1, 3, False, Move.LOSE, False),
        (2, 3, False, Move.LOSE, True),
        (6, 3, False, Move.LOSE, True),
        (7, 3, False, Move.EXHAUST, False),
        (7, 3, True, Move.NEXT_OCCURRENCE, False),
        (1, 0, False, Move.EXHAUST, False),
        (1, 0, True, Move.NEXT_OCCURRENCE, False),
        (4, 1, False, Move.LOSE, True),
        (5, 1, False, Move.EXHAUST, False),
    ],
)
def test_rule_19_what_follows_a_loss(losses: int, most: int, periodic: bool, move: Move, waits: bool) -> None:
    verdict = judge_loss(
        periodic=periodic,
        retry_count=1,
        max_retry=most,
        lost_count=losses,
        policy=DEFAULT_RETRY,
        rng=random.Random(1),
    )
    assert (verdict.move, verdict.delay is not None) == (move, waits)
    assert verdict.retry_count == (0 if move is Move.NEXT_OCCURRENCE else 1)


def test_a_loss_is_not_judged_as_an_end_of_the_handlers() -> None:
    with pytest.raises(ValueError, match="judge_loss"):
        judge(L, periodic=False, retry_count=0, max_retry=3, policy=DEFAULT_RETRY, rng=random.Random(1))


@pytest.mark.parametrize("outcome", [outcome for outcome in Outcome if outcome is not L])
def test_a_periodic_task_never_ends_in_success_or_given_up(outcome: Outcome) -> None:
    for count in range(5):
        verdict = judge(
            outcome,
            periodic=True,
            retry_count=count,
            max_retry=3,
            policy=DEFAULT_RETRY,
            rng=random.Random(1),
        )
        assert target(verdict.move) not in {Status.SUCCESS, Status.GIVEN_UP}


def run_until_given_up(most: int, policy: RetryPolicy) -> tuple[list[float], Verdict]:
    """The starts of a task that always fails at once, and the last verdict."""
    at, starts, rng = 0.0, [0.0], random.Random(7)
    verdict = Verdict(Move.FAIL, 0)
    while True:
        verdict = judge(
            F, periodic=False, retry_count=verdict.retry_count, max_retry=most, policy=policy, rng=rng
        )
        if verdict.move is not Move.FAIL:
            return starts, verdict
        assert verdict.delay is not None
        at += verdict.delay
        starts.append(at)


@pytest.mark.parametrize(
    ("most", "starts"),
    [(0, [0]), (1, [0, 5]), (3, [0, 5, 35, 155]), (5, [0, 5, 35, 155, 275, 395])],
)
def test_a_task_that_always_fails_starts_after_5_30_and_120_seconds(most: int, starts: list[float]) -> None:
    """The last delay repeats; 3 retries are 4 starts and a retry_count of 3."""
    found, verdict = run_until_given_up(most, RetryPolicy(jitter=0))
    assert (found, verdict.move, verdict.retry_count) == (starts, Move.EXHAUST, most)


def test_255_retries_do_not_overflow_the_counter() -> None:
    starts, verdict = run_until_given_up(255, DEFAULT_RETRY)
    assert (len(starts), verdict.retry_count) == (256, 255)


@pytest.mark.parametrize("retry", [1, 2, 3, 4, 255])
def test_jitter_only_lengthens_a_delay_and_by_a_tenth_at_most(retry: int) -> None:
    base = (5, 30, 120)[min(retry, 3) - 1]
    rng = random.Random(3)
    delays = [DEFAULT_RETRY.delay(retry, rng) for _ in range(500)]
    assert base <= min(delays) < max(delays) <= base * 1.1
    assert max(delays) - min(delays) > base * 0.08


def test_what_the_handler_asks_for_replaces_the_delay_and_counts_as_a_retry() -> None:
    policy, rng = DEFAULT_RETRY, random.Random(1)
    asked = {"periodic": False, "max_retry": 3, "policy": policy, "rng": rng, "asked_delay": 3600.0}
    assert judge(F, retry_count=0, **asked) == Verdict(Move.FAIL, 1, 3600.0)  # type: ignore[arg-type]
    assert judge(F, retry_count=3, **asked).move is Move.EXHAUST  # type: ignore[arg-type]
