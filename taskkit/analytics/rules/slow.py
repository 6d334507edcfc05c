"""Rule ``slow``: which codes take longer than their own normal, since when, and whether all of them do."""

from __future__ import annotations

import shlex
from typing import Any

import pandas as pd

from taskkit.analytics import measures as m
from taskkit.analytics.diagnosis import Action, Diagnosis, Figure, Subject
from taskkit.analytics.rules.backlog_facts import slow_since
from taskkit.analytics.rules.base import about
from taskkit.analytics.source import Source

TIMES = 2.0
ENOUGH = 50
SEVERAL = 3


def diagnose(source: Source) -> Diagnosis:
    """A code is slow when the p95 of its recent runs is twice that of the week before, or of the window's first half."""
    codes = _codes(source)
    known = [one for one in codes if one["times"] is not None]
    slow = sorted(
        (one for one in known if one["times"] >= TIMES), key=lambda one: (-one["times"], one["code"])
    )
    worst = slow[0] if slow else max(known, key=lambda one: (one["times"], one["code"]), default={})
    if not codes:
        verdict = "no_data"
    elif not known:
        verdict = "no_normal"
    elif not slow:
        verdict = "healthy"
    else:
        verdict = "all_codes" if len(slow) >= SEVERAL and len(slow) * 2 > len(known) else "one_code"
    quiet = not slow
    code = shlex.quote(str(worst.get("code", "")))
    return about(
        source,
        "slow",
        verdict,
        ("note" if verdict == "no_normal" else "ok") if quiet else "warning",
        "high" if worst.get("old") else "medium",
        evidence=(
            Figure("p95_now", worst.get("now"), "ms"),
            Figure("p95_normal", worst.get("normal"), "ms"),
            Figure("slower", worst.get("times"), "times"),
            Figure("runs_judged", worst.get("runs", 0), "runs"),
            Figure("codes_slow", len(slow)),
            Figure("codes_known", len(known)),
        ),
        actions=() if quiet else (
            Action("see_running", f"taskkit tasks list --status running --code {code}"),
            Action("doctor", "taskkit doctor") if verdict == "all_codes" else Action("diagnose_zombies", "taskkit diagnose zombies"),
        ),
        found=[Subject("slower_code", one["code"], (Figure("p95_now", one["now"], "ms"), Figure("p95_normal", one["normal"], "ms"))) for one in slow],
        details={"code": worst.get("code"), "slow_since": worst.get("since")},
    )  # fmt: skip


def _codes(source: Source) -> list[dict[str, Any]]:
    bins, week = source.frame("service_times"), source.frame("service_normal")
    lately = m.recent(source.window.since, source.window.until, source.window.bucket_s)
    return [
        _code(str(code), part, week[week["task_code"] == code], pd.Timestamp(lately))
        for code, part in bins.groupby("task_code")
    ]


def _code(code: str, bins: pd.DataFrame, week: pd.DataFrame, lately: pd.Timestamp) -> dict[str, Any]:
    now = bins[bins["bucket_at"] >= lately]
    if int(now["runs"].sum()) < ENOUGH:
        now = bins
    old = int(week["runs"].sum()) >= ENOUGH
    normal = (
        week
        if old
        else bins[bins["bucket_at"] < bins["bucket_at"].min() + (lately - bins["bucket_at"].min()) / 2]
    )
    enough = int(now["runs"].sum()) >= ENOUGH and int(normal["runs"].sum()) >= ENOUGH
    was, is_now = m.percentile(normal, 0.95), m.percentile(now, 0.95)
    times = m.ratio(is_now, was) if enough else None
    slow = times is not None and times >= TIMES
    since = slow_since(bins, m.percentile(normal, 0.5)) if slow else None
    return {"code": code, "now": is_now, "normal": was if enough else None, "times": times,
            "runs": int(now["runs"].sum()), "old": old, "since": since}  # fmt: skip
