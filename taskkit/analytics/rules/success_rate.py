"""Rule ``success_rate``: how many runs and tasks end well, and what most of the others have in common."""

from __future__ import annotations

import shlex

from taskkit.analytics import measures as m
from taskkit.analytics.diagnosis import Action, Diagnosis, Figure, Subject
from taskkit.analytics.rules.base import about
from taskkit.analytics.source import Source

GOAL = 99.0
ENOUGH = 20
MOST, NEARLY_ALL = 60.0, 80.0
BAD = ("failed", "timed_out", "lost_running", "given_up")


def diagnose(source: Source) -> Diagnosis:
    """Cancelled, handed back and superseded runs count neither way."""
    finishes, errors = source.frame("finishes"), source.frame("errors")
    bad = {name: int(finishes[name].sum()) for name in BAD}
    failed, well = sum(bad.values()), int(finishes["succeeded"].sum())
    by_code = (
        finishes.groupby("task_code")[list(BAD)].sum().sum(axis=1).sort_values(ascending=False, kind="stable")
    )
    causes = errors[(errors["fingerprint"] != "") & errors["outcome"].isin(["failed", "given_up"])]
    cause = causes.groupby("fingerprint")["runs"].sum().sort_values(ascending=False, kind="stable")
    code = str(by_code.index[0]) if len(by_code) else ""
    top_code, top_cause = (m.share(float(s.iloc[0]) if len(s) else 0.0, failed) for s in (by_code, cause))
    dead = int(source.frame("dead_letters")["new_tasks"].sum())
    rate = m.share(well, well + failed)
    verdict = _verdict(well + failed, rate, bad, top_cause, top_code)
    quiet = verdict in {"no_data", "healthy", "too_few_runs"}
    error = (
        next((str(e) for e in causes.loc[causes["fingerprint"] == cause.index[0], "error"]), "")
        if len(cause)
        else ""
    )
    return about(
        source,
        "success_rate",
        verdict,
        ("note" if verdict == "too_few_runs" else "ok") if quiet else "critical" if (rate or 0) < GOAL - 9 else "warning",
        "medium" if verdict == "broad" else "high",
        evidence=(
            Figure("success_runs", rate, "%"),
            Figure("runs_judged", well + failed, "runs"),
            Figure("runs_failed", failed, "runs"),
            Figure("success_tasks", m.share(well, well + dead), "%"),
            Figure("given_up_tasks", dead, "tasks"),
            Figure("timed_out", bad["timed_out"], "runs"),
            Figure("lost_running", bad["lost_running"], "runs"),
            Figure("top_code_share", top_code, "%"),
            Figure("top_cause_share", top_cause, "%"),
        ),
        actions=() if quiet else _actions(verdict, code),
        found=[Subject("failing_code", str(name), (Figure("runs_failed", int(n), "runs"),)) for name, n in by_code.items() if n],
        details={"code": code or None, "error": error or None},
    )  # fmt: skip


def _verdict(
    runs: int, rate: float | None, bad: dict[str, int], cause: float | None, code: float | None
) -> str:
    failed = sum(bad.values())
    if not runs:
        return "no_data"
    if runs < ENOUGH and failed:
        return "too_few_runs"
    if rate is None or rate >= GOAL:
        return "healthy"
    shares = {
        "losses": (m.share(bad["lost_running"], failed), MOST),
        "timeouts": (m.share(bad["timed_out"], failed), MOST),
        "one_cause": (cause, MOST),
        "one_code": (code, NEARLY_ALL),
    }
    return next((name for name, (part, least) in shares.items() if (part or 0) >= least), "broad")


def _actions(verdict: str, code: str) -> tuple[Action, ...]:
    see = Action("see_failures", f"taskkit tasks list --status failed --code {shlex.quote(code)}")
    more = {
        "losses": (Action("diagnose_lost", "taskkit diagnose lost"),),
        "timeouts": (Action("diagnose_slow", "taskkit diagnose slow"),),
        "broad": (Action("doctor", "taskkit doctor"),),
    }
    return (see, *more.get(verdict, ()), Action("see_dead", "taskkit tasks dead"))
