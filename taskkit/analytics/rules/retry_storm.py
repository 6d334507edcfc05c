"""Rule ``retry_storm``: whether failing tasks come back so fast that they are the load."""

from __future__ import annotations

import shlex

from taskkit.analytics import measures as m
from taskkit.analytics.diagnosis import Action, Diagnosis, Figure
from taskkit.analytics.rules.base import about
from taskkit.analytics.source import Source
from taskkit.states import Status

AGAIN, FAILING, CALM = 50.0, 50.0, 20.0
ENOUGH = 20
POISON = 4.0


def diagnose(source: Source) -> Diagnosis:
    """Runs of the recent part of the window, of all of it where none ended there: how many are retries, how many fail, of how many tasks and for which cause."""
    window = source.window
    start = m.recent(window.since, window.until, window.bucket_s)
    finishes = m.between(source.frame("finishes"), start, window.until)
    if finishes.empty:
        start, finishes = window.since, source.frame("finishes")
    runs, again = int(finishes["finished"].sum()), int(finishes["again"].sum())
    failed = int(finishes[["failed", "timed_out"]].sum().sum())
    errors = source.frame("errors")
    errors = errors[errors["outcome"].isin(["failed", "timeout"])]
    each = m.ratio(float(errors["runs"].sum()), float(errors["tasks"].sum()))
    tasks = source.frame("tasks")
    backing_off = int(tasks.loc[tasks["status"] == int(Status.FAILED), "tasks"].sum())
    again_share, failed_share = m.share(again, runs), m.share(failed, runs)
    verdict = _verdict(runs, again_share or 0, failed_share or 0, each or 0, failed)
    quiet = verdict in {"no_data", "healthy"}
    top = errors.sort_values(["runs", "task_code"], ascending=[False, True]).head(1)
    code = str(top["task_code"].iloc[0]) if len(top) else ""
    seconds = (window.until - start).total_seconds()
    return about(
        source,
        "retry_storm",
        verdict,
        "ok" if quiet else "critical" if verdict == "storm" else "warning",
        "high" if runs >= ENOUGH else "low",
        evidence=(
            Figure("again_share", again_share, "%"),
            Figure("failed_share", failed_share, "%"),
            Figure("retries_per_s", again / seconds if runs else None, "per_s"),
            Figure("runs_of_failing", each, "runs"),
            Figure("backing_off", backing_off, "tasks"),
            Figure("runs_judged", runs, "runs"),
        ),
        actions=() if quiet else _actions(verdict, code),
        details={"code": code or None, "error": str(top["error"].iloc[0] or "") if len(top) else None},
    )


def _verdict(runs: int, again: float, failed: float, each: float, failures: int) -> str:
    if not runs:
        return "no_data"
    if again >= AGAIN and failed >= FAILING:
        return "poison" if each >= POISON and failures < ENOUGH else "storm"
    if failed >= FAILING and runs >= ENOUGH:
        return "first_failures"
    return "healthy" if again < CALM or failed < CALM else "building_up"


def _actions(verdict: str, code: str) -> tuple[Action, ...]:
    name = shlex.quote(code)
    see = Action("see_failures", f"taskkit tasks list --status failed --code {name}")
    pause = Action("pause_code", f"taskkit tasks pause --code {name}")
    give_up = Action("give_up", f"taskkit tasks give-up --code {name}")
    return (see, give_up) if verdict == "poison" else (see, pause)
