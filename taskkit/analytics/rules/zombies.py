"""Rule ``zombies``: who makes no progress while work waits, where it is stuck, and who holds what it waits for."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pandas as pd

from taskkit.analytics import measures as m
from taskkit.analytics.diagnosis import Action, Diagnosis, Figure, Subject
from taskkit.analytics.rules.backlog_facts import waiting_by_queue
from taskkit.analytics.rules.base import about, patience, tasks_told
from taskkit.analytics.source import Source
from taskkit.beats import FRESH_S

STILL_S, LOCK_S = 60.0, 5.0
SPINNING, FULL = 5.0, 80.0
"""Percent of a core for each child that runs something: who waits uses next to none; who loops gets all that others leave."""
PATIENCE = 3.0
OUR_TABLES = re.compile(r"\btask_[a-z_]+")
"""A worker itself writes only to these; another table can hold up nothing but its handlers."""
ORDER = ("sql_row_lock", "metadata_lock", "spinning", "stuck", "starved", "dead")
QUIET = ("healthy", "busy", "no_data")
STACK_LETTERS = 300
MOST_RUNS = 3


@dataclass(frozen=True, slots=True)
class ZombieFacts:
    """What is known beside the workers themselves."""

    now: datetime
    waiting: dict[str, int]
    normal_s: dict[str, float]
    running: pd.DataFrame
    lock: dict[str, Any] | None
    patience: float


def diagnose(source: Source) -> Diagnosis:
    """The verdict is the cause that explains the others; each worker has its own among the findings."""
    workers = source.frame("workers").drop_duplicates("worker_id")
    workers = workers[workers["stopped_at"].isna()]
    look = ZombieFacts(
        source.now,
        _waiting(source),
        _normal(source),
        source.frame("running"),
        _lock(source),
        patience(source),
    )
    causes = {str(w.worker_id): _cause(w, look) for w in workers.itertuples()}
    counts = Counter(causes.values())
    verdict = next(
        (one for one in ORDER if counts[one]),
        "busy" if counts["busy"] else "healthy" if causes else "no_data",
    )
    found = [
        _finding(w, causes[str(w.worker_id)], look)
        for w in workers.itertuples()
        if causes[str(w.worker_id)] in ORDER
    ]
    lock = look.lock or {}
    missing = dict(source.frame("facts").itertuples(index=False, name=None)).get("missing_grants") or None
    return about(
        source,
        "zombies",
        verdict,
        "ok" if verdict in QUIET else "critical",
        _confidence(verdict, missing, workers, causes, lock),
        evidence=_evidence(workers, causes, look, missing, verdict),
        actions=() if verdict in QUIET else _actions(verdict, lock, missing),
        found=sorted(found, key=lambda one: (ORDER.index(one.cause), one.subject)),
        details={**{k: lock.get(k) for k in ("holder", "account", "statement", "table")}, "missing_grants": missing},
    )  # fmt: skip


def _waiting(source: Source) -> dict[str, int]:
    found = waiting_by_queue(source)
    return {str(queue): int(n) for queue, n in found["waiting"].items()}


def _normal(source: Source) -> dict[str, float]:
    """How long the runs of a code take at most as a rule: its 95th percentile in seconds."""
    bins = pd.concat([source.frame("service_normal"), source.frame("service_times")])
    found = {str(code): m.percentile(part, 0.95) for code, part in bins.groupby("task_code")}
    return {code: value / 1000 for code, value in found.items() if value is not None}


def _lock(source: Source) -> dict[str, Any] | None:
    """The lock for which somebody has waited longest, and the transaction that holds it."""
    waits = source.frame("lock_waits")
    waits = waits[waits["waited_s"] >= LOCK_S * patience(source)].sort_values("waited_s", ascending=False)
    if waits.empty:
        return None
    open_ones = source.frame("transactions")
    waiters = set(waits["waiting_thread"])
    roots = waits[~waits["holding_thread"].isin(waiters)]
    first = (roots if len(roots) else waits).iloc[0]
    held = (
        open_ones[open_ones["thread"] == first["holding_thread"]]
        if pd.notna(first["holding_thread"])
        else open_ones.head(1)
    )
    holder = held.iloc[0].to_dict() if len(held) else {}
    thread = holder.get("thread", first["holding_thread"])
    return {
        "kind": first["kind"],
        "waited_s": float(first["waited_s"]),
        "waiters": len(waiters),
        "ours": first["kind"] == "metadata" or OUR_TABLES.search(str(first["table_name"])) is not None,
        "table": first["table_name"],
        "holder": None if pd.isna(thread) else int(thread),
        "account": holder.get("account"),
        "statement": holder.get("statement"),
        "age_s": holder.get("age_s"),
    }


def _cause(worker: Any, look: ZombieFacts) -> str:
    beat = m.age_s(worker.heartbeat_at, look.now)
    if pd.notna(worker.lost_at) or beat is None or beat > FRESH_S * look.patience:
        return "dead"
    last = worker.started_at if pd.isna(worker.last_progress_at) else worker.last_progress_at
    still = m.age_s(last, look.now)
    works = _work_for(str(worker.queues or ""), look.waiting)
    if still is None or still < STILL_S * look.patience or not (works or worker.busy):
        return "healthy"
    return _without_progress(worker, look)


def _without_progress(worker: Any, look: ZombieFacts) -> str:
    """What keeps a worker that has work: a lock is blamed only where this worker may be one of those that wait for it."""
    lock = look.lock or {}
    named = "metadata_lock" if lock.get("kind") == "metadata" else "sql_row_lock"
    spins = (cpu_each(worker) or 0.0) >= SPINNING
    if lock and lock["ours"] and not spins:
        return named
    if not worker.busy:
        return "starved"
    if _within_its_time(worker, look):
        return "busy"
    if spins:
        return "spinning"
    return named if lock else "stuck"


def cpu_each(worker: Any) -> float | None:
    """The CPU of each child that runs something, in percent of a core; it may hold more tasks than it has children."""
    runs = min(int(worker.busy), int(worker.processes))
    cpu = worker.children_cpu_percent
    return None if pd.isna(cpu) or not runs else float(cpu) / runs


def begun_by(worker: Any) -> set[int]:
    """The tasks whose handler had begun, by its last heartbeat."""
    return {int(one["task_id"]) for one in tasks_told(worker.tasks) if one.get("begun")}


def _work_for(queues: str, waiting: dict[str, int]) -> int:
    names = {name.strip() for name in queues.split(",")}
    return sum(n for queue, n in waiting.items() if queue in names or "*" in names)


def _within_its_time(worker: Any, look: ZombieFacts) -> bool:
    """Whether each of its runs is no longer than such runs take; without a normal, than its limit allows."""
    mine = _runs_of(worker, look)
    return not mine.empty and all(_in_time(run, look) for run in mine.itertuples())


def _runs_of(worker: Any, look: ZombieFacts) -> pd.DataFrame:
    """What it runs; where its heartbeat says what has begun, without what it holds behind that."""
    mine = look.running[look.running["worker_id"] == worker.worker_id]
    begun = begun_by(worker)
    return mine[mine["task_id"].isin(begun)] if begun else mine


def _in_time(run: Any, look: ZombieFacts) -> bool:
    age, normal = m.age_s(run.claimed_at, look.now), look.normal_s.get(run.task_code)
    limit = run.timeout_s / 2 if normal is None else max(STILL_S * look.patience, PATIENCE * normal)
    return age is not None and age <= limit


def _finding(worker: Any, cause: str, look: ZombieFacts) -> Subject:
    figures = [
        Figure("heartbeat_age", m.age_s(worker.heartbeat_at, look.now), "s"),
        Figure("progress_age", m.age_s(worker.last_progress_at, look.now), "s"),
        Figure(
            "cpu", None if pd.isna(worker.children_cpu_percent) else float(worker.children_cpu_percent), "%"
        ),
        Figure("busy_slots", int(worker.busy), "slots"),
    ]
    if told := _told_runs(worker, look):
        figures.append(Figure("runs_now", told))
    if isinstance(worker.stacks, str) and worker.stacks:
        figures.append(Figure("stack", " ".join(worker.stacks.split())[-STACK_LETTERS:]))
    return Subject(cause, str(worker.worker_id), tuple(figures))


def _told_runs(worker: Any, look: ZombieFacts) -> str:
    """What it runs, the oldest first: ``sync_rows 17, sync_rows 18``."""
    mine = _runs_of(worker, look).sort_values("claimed_at")
    return ", ".join(f"{run.task_code} {run.task_id}" for run in mine.head(MOST_RUNS).itertuples())


def _confidence(
    verdict: str, missing: str | None, workers: pd.DataFrame, causes: dict[str, str], lock: dict[str, Any]
) -> str:
    if verdict in {"stuck", "starved"} and missing:
        return "low"
    if verdict in {"sql_row_lock", "metadata_lock"}:
        blamed = sum(c == verdict for c in causes.values())
        return (
            "high" if lock["ours"] and blamed * 2 >= len(workers) and blamed <= lock["waiters"] else "medium"
        )
    if verdict == "spinning":
        loops = (cpu_each(w) or 0.0 for w in workers.itertuples() if causes[str(w.worker_id)] == verdict)
        return "high" if max(loops) >= FULL else "medium"
    return "medium" if verdict in {"stuck", "starved"} else "high"


def _evidence(
    workers: pd.DataFrame, causes: dict[str, str], look: ZombieFacts, missing: str | None, verdict: str
) -> tuple[Figure, ...]:
    """About those that live without progress; about the dead where there are no others."""
    about = {"dead"} if verdict == "dead" else {*ORDER} - {"dead"}
    ill = [w for w in workers.itertuples() if causes[str(w.worker_id)] in about]
    cpus = [float(w.children_cpu_percent) for w in ill if pd.notna(w.children_cpu_percent)]
    lock = look.lock or {}
    return (
        Figure("workers_ill", len(ill), "workers"),
        Figure("workers_alive", sum(cause != "dead" for cause in causes.values()), "workers"),
        Figure("waiting", sum(look.waiting.values()), "tasks"),
        Figure("progress_age", m.age_of_first((w.last_progress_at for w in ill), look.now), "s"),
        Figure("heartbeat_age", m.age_of_first((w.heartbeat_at for w in ill), look.now), "s"),
        Figure("cpu", sum(cpus) / len(cpus) if cpus else None, "%"),
        *((Figure("lock_waited", lock["waited_s"], "s"), Figure("lock_held", lock["age_s"], "s"), Figure("lock_waiters", lock["waiters"])) if lock else ()),
        *((Figure("missing_grants", missing),) if missing else ()),
    )  # fmt: skip


def _actions(verdict: str, lock: dict[str, Any], missing: str | None) -> tuple[Action, ...]:
    look_at = Action("see_stuck", "taskkit status --json")
    kill = (
        (Action("kill_holder", f'mysql -e "KILL {lock["holder"]}"'),)
        if lock.get("holder") is not None
        else ()
    )
    grant = (Action("grant", f"GRANT {missing.split(', ')[0]} TO CURRENT_USER"),) if missing else ()
    restart = Action("restart_worker", "supervisorctl restart taskkit-worker:*")
    by_verdict = {
        "sql_row_lock": (Action("see_transactions", "taskkit doctor"), *kill),
        "metadata_lock": (Action("see_transactions", "taskkit doctor"), *kill),
        "spinning": (look_at, restart),
        "stuck": (look_at, *grant, restart),
        "starved": (look_at, Action("probe", "taskkit probe default"), *grant, restart),
        "dead": (
            Action("doctor", "taskkit doctor"),
            Action("diagnose_lost", "taskkit diagnose lost"),
            restart,
        ),
    }
    return by_verdict[verdict]
