"""Rule ``duplicates``: every task and business key with more than one effect, each with its cause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

import pandas as pd

from taskkit.analytics.diagnosis import Action, Diagnosis, Figure, Subject
from taskkit.analytics.rules.base import about
from taskkit.analytics.rules.duplicates_causes import cut_at, findings, judged, overlapping, overlaps_told
from taskkit.analytics.source import Source

NEVER = "dispatched_twice"
UNREAD = "not_all_read"
CERTAIN = ("declared_dead_alive", "killed_after_effect", "enqueued_twice")
MILD = ("may_be_twice", "late_not_twice", "retried_without_idempotency", "run_again_by_person")
SEVERITY = {
    NEVER: "critical",
    "late_not_twice": "note",
    "retried_without_idempotency": "note",
    "run_again_by_person": "note",
}
CONFIDENCE = {
    UNREAD: "low",
    "killed_after_effect": "medium",
    "may_be_twice": "low",
    "retried_without_idempotency": "medium",
    "enqueued_twice": "medium",
}


def diagnose(source: Source, *, causes: Collection[str] | None = None) -> Diagnosis:
    """The verdict is the most frequent cause of a second effect; a double dispatch is told before all others.

    Where there was more than could be read, nothing is called healthy. With ``causes`` nothing else is looked for.
    """
    runs = judged(source)
    found = [one for one in findings(source, runs) if causes is None or one.cause in causes]
    counts, most = Counter(one.cause for one in found), cut_at(source, runs)
    verdict = _verdict(source, counts, most is not None)
    quiet = verdict in {"no_data", "healthy"}
    return about(
        source,
        "duplicates",
        verdict,
        "ok" if quiet else SEVERITY.get(verdict, "warning"),
        CONFIDENCE.get(verdict, "high"),
        evidence=_evidence(source, runs, counts, most),
        forecast=(),
        actions=() if quiet else _actions(verdict, [one for one in found if one.cause == verdict]),
        found=sorted(found, key=lambda one: (_rank(one.cause), one.subject)),
        details={"task": next((one.subject for one in found if one.cause == verdict), None)},
    )


def _verdict(source: Source, counts: Counter[str], cut: bool) -> str:
    if counts[NEVER]:
        return NEVER
    certain = max(CERTAIN, key=lambda cause: counts[cause])
    if counts[certain]:
        return certain
    if cut:
        return UNREAD
    mild = next((cause for cause in MILD if counts[cause]), None)
    if mild:
        return mild
    return (
        "healthy"
        if int(source.frame("finishes")["finished"].sum()) or len(source.frame("runs"))
        else "no_data"
    )


def _rank(cause: str) -> int:
    return (NEVER, *CERTAIN, *MILD).index(cause)


def _evidence(
    source: Source, runs: pd.DataFrame, counts: Counter[str], most: int | None
) -> tuple[Figure, ...]:
    pairs = overlapping(runs)
    finished = int(source.frame("finishes")["finished"].sum())
    return (
        Figure("tasks_twice", sum(counts[cause] for cause in (NEVER, *CERTAIN)), "tasks"),
        Figure("tasks_late", counts["late_not_twice"], "tasks"),
        Figure("overlapping", len(pairs), "pairs"),
        Figure("tasks_repeated", int((runs.groupby("task_id").size() > 1).sum()), "tasks"),
        Figure("runs_seen", finished or len(runs), "runs"),
        *overlaps_told(pairs, source),
        *([Figure("repeated_at_most", most, "tasks")] if most else []),
        *(
            Figure(f"cause_{cause}", counts[cause], "tasks")
            for cause in (NEVER, *CERTAIN, *MILD)
            if counts[cause]
        ),
    )


def _actions(verdict: str, found: Sequence[Subject]) -> tuple[Action, ...]:
    one = next((f.subject.split()[0] for f in found if f.subject.split()[0].isdecimal()), "ID")
    show = Action("show_task", f"taskkit tasks show {one} --all")
    more = {
        UNREAD: (Action("shorter_window", "taskkit diagnose duplicates --since 10m"),),
        "dispatched_twice": (Action("make_bundle", "taskkit bundle create incident.zip --since 2h"), Action("doctor", "taskkit doctor")),
        "declared_dead_alive": (Action("doctor", "taskkit doctor"), Action("raise_dead_after", "TASKKIT_SCHEDULER_DEAD_AFTER_S=60 python -m taskkit.scheduler"), Action("make_idempotent", "docs/idempotency.md")),
        "killed_after_effect": (Action("see_workers", "taskkit status"), Action("make_idempotent", "docs/idempotency.md")),
        "may_be_twice": (Action("see_workers", "taskkit status"), Action("tell_progress", "docs/idempotency.md"), Action("make_idempotent", "docs/idempotency.md")),
        "enqueued_twice": (Action("give_unique_key", "taskkit enqueue --help"),),
        "retried_without_idempotency": (Action("make_idempotent", "docs/idempotency.md"),),
        "late_not_twice": (Action("diagnose_lost", "taskkit diagnose lost"),),
    }  # fmt: skip
    return (show, *more.get(verdict, ()))
