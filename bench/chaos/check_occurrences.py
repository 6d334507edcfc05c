"""Occurrences: each planned instant of the calendar has one row with an answer, and fires at most once."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from bench.chaos.case import Case, Finding
from bench.chaos.evidence import Occurrence, Periodic


def fired_twice(case: Case) -> Iterator[Finding]:
    """Occurrences whose first attempt was dispatched more than once, or which succeeded more than once.

    A dispatch that was put back is none, and must not have run.
    """
    for (task_id, planned), times in _firings(case).items():
        if times > 1:
            yield Finding(task_id, f"the occurrence of {planned} fired {times} times")
    ran = {(run.task, run.attempt) for run in case.evidence.runs}
    for move in case.evidence.moves:
        if move.undone is not None and (move.task, move.attempt_new) in ran:
            yield Finding(
                move.task, f"the occurrence of {move.undone} was put back, and attempt {move.attempt_new} ran"
            )
    succeeded = Counter(
        (run.task, run.occurrence)
        for run in case.evidence.runs
        if run.occurrence is not None and run.outcome == "success"
    )
    for (task_id, planned), times in succeeded.items():
        if times > 1:
            yield Finding(task_id, f"the occurrence of {planned} succeeded {times} times")


def never(case: Case, states: Counter[str]) -> Iterator[Finding]:
    """Planned instants up to the horizon without a row, without an answer, or said to have fired and never dispatched."""
    rows: dict[int, dict[int, Occurrence]] = defaultdict(dict)
    for one in case.evidence.occurrences:
        rows[one.task][one.planned] = one
    fired = {key for key, times in _firings(case).items() if times > 0}
    for task_id, calendar in case.periodic.items():
        for planned in grid(calendar, case.evidence.horizon):
            row = rows[task_id].get(planned)
            wrong = _wrong(row, (task_id, planned) in fired)
            if wrong:
                yield Finding(task_id, f"the occurrence of {planned} {wrong}")
            elif row is not None:
                states[row.state] += 1


def _firings(case: Case) -> Counter[tuple[int, int]]:
    """How often each occurrence was dispatched for the first time, without what was put back."""
    found: Counter[tuple[int, int]] = Counter()
    for move in case.evidence.moves:
        if move.firing is not None:
            found[move.task, move.firing] += 1
        if move.undone is not None:
            found[move.task, move.undone] -= 1
    return found


def off_the_grid(case: Case) -> Iterator[Finding]:
    """Firings at instants that are not in the calendar."""
    for move in case.evidence.moves:
        calendar = case.periodic.get(move.task)
        if move.firing is not None and calendar is not None and move.firing % calendar.step:
            yield Finding(move.task, f"fired for {move.firing}, which is not in its calendar")


def grid(calendar: Periodic, horizon: int) -> range:
    """All planned instants of a task up to the horizon."""
    return range(calendar.first, horizon + 1, calendar.step)


def _wrong(row: Occurrence | None, fired: bool) -> str:
    if row is None:
        return "has no row"
    if row.state == "planned":
        return "was neither fired nor skipped nor missed"
    if row.state == "fired":
        return "" if fired else "is said to have fired, and no dispatch of it is on record"
    if fired:
        return f"fired, and is said to be {row.state}: {row.reason}"
    return "" if row.reason else f"was {row.state} without a reason"
