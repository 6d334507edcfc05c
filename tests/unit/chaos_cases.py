"""Hand-made evidence for the tests of the chaos checker: a run in which all went well, and what to change in it."""

from __future__ import annotations

from msgspec.structs import replace

from bench.chaos.evidence import (
    Death,
    Effect,
    Evidence,
    Fault,
    Move,
    Occurrence,
    Periodic,
    Process,
    Run,
    Task,
)

WORKER, OTHER = "host:100:aa", "host:200:bb"
CHILD, LATER_CHILD = 101, 201
ONE_OFF, PERIODIC = 1, 2
NOON = 1_700_000_000


def move(
    at: float, old: int | None, new: int | None, attempt: int, task: int = ONE_OFF, **more: object
) -> Move:
    """A transition; a dispatch raises the attempt, a claim writes the worker."""
    fields: dict[str, object] = {
        "attempt_old": attempt - 1 if new == 1 and old != 1 else attempt,
        "attempt_new": attempt,
        "worker_old": WORKER if old == 2 else None,
        "worker_new": WORKER if new == 2 or old == 2 else None,
    }
    return Move(seq=int(at * 10), task=task, at=at, old=old, new=new, **(fields | more))  # type: ignore[arg-type]


def effect(attempt: int, start: float, ended: float, **more: object) -> Effect:
    """An effect of the one-off task that went well."""
    fields: dict[str, object] = {
        "task": ONE_OFF,
        "code": "fast",
        "worker": WORKER,
        "pid": CHILD,
        "end": ended,
        "until": ended,
        "how": "ok",
    }
    return Effect(attempt=attempt, start=start, **(fields | more))  # type: ignore[arg-type]


def run(attempt: int, outcome: str, finished: float, **more: object) -> Run:
    """A run of the one-off task."""
    fields: dict[str, object] = {"task": ONE_OFF, "worker": WORKER, "pid": CHILD}
    return Run(attempt=attempt, outcome=outcome, finished=finished, **(fields | more))  # type: ignore[arg-type]


def one_attempt() -> Evidence:
    """A one-off task that succeeded at once, and a periodic one with a fired and a skipped occurrence."""
    return Evidence(
        horizon=NOON + 1,
        accepted=[ONE_OFF],
        tasks=[Task(ONE_OFF, "fast", 0, 3, 1, 3, 0, 0), Task(PERIODIC, "tick", 1, 6, 1, 3, 0, 0)],
        acted=[PERIODIC],
        moves=[
            move(1, None, 0, 0),
            move(2, 0, 1, 1),
            move(3, 1, 2, 1),
            move(6, 2, 3, 1),
            move(1, None, 0, 0, PERIODIC),
            move(2, 0, 1, 1, PERIODIC, firing=NOON),
            move(3, 1, 2, 1, PERIODIC),
            move(6, 2, 0, 1, PERIODIC),
            move(9, 0, 6, 1, PERIODIC),
        ],
        runs=[
            run(1, "success", 6),
            run(1, "success", 6, task=PERIODIC, occurrence=NOON),
        ],
        effects=[effect(1, 4, 5), effect(1, 4, 5, task=PERIODIC, occurrence=NOON)],
        processes=[Process("worker", 100, 0.0), Process("worker", 200, 0.0)],
        occurrences=[
            Occurrence(PERIODIC, NOON, "fired", attempt=1),
            Occurrence(PERIODIC, NOON + 1, "skipped", "still running"),
        ],
        periodic=[Periodic(PERIODIC, 1, NOON)],
    )


def two_attempts(outcome: str, *, how: str = "", end: float | None = None, until: float = 5.0) -> Evidence:
    """The one-off task's first attempt ended with ``outcome``, and a second one on another worker succeeded."""
    evidence = one_attempt()
    again = 4 if outcome in {"failed", "timeout"} else 0
    evidence.moves = [m for m in evidence.moves if m.task == PERIODIC] + [
        move(1, None, 0, 0),
        move(2, 0, 1, 1),
        move(3, 1, 2, 1),
        move(20, 2, again, 1),
        move(21, again, 1, 2, worker_new=None),
        move(22, 1, 2, 2, worker_new=OTHER),
        move(25, 2, 3, 2, worker_old=OTHER, worker_new=OTHER),
    ]
    evidence.runs = [r for r in evidence.runs if r.task == PERIODIC] + [
        run(1, outcome, 20),
        run(2, "success", 25, worker=OTHER, pid=LATER_CHILD),
    ]
    evidence.effects = [e for e in evidence.effects if e.task == PERIODIC] + [
        effect(1, 4, 5, end=end, until=until, how=how),
        effect(2, 23, 24, worker=OTHER, pid=LATER_CHILD),
    ]
    evidence.tasks[0] = Task(ONE_OFF, "fast", 0, 3, 2, 3, 0, 0)
    return evidence


def rung_again(age: float) -> Evidence:
    """The first message was lost with a flush, and the task was dispatched again."""
    evidence = one_attempt()
    back = 2 + age
    evidence.moves = [m for m in evidence.moves if m.task == PERIODIC] + [
        move(1, None, 0, 0),
        move(2, 0, 1, 1),
        move(back, 1, 0, 1),
        move(back + 1, 0, 1, 2),
        move(back + 2, 1, 2, 2),
        move(back + 5, 2, 3, 2),
    ]
    evidence.runs += [run(1, "lost", back, worker=""), run(2, "success", back + 5)]
    evidence.runs = [r for r in evidence.runs if r.task == PERIODIC or r.finished != 6]
    evidence.effects = [e for e in evidence.effects if e.task == PERIODIC] + [effect(2, back + 3, back + 4)]
    evidence.tasks[0] = Task(ONE_OFF, "fast", 0, 3, 2, 3, 0, 0)
    evidence.faults = [Fault("redis flush", 2.5, 2.5, 2.6, 300)]
    return evidence


def put_back() -> Evidence:
    """The broker refused the first push of an occurrence, which fired with the next attempt."""
    evidence = one_attempt()
    evidence.moves = [m for m in evidence.moves if m.task == ONE_OFF] + [
        move(1, None, 0, 0, PERIODIC),
        move(2, 0, 1, 1, PERIODIC, firing=NOON),
        move(2.2, 1, 0, 1, PERIODIC, undone=NOON),
        move(3, 0, 1, 2, PERIODIC, firing=NOON),
        move(4, 1, 2, 2, PERIODIC),
        move(7, 2, 0, 2, PERIODIC),
        move(9, 0, 6, 2, PERIODIC),
    ]
    evidence.runs[1] = run(2, "success", 7, task=PERIODIC, occurrence=NOON)
    evidence.effects[1] = effect(2, 5, 6, task=PERIODIC, occurrence=NOON)
    evidence.tasks[1] = Task(PERIODIC, "tick", 1, 6, 2, 3, 0, 0)
    evidence.faults = [Fault("redis restart", 1.9, 1.9, 2.4, 300)]
    return evidence


def dies(evidence: Evidence, at: float = 5.0) -> Evidence:
    """The first attempt's child is recorded to have died."""
    evidence.deaths = [Death(CHILD, at)]
    return evidence


def ends(evidence: Evidence, **process: float) -> Evidence:
    """The first attempt's worker is recorded to have died, or to have been told to stop."""
    evidence.processes[0] = Process("worker", 100, 0.0, **process)  # type: ignore[arg-type]
    return evidence


def freezes(evidence: Evidence, began: float = 4.5, ended: float = 30.0) -> Evidence:
    """The first attempt's worker stood still."""
    evidence.faults = [Fault("freeze worker", began, began, ended, 100)]
    return evidence


def comes_late(began: float = 3.5) -> Evidence:
    """The first attempt's worker stood still between its claim and the start, which came after the second attempt."""
    evidence = freezes(two_attempts("superseded", how="ok", end=31, until=31), began)
    evidence.effects = [
        replace(one, start=30.5) if (one.task, one.attempt) == (ONE_OFF, 1) else one
        for one in evidence.effects
    ]
    return evidence
