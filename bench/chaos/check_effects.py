"""Effects that overlap, and effects that are repeated without a recorded cause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from bench.chaos.case import Case, Finding
from bench.chaos.evidence import Effect, Run

DECLARED_DEAD = {"lost", "superseded"}
BY_ITSELF = {"failed", "timeout"}


def overlapping(case: Case, refused: Counter[str]) -> Iterator[Finding]:
    """Two effects of a task at the same time; those whose first attempt was declared dead alive are counted apart."""
    for task_id, effects in case.effects.items():
        latest: Effect | None = None
        for effect in effects:
            if latest is not None and latest.until > effect.start:
                if _declared_dead_alive(case, latest, effect):
                    refused["superseded"] += 1
                else:
                    both = f"attempts {latest.attempt} and {effect.attempt}"
                    yield Finding(task_id, f"{both} overlap by {latest.until - effect.start:.3f} s")
            latest = effect if latest is None or effect.until > latest.until else latest


def _declared_dead_alive(case: Case, first: Effect, second: Effect) -> bool:
    """The first one's worker stood still and was thought dead; its write-back was refused, as its run row says."""
    run = case.runs.get((first.task, first.attempt))
    return (
        first.attempt < second.attempt
        and run is not None
        and run.outcome in DECLARED_DEAD
        and case.worker_frozen(first.worker, first.start - 60, second.start)
    )


def repeated(case: Case, explained: Counter[str]) -> Iterator[Finding]:
    """Effects that began again for no recorded cause; ``explained`` counts the others by their cause."""
    for task_id, effects in case.effects.items():
        for first, second in pairwise(effects):
            if first.occurrence != second.occurrence:
                continue
            late = first.attempt > second.attempt
            cause, wrong = _came_late(case, second) if late else _cause(case, first, second)
            if wrong:
                yield Finding(task_id, f"attempts {first.attempt} and {second.attempt}: {wrong}")
            else:
                explained[cause] += 1


def _cause(case: Case, first: Effect, second: Effect) -> tuple[str, str]:
    """Why the effect began again: (cause, "") or ("", what is wrong)."""
    if first.attempt == second.attempt:
        return "", "one attempt started its handler twice"
    run = case.runs.get((first.task, first.attempt))
    if run is None:
        return "", f"attempt {first.attempt} has no run row"
    died = case.child_died(first.pid, first.start, second.start)
    if run.outcome in BY_ITSELF:
        return _failed(first, died, run)
    if run.outcome == "handed_back":
        return _handed_back(case, first, second, died, run.error)
    if run.outcome in DECLARED_DEAD:
        return _declared_dead(case, first, second, died)
    return "", f"ran again after {run.outcome}"


def _came_late(case: Case, late: Effect) -> tuple[str, str]:
    """An attempt that was claimed, stood still with its worker, was declared dead, and began when that went on."""
    run = case.runs.get((late.task, late.attempt))
    if run is None or run.outcome not in DECLARED_DEAD:
        return "", f"attempt {late.attempt} began after a later one, and was not declared dead"
    if not case.worker_frozen(late.worker, late.start - 60, late.start):
        return "", f"attempt {late.attempt} began after a later one, and its worker had not stood still"
    return "declared dead while frozen", ""


def _failed(first: Effect, died: bool, run: Run) -> tuple[str, str]:
    if first.how not in {"", "ok"}:
        return "retry of a failure", ""
    return ("death of a child", "") if died else ("", f"{run.outcome} without a failure: {run.error}")


def _handed_back(case: Case, first: Effect, second: Effect, died: bool, error: str) -> tuple[str, str]:
    if case.worker_told(first.worker, second.start):
        return "stop in order", ""
    return ("death of a child", "") if died else ("", f"handed back for no recorded cause: {error}")


def _declared_dead(case: Case, first: Effect, second: Effect, died: bool) -> tuple[str, str]:
    if case.worker_died(first.worker, second.start):
        return "death of a worker", ""
    if case.worker_frozen(first.worker, first.start - 60, second.start):
        return "declared dead while frozen", ""
    return ("death of a child", "") if died else ("", "declared dead without a recorded death")


def again_without_retries(case: Case) -> Iterator[Finding]:
    """Tasks that allow no retry and began again, though nothing handed them back."""
    for task_id, effects in case.effects.items():
        task = case.tasks.get(task_id)
        if task is None or task.max_retry:
            continue
        for first, second in pairwise(effects):
            run = case.runs.get((first.task, first.attempt))
            if first.occurrence == second.occurrence and (run is None or run.outcome != "handed_back"):
                outcome = "nothing" if run is None else run.outcome
                yield Finding(task_id, f"allows no retry and began again after {outcome}")
