"""The life of a task: its statuses, the moves between them, and what follows an attempt's end."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import IntEnum, StrEnum

from taskkit.errors import IllegalMove


class Status(IntEnum):
    """What ``task_center.status`` holds."""

    PENDING = 0
    DISPATCHED = 1
    RUNNING = 2
    SUCCESS = 3
    FAILED = 4
    GIVEN_UP = 5
    CANCELLED = 6
    HELD = 7

    @property
    def label(self) -> str:
        """The status as people read it: ``given_up``."""
        return self.name.lower()


class TaskType(IntEnum):
    """What ``task_center.task_type`` holds."""

    ONE_OFF = 0
    PERIODIC = 1
    TIMED = 2


class Outcome(StrEnum):
    """How an attempt ended: ``task_run.outcome``."""

    SUCCESS = "success"
    FAILED = "failed"
    TIMEOUT = "timeout"
    LOST = "lost"
    SUPERSEDED = "superseded"
    CANCELLED = "cancelled"
    HANDED_BACK = "handed_back"
    GIVEN_UP = "given_up"


class OccurrenceState(StrEnum):
    """What became of a planned fire time: ``task_occurrence.state``."""

    PLANNED = "planned"
    FIRED = "fired"
    SKIPPED = "skipped"
    MISSED = "missed"


class Move(StrEnum):
    """Every way in which a task's status may change; :data:`MOVES` says from where to where."""

    DISPATCH = "dispatch"
    PUT_BACK = "put_back"
    CLAIM = "claim"
    SUCCEED = "succeed"
    FAIL = "fail"
    EXHAUST = "exhaust"
    NEXT_OCCURRENCE = "next_occurrence"
    HAND_BACK = "hand_back"
    LOSE = "lose"
    RING_AGAIN = "ring_again"
    BACK_OFF_OVER = "back_off_over"
    HOLD = "hold"
    RELEASE = "release"
    EXPIRE = "expire"
    CANCEL = "cancel"
    HONOUR_CANCEL = "honour_cancel"
    RUN_NOW = "run_now"
    RETRY = "retry"
    GIVE_UP = "give_up"


_S = Status
MOVES: dict[Move, tuple[frozenset[Status], Status]] = {
    # the machine's
    Move.DISPATCH: (frozenset({_S.PENDING, _S.FAILED}), _S.DISPATCHED),
    Move.PUT_BACK: (frozenset({_S.DISPATCHED}), _S.PENDING),
    Move.RING_AGAIN: (frozenset({_S.DISPATCHED}), _S.PENDING),
    Move.BACK_OFF_OVER: (frozenset({_S.FAILED}), _S.PENDING),
    Move.CLAIM: (frozenset({_S.DISPATCHED}), _S.RUNNING),
    Move.SUCCEED: (frozenset({_S.RUNNING}), _S.SUCCESS),
    Move.FAIL: (frozenset({_S.RUNNING}), _S.FAILED),
    Move.EXHAUST: (frozenset({_S.RUNNING}), _S.GIVEN_UP),
    Move.NEXT_OCCURRENCE: (frozenset({_S.RUNNING}), _S.PENDING),
    Move.HAND_BACK: (frozenset({_S.RUNNING}), _S.PENDING),
    Move.LOSE: (frozenset({_S.RUNNING}), _S.PENDING),
    Move.HONOUR_CANCEL: (frozenset({_S.RUNNING}), _S.CANCELLED),
    Move.EXPIRE: (frozenset({_S.PENDING, _S.DISPATCHED, _S.FAILED}), _S.CANCELLED),
    # the machine's and persons'
    Move.HOLD: (frozenset({_S.PENDING, _S.DISPATCHED}), _S.HELD),
    Move.RELEASE: (frozenset({_S.HELD}), _S.PENDING),
    # persons'
    Move.CANCEL: (frozenset({_S.PENDING, _S.DISPATCHED, _S.FAILED, _S.GIVEN_UP, _S.HELD}), _S.CANCELLED),
    Move.RUN_NOW: (frozenset({_S.PENDING, _S.SUCCESS, _S.FAILED}), _S.PENDING),
    Move.RETRY: (frozenset({_S.GIVEN_UP, _S.CANCELLED}), _S.PENDING),
    Move.GIVE_UP: (frozenset({_S.FAILED}), _S.GIVEN_UP),
}

LIVE = frozenset({_S.PENDING, _S.DISPATCHED, _S.RUNNING, _S.FAILED, _S.HELD})
"""Statuses in which a task's ``unique_key`` is taken."""

ENDED = frozenset({_S.SUCCESS, _S.GIVEN_UP, _S.CANCELLED})
"""Statuses in which nothing happens to a task unless a person asks for it."""


def sources(move: Move) -> frozenset[Status]:
    """The statuses from which ``move`` exists."""
    return MOVES[move][0]


def target(move: Move) -> Status:
    """The status to which ``move`` leads."""
    return MOVES[move][1]


WORDS = {Move.HOLD: "pause", Move.RELEASE: "resume", Move.GIVE_UP: "give up", Move.RUN_NOW: "run now"}
"""Moves as persons know them, where that is another word."""


def word(move: Move) -> str:
    """A move as a sentence says it: ``pause`` for a hold."""
    return WORDS.get(move, move.value.replace("_", " "))


def check(move: Move, status: int, story: str) -> Status:
    """Return where ``move`` leads from ``status``, or raise IllegalMove telling the task's ``story``."""
    allowed, to = MOVES[move]
    if status not in allowed:
        names = ", ".join(sorted(s.label for s in allowed))
        raise IllegalMove(
            f"{story}: cannot {word(move)} a task that is {Status(status).label}; "
            f"that needs one that is {names}"
        )
    return to


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How long a failed task waits: ``delays`` in seconds (the last one repeats), plus up to ``jitter`` of it."""

    delays: tuple[float, ...] = (5.0, 30.0, 120.0)
    jitter: float = 0.1

    def delay(self, retry: int, rng: random.Random) -> float:
        """Seconds before retry number ``retry`` (1 is the first); never shorter than the stated delay."""
        base = self.delays[min(retry, len(self.delays)) - 1]
        return base * (1 + self.jitter * rng.random())


DEFAULT_RETRY = RetryPolicy()


def own_delays(text: str | None) -> tuple[float, ...] | None:
    """The seconds of a task's column ``retry_delays``; None when it says nothing, or nothing that can be read."""
    try:
        return tuple(float(one) for one in text.split(",")) if text else None
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What follows an attempt's end: the move, the new retry count, and the back-off in seconds.

    ``delay`` None lets the task keep its time, so that it goes on at once.
    """

    move: Move
    retry_count: int
    delay: float | None = None


def judge(
    outcome: Outcome,
    *,
    periodic: bool,
    retry_count: int,
    max_retry: int,
    policy: RetryPolicy,
    rng: random.Random,
    asked_delay: float | None = None,
) -> Verdict:
    """Decide what follows an attempt that ended with ``outcome``; LOST is for :func:`judge_loss`.

    ``asked_delay`` is what the handler asked for (RetryLater); it replaces the policy's delay but not the
    count of retries. An outcome of GIVEN_UP means "never retry".
    """
    if outcome is Outcome.LOST:
        raise ValueError("a loss is judged by judge_loss, which counts losses and not retries")
    end = Move.NEXT_OCCURRENCE if periodic else None
    if outcome is Outcome.SUCCESS:
        return Verdict(end or Move.SUCCEED, 0 if periodic else retry_count)
    if outcome is Outcome.HANDED_BACK:
        return Verdict(Move.HAND_BACK, retry_count)
    if outcome is Outcome.CANCELLED:
        return Verdict(Move.HONOUR_CANCEL, retry_count)
    if outcome is Outcome.GIVEN_UP or retry_count >= max_retry:
        return Verdict(end or Move.EXHAUST, 0 if periodic else retry_count)
    delay = policy.delay(retry_count + 1, rng) if asked_delay is None else asked_delay
    return Verdict(Move.FAIL, retry_count + 1, delay)


LOSSES_BEYOND_RETRIES = 3
"""How many losses with their workers a task may have beyond its ``max_retry``."""


def judge_loss(
    *,
    periodic: bool,
    retry_count: int,
    max_retry: int,
    lost_count: int,
    policy: RetryPolicy,
    rng: random.Random,
) -> Verdict:
    """Decide what follows when an attempt that may have started was lost with its worker; ``lost_count`` is with it.

    The first loss starts again at once, since the worker is to blame more often than the task; from the second on
    with back-off. Who allows no retry wants no second start. Losses count apart from retries.
    """
    if max_retry == 0 or lost_count > max_retry + LOSSES_BEYOND_RETRIES:
        return Verdict(Move.NEXT_OCCURRENCE if periodic else Move.EXHAUST, 0 if periodic else retry_count)
    delay = None if lost_count == 1 else policy.delay(lost_count - 1, rng)
    return Verdict(Move.LOSE, retry_count, delay)
