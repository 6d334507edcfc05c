"""Messages that were multiplied: dispatches without a cause, and bells rung again too early or with nothing lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from bench.chaos.case import Case, Finding
from bench.chaos.check_moves import DISPATCHED, FAILED, PENDING, RUNNING
from bench.chaos.evidence import Move

TOLERANCE = 0.5
PROOFS = 2
"""A suspect is as old as ``lost_after`` when its message is first missed, and twice as old when it counts as lost."""
BEFORE = 15.0
"""How long before a dispatch a fault may have begun to matter to its push."""

STALL_NEAR = 3.0
STALLS = {
    "sql restart", "sql kill", "sql freeze", "sql cut", "sql hold rows", "sql deadlock", "redis freeze",
    "redis restart", "redis cut",
}  # fmt: skip
"""Faults under which a message may be on its way, popped and not yet claimed, or come back from a snapshot."""

HARMLESS = {"kill child", "freeze child", "kill nursery"}
"""Faults that cannot cost a message."""


def multiplied(case: Case, explained: Counter[str]) -> Iterator[Finding]:
    """Dispatches beyond the first that no failure, hand-back, loss, put-back or proven loss of the message explains."""
    for task_id, moves in case.moves.items():
        attempts = Counter(move.attempt_new for move in moves if _dispatches(move))
        for attempt, times in attempts.items():
            if times > 1:
                yield Finding(task_id, f"attempt {attempt} was dispatched {times} times")
        for number, move in enumerate(moves):
            if move.old == DISPATCHED and move.new == PENDING:
                yield from _rung_again(case, moves, number, explained)
            elif move.old == RUNNING and move.new in {PENDING, FAILED}:
                _count_end(case, move, explained)


def missed_in_vain(case: Case, explained: Counter[str]) -> Iterator[Finding]:
    """Bells rung again for a message that was there: a worker received it afterwards. Only a stall excuses that."""
    rung = {
        (move.task, move.attempt_old): move.at
        for move in case.evidence.moves
        if (move.old, move.new) == (DISPATCHED, PENDING) and _is_lost(case, move)
    }
    for drop in case.evidence.drops:
        at = rung.get((drop.task, drop.attempt or 0))
        if at is None or at > drop.at:
            continue
        if _stalled(case, drop.pid, at):
            explained["doubled by a stall"] += 1
        else:
            text = (
                f"attempt {drop.attempt} was rung again, and {drop.at - at:.1f} s later its message arrived"
            )
            yield Finding(drop.task, f"{text} at worker {drop.pid}")


def _stalled(case: Case, pid: int, at: float) -> bool:
    """Something kept the worker, SQL or the broker from going on while the bell was rung again."""
    return any(
        fault.victim == pid or fault.kind in STALLS
        for fault in case.faults_in(at - STALL_NEAR, at + STALL_NEAR, {"freeze worker", *STALLS})
    )


def _is_lost(case: Case, move: Move) -> bool:
    run = case.runs.get((move.task, move.attempt_old))
    return run is not None and run.outcome in {"lost", "superseded"}


def _count_end(case: Case, move: Move, explained: Counter[str]) -> None:
    """An attempt that ended and lets another follow; that each end has its run row is checked with the moves."""
    run = case.runs.get((move.task, move.attempt_old))
    if run is not None and run.outcome != "success":
        explained[run.outcome] += 1


def _dispatches(move: Move) -> bool:
    return move.new == DISPATCHED and move.old != DISPATCHED


def _rung_again(case: Case, moves: Sequence[Move], number: int, explained: Counter[str]) -> Iterator[Finding]:
    """A dispatched row that became pending again: put back after a refusal, or, with a run row, proven lost."""
    back = moves[number]
    dispatched = next((move for move in reversed(moves[:number]) if _dispatches(move)), back)
    age = back.at - dispatched.at
    kinds = {fault.kind for fault in case.faults_in(dispatched.at - BEFORE, back.at)}
    proven = _is_lost(case, back)
    cause, wanted = ("rung again", kinds - HARMLESS) if proven else ("put back", _of_broker(kinds))
    if proven and age < PROOFS * case.evidence.lost_after - TOLERANCE:
        yield Finding(back.task, f"attempt {back.attempt_old} was rung again after only {age:.1f} s")
    elif not wanted:
        yield Finding(
            back.task, f"attempt {back.attempt_old} was {cause} after {age:.1f} s with no fault near"
        )
    else:
        explained[cause] += 1


def _of_broker(kinds: set[str]) -> set[str]:
    return {kind for kind in kinds if kind.startswith("redis")}
