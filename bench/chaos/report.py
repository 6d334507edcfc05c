"""The report of a chaos run: one table with the verdict, the faults by kind, the figures, and the stories of offenders."""

from __future__ import annotations

from collections import Counter
from typing import Any

from bench.chaos.case import Case, pid_of
from bench.chaos.check_moves import DISPATCHED, FAILED, PENDING, RUNNING
from bench.chaos.checker import Verdict
from bench.chaos.evidence import Evidence
from bench.chaos.story import story

OFFENDERS = 3


def text(evidence: Evidence, verdict: Verdict, *, wanted_faults: int = 0) -> str:
    """Everything for people."""
    lines = [
        *_head(evidence),
        "",
        *_table(verdict),
        "",
        *_faults(evidence, wanted_faults),
        "",
        *_figures(evidence),
    ]
    case = Case(evidence)
    for count in verdict.counts:
        for finding in count.found[:OFFENDERS]:
            lines += ["", f"{count.name}: task {finding.task} {finding.text}", *story(case, finding.task)]
        if len(count.found) > OFFENDERS:
            lines += ["", f"{count.name}: … and {len(count.found) - OFFENDERS} more"]
    right = verdict.ok and hits(evidence) >= wanted_faults
    lines += ["", f"seed {evidence.seed}; replay: {evidence.command}", "PASSED" if right else "FAILED"]
    return "\n".join(lines)


def document(evidence: Evidence, verdict: Verdict) -> dict[str, Any]:
    """The same for scripts."""
    return {
        "ok": verdict.ok,
        "seed": evidence.seed,
        "command": evidence.command,
        "counts": {count.name: len(count.found) for count in verdict.counts},
        "findings": {c.name: [{"task": f.task, "text": f.text} for f in c.found] for c in verdict.counts},
        "explained": {
            "repeats": verdict.repeats,
            "dispatches": verdict.dispatches,
            "overlaps": verdict.overlaps,
            "occurrences": verdict.occurrences,
        },
        "faults": dict(Counter(fault.kind for fault in evidence.faults if fault.hit)),
        "figures": dict(figures(evidence)),
    }


def hits(evidence: Evidence) -> int:
    """How many faults were carried out."""
    return sum(fault.hit for fault in evidence.faults)


def _head(evidence: Evidence) -> list[str]:
    load, whole = evidence.load_ended - evidence.began, evidence.ended - evidence.began
    one_offs = sum(task.type != 1 for task in evidence.tasks)
    return [
        f"chaos on {evidence.database}: {one_offs} tasks and {len(evidence.periodic)} periodic ones, "
        f"{load:.0f} s of load, {whole:.0f} s until all was still"
    ]


def _table(verdict: Verdict) -> list[str]:
    width = max(len(count.name) for count in verdict.counts)
    lines = [f"{'must be zero':{width}}  found  verdict  beside"]
    for count in verdict.counts:
        said = "ok" if count.ok else "WRONG"
        lines.append(f"{count.name:{width}}  {len(count.found):5}  {said:7}  {count.beside}".rstrip())
    return lines


def _faults(evidence: Evidence, wanted: int) -> list[str]:
    kinds = Counter(fault.kind for fault in evidence.faults if fault.hit)
    missed = [fault for fault in evidence.faults if not fault.hit]
    wish = f" of at least {wanted}" if wanted else ""
    lines = [f"faults: {sum(kinds.values())}{wish}, of {len(kinds)} kinds"]
    row = [f"{kind} {number}" for kind, number in sorted(kinds.items())]
    lines += ["  " + ", ".join(row[n : n + 6]) for n in range(0, len(row), 6)]
    if missed:
        told = Counter(f"{fault.kind} ({fault.note})" for fault in missed)
        lines.append("  not carried out: " + ", ".join(f"{what} {n}" for what, n in told.items()))
    return lines


def _figures(evidence: Evidence) -> list[str]:
    return [f"{name:54} {value}" for name, value in figures(evidence)]


def figures(evidence: Evidence) -> list[tuple[str, str]]:
    """What else is worth knowing, as (name, value)."""
    whole = max(0.001, evidence.ended - evidence.began)
    first = {}
    waits = []
    for move in evidence.moves:
        if move.old is None:
            first[move.task] = move.at
        elif move.new == DISPATCHED and move.attempt_new == 1 and move.task in first:
            waits.append(move.at - first[move.task])
    runs = Counter(run.outcome for run in evidence.runs)
    starts = Counter(process.role for process in evidence.processes)
    return [
        ("effects", f"{len(evidence.effects)}, {len(evidence.effects) / whole:.0f} a second"),
        ("runs", ", ".join(f"{outcome} {number}" for outcome, number in runs.most_common())),
        ("from enqueue to dispatch, one-off tasks", _spread(waits)),
        ("from a worker's death to its tasks being free again", _spread(recovered(evidence))),
        ("from the dispatch to a bell rung again", _spread(rung(evidence))),
        ("enqueues refused / unknown", f"{evidence.refused} / {evidence.unknown}"),
        ("messages dropped by workers as doubled", str(evidence.dropped)),
        ("processes started", ", ".join(f"{role} {number}" for role, number in starts.items())),
        ("torn lines in the ledger", str(evidence.torn)),
    ]


def recovered(evidence: Evidence) -> list[float]:
    """Seconds from the death of a worker to the moves that freed its tasks."""
    died = {process.pid: process.died for process in evidence.processes if process.died is not None}
    lost = {(run.task, run.attempt) for run in evidence.runs if run.outcome == "lost"}
    waits = []
    for move in evidence.moves:
        at = died.get(pid_of(move.worker_old) or 0)
        freed = (
            move.old == RUNNING and move.new in {PENDING, FAILED} and (move.task, move.attempt_old) in lost
        )
        if freed and at is not None and at <= move.at:
            waits.append(move.at - at)
    return waits


def rung(evidence: Evidence) -> list[float]:
    """Seconds from dispatches to the recovery of their messages."""
    dispatched: dict[int, float] = {}
    lost = {(run.task, run.attempt) for run in evidence.runs if run.outcome == "lost"}
    waits = []
    for move in evidence.moves:
        if move.new == DISPATCHED:
            dispatched[move.task] = move.at
        elif move.old == DISPATCHED and move.new == PENDING and (move.task, move.attempt_old) in lost:
            waits.append(move.at - dispatched.get(move.task, move.at))
    return waits


def _spread(values: list[float]) -> str:
    if not values:
        return "none"
    ordered = sorted(values)
    p50, p99 = ordered[len(ordered) // 2], ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    return f"{len(ordered)}: p50 {p50:.2f} s, p99 {p99:.2f} s, most {ordered[-1]:.2f} s"
