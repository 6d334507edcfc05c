"""Tasks that were lost, and transitions that the rules do not know. The table is written from core.md, not from the code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from bench.chaos.case import ENDED, PERIODIC, Case, Finding
from bench.chaos.evidence import Move, Task

NAMES = ("pending", "dispatched", "running", "success", "failed", "given up", "cancelled", "held")
PENDING, DISPATCHED, RUNNING, SUCCESS, FAILED, GIVEN_UP, CANCELLED, HELD = range(8)

MACHINE = {
    (PENDING, DISPATCHED), (PENDING, HELD),
    (DISPATCHED, RUNNING), (DISPATCHED, PENDING), (DISPATCHED, HELD),
    (RUNNING, SUCCESS), (RUNNING, FAILED), (RUNNING, GIVEN_UP), (RUNNING, PENDING),
    (FAILED, DISPATCHED),
}  # fmt: skip
"""What schedulers and workers may do."""

PERSONS = {
    (PENDING, CANCELLED), (DISPATCHED, CANCELLED), (RUNNING, CANCELLED), (SUCCESS, PENDING), (FAILED, PENDING),
    (FAILED, GIVEN_UP), (FAILED, CANCELLED), (GIVEN_UP, PENDING), (GIVEN_UP, CANCELLED), (CANCELLED, PENDING),
    (HELD, PENDING), (HELD, CANCELLED),
}  # fmt: skip
"""What needs a person, whose action is on record."""

BEGINNINGS = {(PENDING, 0), (DISPATCHED, 1)}
"""How a row may come into being, with its attempt: waiting, or dispatched at once by its producer."""

NEVER_FOR_PERIODIC = {SUCCESS, GIVEN_UP}


def lost(case: Case) -> Iterator[Finding]:
    """Accepted tasks without a row, tasks that did not end, and successes without an effect."""
    for task_id in sorted(set(case.evidence.accepted) - set(case.tasks)):
        yield Finding(task_id, "was accepted and has no row")
    for task in case.tasks.values():
        if task.type == PERIODIC:
            continue
        if task.status not in ENDED:
            yield Finding(task.id, f"is still {NAMES[task.status]} at the end: {task.note}")
        elif task.status == SUCCESS and not _took_effect(case, task):
            yield Finding(task.id, "is a success, and no effect of it was ever completed")


def _took_effect(case: Case, task: Task) -> bool:
    return any(effect.how == "ok" for effect in case.effects.get(task.id, []))


def illegal(case: Case) -> Iterator[Finding]:
    """Transitions that the table does not have, and attempts and workers that changed when they must not."""
    acted = set(case.evidence.acted)
    for task_id, moves in case.moves.items():
        task = case.tasks.get(task_id)
        periodic = task is not None and task.type == PERIODIC
        for move in moves:
            wrong = _wrong(move, task_id in acted, periodic)
            if wrong:
                yield Finding(task_id, f"{_told(move)}: {wrong}")
        yield from _ends(case, moves)


def gaps(case: Case) -> Iterator[Finding]:
    """Places where the audit does not continue where it stood: something changed a row behind its back."""
    for task_id, moves in case.moves.items():
        for before, after in pairwise(moves):
            if (before.new, before.attempt_new) != (after.old, after.attempt_old):
                yield Finding(task_id, f"{_told(before)}, and then {_told(after)}")
        task = case.tasks.get(task_id)
        if task is not None and moves[-1].new is not None and task.status != moves[-1].new:
            yield Finding(task_id, f"{_told(moves[-1])}, and the row says {NAMES[task.status]}")
    if case.evidence.dropped > len(case.evidence.drops):
        text = (
            f"{case.evidence.dropped} messages were dropped and the logs tell of {len(case.evidence.drops)}"
        )
        yield Finding(0, text)


def _told(move: Move) -> str:
    def name(status: int | None) -> str:
        return "nothing" if status is None else NAMES[status]

    return f"{name(move.old)} → {name(move.new)}, attempt {move.attempt_old} → {move.attempt_new}"


def _wrong(move: Move, acted: bool, periodic: bool) -> str:
    """What is wrong with a move; empty when nothing is."""
    if move.old is None:
        begun = (move.new, move.attempt_new)
        return (
            "" if begun in BEGINNINGS else "a task begins pending, at attempt 0, or dispatched, at attempt 1"
        )
    if move.new is None:
        return "the row was deleted"
    if move.old == move.new:
        return _wrong_in_place(move)
    if (move.old, move.new) not in MACHINE and not (acted and (move.old, move.new) in PERSONS):
        return "there is no such move" + (" without a person" if (move.old, move.new) in PERSONS else "")
    if periodic and move.new in NEVER_FOR_PERIODIC:
        return "a periodic task never ends so"
    return _wrong_numbers(move)


def _wrong_in_place(move: Move) -> str:
    if move.attempt_old != move.attempt_new:
        return "the attempt changed without a dispatch"
    if move.old == RUNNING and move.worker_old != move.worker_new:
        return f"the worker changed while the task ran: {move.worker_old} → {move.worker_new}"
    return ""


def _wrong_numbers(move: Move) -> str:
    grown = move.attempt_new - move.attempt_old
    if grown != (1 if move.new == DISPATCHED else 0):
        return f"the attempt changed by {grown}"
    if move.new == RUNNING and not move.worker_new:
        return "running without a worker"
    return ""


def _ends(case: Case, moves: Sequence[Move]) -> Iterator[Finding]:
    """Ends that were written for an attempt by anybody but the worker that had claimed it, or without a run row."""
    for move in moves:
        if move.old != RUNNING or move.new in {RUNNING, None}:
            continue
        run = case.runs.get((move.task, move.attempt_old))
        if run is None:
            yield Finding(move.task, f"{_told(move)}: there is no run row of attempt {move.attempt_old}")
        elif run.worker and run.worker != move.worker_old:
            yield Finding(move.task, f"{_told(move)}: claimed by {move.worker_old}, ended by {run.worker}")


def given_up(case: Case) -> Iterator[Finding]:
    """Tasks that were given up though they had neither used up their retries nor lost too many workers."""
    for task in case.tasks.values():
        if task.status != GIVEN_UP or task.id not in case.moves:
            continue
        runs = (
            [run for (task_id, _), run in case.runs.items() if task_id == task.id] if task.max_retry else []
        )
        failures = sum(run.outcome in {"failed", "timeout", "given_up"} for run in runs)
        losses = sum(run.outcome in {"lost", "superseded"} and bool(run.worker) for run in runs)
        if task.max_retry and failures <= task.max_retry and losses <= task.max_retry + 3:
            yield Finding(task.id, f"was given up after {failures} failures and {losses} losses: {task.note}")
