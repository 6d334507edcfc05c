"""Rule ``lost``: what was lost on the way, and where: in Redis, with a worker, before it was written, or for want of a handler."""

from __future__ import annotations

import math
from itertools import pairwise
from statistics import median_low

import pandas as pd

from taskkit.analytics import measures as m
from taskkit.analytics.diagnosis import Action, Diagnosis, Figure
from taskkit.analytics.rules.base import about, patience
from taskkit.analytics.source import Source

AT_ONCE = 5
EXPECTED, LEFT = 20, 0.1
NO_HANDLER = "no handler is registered"


def diagnose(source: Source) -> Diagnosis:
    """In the order in which to look: a wiped Redis, a dead worker, a handler that is not there, a refused enqueue."""
    finishes, errors = source.frame("finishes"), source.frame("errors")
    at_once = _most_at_once(finishes)
    unknown = errors[errors["error"].astype("object").map(lambda text: NO_HANDLER in str(text)).astype(bool)]
    messages, with_worker = int(finishes["lost_messages"].sum()), int(finishes["lost_running"].sum())
    before, lately = _arrivals(source)
    dead = _dead(source)
    verdict = _verdict(source, at_once, messages, with_worker, int(unknown["runs"].sum()), before, lately)
    code = str(unknown.iloc[0]["task_code"]) if len(unknown) else ""
    return about(
        source,
        "lost",
        verdict,
        {"no_data": "ok", "healthy": "ok", "single_messages": "note"}.get(verdict, "warning"),
        {"refused_enqueue": "low", "wiped_redis": "medium"}.get(verdict, "high"),
        evidence=(
            Figure("lost_messages", messages, "runs"),
            Figure("lost_running", with_worker, "runs"),
            Figure("lost_at_once", at_once, "runs"),
            Figure("workers_dead", dead, "workers"),
            Figure("no_handler", int(unknown["runs"].sum()), "runs"),
            Figure("arrival_before", before, "per_s"),
            Figure("arrival_per_s", lately, "per_s"),
        ),
        actions=_actions(verdict, code),
        details={"code": code or None},
    )


def _verdict(
    source: Source, at_once: int, messages: int, with_worker: int, unknown: int, before: float, lately: float
) -> str:
    if at_once >= AT_ONCE:
        return "wiped_redis"
    if with_worker:
        return "dead_worker"
    if unknown:
        return "handler_not_deployed"
    if messages:
        return "single_messages"
    window = source.window
    recent_s = (window.until - m.recent(window.since, window.until, window.bucket_s)).total_seconds()
    if before * recent_s >= EXPECTED and lately <= LEFT * before:
        return "refused_enqueue"
    seen = len(source.frame("finishes")) or len(source.frame("arrivals")) or len(source.frame("tasks"))
    return "healthy" if seen else "no_data"


def _most_at_once(finishes: pd.DataFrame) -> int:
    """The messages that were lost in one bucket at most, over all queues."""
    sums = finishes.groupby("bucket_at")["lost_messages"].sum()
    return int(sums.max()) if len(sums) else 0


def _arrivals(source: Source) -> tuple[float, float]:
    """Arrivals a second: as was usual before the recent part of the window, and in it.

    Usual is the middle one of stretches as long as the recent part: one batch, however large, makes no habit.
    """
    window, arrivals = source.window, source.frame("arrivals")
    arrivals = arrivals[arrivals["source"] == "new"]
    start = m.recent(window.since, window.until, window.bucket_s)
    before, recent = start - window.since, window.until - start
    pieces = math.ceil(before / recent)
    marks = [window.since + before * n / pieces for n in range(pieces)] + [start]
    rates = [m.per_s(arrivals, "arrived", since, until) or 0.0 for since, until in pairwise(marks)]
    return median_low(rates) if rates else 0.0, m.per_s(arrivals, "arrived", start, window.until) or 0.0


def _dead(source: Source) -> int:
    workers = source.frame("workers").drop_duplicates("worker_id")
    silent = ~m.beating(workers, source.now, patience(source))
    return int((workers["stopped_at"].isna() & (silent | workers["lost_at"].notna())).sum())


def _actions(verdict: str, code: str) -> tuple[Action, ...]:
    import shlex

    by_verdict = {
        "wiped_redis": (Action("doctor", "taskkit doctor"), Action("see_recovery", "taskkit status")),
        "dead_worker": (Action("see_workers", "taskkit status"), Action("diagnose_duplicates", "taskkit diagnose duplicates")),
        "handler_not_deployed": (Action("see_dead", f"taskkit tasks dead --code {shlex.quote(code)}"), Action("deploy_handler", "python -m taskkit.worker --app package.module:kit")),
        "refused_enqueue": (Action("probe", "taskkit probe default"), Action("read_producer_log", "grep -E 'PayloadError|InputError|TooLarge' producer.log")),
        "single_messages": (Action("doctor", "taskkit doctor"),),
    }  # fmt: skip
    return by_verdict.get(verdict, ())
