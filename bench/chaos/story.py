"""The whole story of one task, from the evidence: what an engineer needs to find the bug."""

from __future__ import annotations

from bench.chaos.case import Case, pid_of
from bench.chaos.check_moves import NAMES

NEAR = 3.0
MOST_LINES = 60


def story(case: Case, task_id: int) -> list[str]:
    """Audit, runs, ledger and the faults near them, one line each, in seconds since the start of the run."""
    began, task = case.evidence.began, case.tasks.get(task_id)
    head = f"task {task_id}: " + (
        "no row" if task is None else f"{task.code}, {NAMES[task.status]}; {task.note}"
    )
    lines = _audit(case, task_id) + _runs(case, task_id) + _effects(case, task_id)
    if lines:
        first, last = min(at for at, _ in lines), max(at for at, _ in lines)
        lines += _faults(case, task_id, first, last) + _ends(case, task_id)
    told = [f"  {at - began:9.3f}  {text}" for at, text in sorted(lines)]
    if len(told) > MOST_LINES:
        told = [*told[: MOST_LINES // 2], f"  … {len(told) - MOST_LINES} lines …", *told[-MOST_LINES // 2 :]]
    return [head, *told]


def _audit(case: Case, task_id: int) -> list[tuple[float, str]]:
    lines = []
    for move in case.moves.get(task_id, []):
        old = "nothing" if move.old is None else NAMES[move.old]
        new = "nothing" if move.new is None else NAMES[move.new]
        text = f"audit   {old} → {new}, attempt {move.attempt_new}, worker {move.worker_new}"
        text += f", lost {move.lost_count}" if move.lost_count else ""
        text += f", puts {move.undone} back" if move.undone else ""
        lines.append((move.at, text + (f", fires {move.firing}" if move.firing else "")))
    return lines


def _runs(case: Case, task_id: int) -> list[tuple[float, str]]:
    return [
        (run.finished, f"run     {run.attempt} {run.outcome} by {run.worker}, child {run.pid}: {run.error}")
        for (owner, _), run in case.runs.items()
        if owner == task_id
    ]


def _effects(case: Case, task_id: int) -> list[tuple[float, str]]:
    lines = []
    for effect in case.effects.get(task_id, []):
        who = f"{effect.attempt} in child {effect.pid} of {effect.worker}"
        lines.append((effect.start, f"ledger  start of {who}"))
        ended = "the child's death" if effect.end is None else f"end ({effect.how})"
        lines.append((effect.until, f"ledger  {ended} of {who}"))
    return lines


def _faults(case: Case, task_id: int, first: float, last: float) -> list[tuple[float, str]]:
    """Faults to the processes and stores that had to do with it."""
    pids = {effect.pid for effect in case.effects.get(task_id, [])}
    pids |= {pid for move in case.moves.get(task_id, []) if (pid := pid_of(move.worker_new))}
    lines = []
    for fault in case.faults_in(first - NEAR, last + NEAR):
        process = fault.kind.split()[-1] in {"worker", "child", "nursery"}
        if not process or fault.victim in pids:
            text = (
                f"FAULT   {fault.kind} {fault.victim or ''} {fault.note}, {fault.ended - fault.began:.1f} s"
            )
            lines.append((fault.began, text))
    return lines


def _ends(case: Case, task_id: int) -> list[tuple[float, str]]:
    """When the workers that had it ended."""
    pids = {pid for move in case.moves.get(task_id, []) if (pid := pid_of(move.worker_new))}
    return [
        (process.died, f"DEATH   worker {process.pid}, exit code {process.code}")
        for process in case.evidence.processes
        if process.pid in pids and process.died is not None
    ]
