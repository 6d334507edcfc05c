"""Rule ``missed``: planned times that did not fire, fired late, or failed; and why."""

from __future__ import annotations

from datetime import timedelta

import pandas as pd

from taskkit.analytics.diagnosis import Action, Diagnosis, Figure, Subject
from taskkit.analytics.rules.backlog_facts import schedulers_alive
from taskkit.analytics.rules.base import about
from taskkit.analytics.source import Source
from taskkit.states import Status

GRACE_S = 60.0
CAUSES = ("scheduler_down", "not_dispatched", "missed_by_policy", "held", "overlap", "fired_late", "failed")
UNWANTED = ("planned", "skipped")
"""States that mean nothing once the task is cancelled: nobody wants those times any more."""
MILD = {"held", "overlap"}


def diagnose(source: Source) -> Diagnosis:
    """The verdict is the first of the causes in their order that explains something."""
    planned, rows = source.frame("occurrences"), source.frame("troubled_occurrences")
    rows = rows[~((rows["status"] == Status.CANCELLED) & rows["state"].isin(UNWANTED))]
    alive = schedulers_alive(source)
    causes = [_cause(row, source, alive) for row in rows.itertuples()]
    rows = rows.assign(cause=pd.Series(causes, index=rows.index, dtype="object"))
    rows = rows[rows["cause"].notna()]
    verdict = next((c for c in CAUSES if (rows["cause"] == c).any()), None)
    total = int(planned["occurrences"].sum())
    verdict = verdict or ("healthy" if total else "no_data")
    first = rows[rows["cause"] == verdict].head(1)
    task = str(int(first["task_id"].iloc[0])) if len(first) else "ID"
    state = planned.groupby("state")["occurrences"].sum()
    late = planned["late_max_s"].max()
    return about(
        source,
        "missed",
        verdict,
        "ok" if verdict in {"no_data", "healthy"} else "note" if verdict in MILD else "critical" if verdict == "scheduler_down" else "warning",
        "high",
        evidence=(
            Figure("occurrences", total),
            Figure("fired", int(state.get("fired", 0))),
            Figure("missed", int(state.get("missed", 0))),
            Figure("skipped", int(state.get("skipped", 0))),
            Figure("overdue", int((rows["cause"].isin(["scheduler_down", "not_dispatched"])).sum())),
            Figure("late_max", None if pd.isna(late) else float(late), "s"),
            Figure("occurrences_failed", int(planned["failed"].sum())),
            Figure("schedulers", alive),
        ),
        actions=() if verdict in {"no_data", "healthy"} else _actions(verdict, task),
        found=_found(rows),
        details={"task": task if len(first) else None, "reason": str(first["reason"].iloc[0] or "") if len(first) else None},
    )  # fmt: skip


def _cause(row: object, source: Source, alive: int) -> str | None:
    state, reason = row.state, str(row.reason or "")  # type: ignore[attr-defined]
    if state == "planned":
        if row.planned_at > pd.Timestamp(source.now - timedelta(seconds=GRACE_S)):  # type: ignore[attr-defined]
            return None
        if row.status == Status.HELD:  # type: ignore[attr-defined]
            return "held"
        return "not_dispatched" if alive else "scheduler_down"
    if state == "missed":
        return "missed_by_policy"
    if state == "skipped":
        return (
            "overlap"
            if "running" in reason or "waits" in reason
            else "held"
            if "held" in reason
            else "missed_by_policy"
        )
    return "fired_late" if (row.late_s or 0) > GRACE_S else "failed"  # type: ignore[attr-defined]


def _found(rows: pd.DataFrame) -> list[Subject]:
    found = []
    for (cause, task_id, code), part in rows.groupby(["cause", "task_id", "task_code"]):
        late = part["late_s"].max()
        figures = (
            Figure("occurrences", len(part)),
            Figure("late_max", None if pd.isna(late) else float(late), "s"),
        )
        found.append(Subject(str(cause), f"{task_id} {code}", figures))
    return sorted(found, key=lambda one: (CAUSES.index(one.cause), one.subject))


def _actions(verdict: str, task: str) -> tuple[Action, ...]:
    show = Action("show_task", f"taskkit tasks show {task}")
    more = {
        "scheduler_down": (Action("start_scheduler", "python -m taskkit.scheduler"),),
        "not_dispatched": (Action("doctor", "taskkit doctor"),),
        "missed_by_policy": (Action("run_now", f"taskkit tasks run-now {task}"),),
        "held": (Action("resume", f"taskkit tasks resume {task}"),),
        "fired_late": (Action("diagnose_backlog", "taskkit diagnose backlog"),),
        "failed": (Action("see_dead", "taskkit tasks dead"),),
    }
    return (show, *more.get(verdict, ()))
