"""Incidents as a lab causes them, in the frames and answers that checks ask for; relative to an instant."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from taskkit.center.alert_checks import NewDead, NodeSign, NotFired, QueueDepth, RunCounts
from taskkit.health.glance import Glance

Rows = list[dict[str, Any]]
HOST, QUEUE, CODE = "node-7", "mail", "send_mail"
DEAD_S, STILL_S = 94.0, 252.0


@dataclass(frozen=True, slots=True)
class Incident:
    """What an installation looks like when a rule fires."""

    frames: Mapping[str, Rows] = field(default_factory=dict)
    workers: Sequence[NodeSign] = ()
    schedulers: Sequence[NodeSign] = ()
    watchdogs: Sequence[NodeSign] = ()
    depths: Sequence[QueueDepth] = ()
    counts: RunCounts = field(default_factory=RunCounts)
    held: Mapping[str, int] = field(default_factory=dict)
    by_code: Mapping[str, int] = field(default_factory=dict)
    dead: Sequence[NewDead] = ()
    not_fired: Sequence[NotFired] = ()
    glance: Glance = field(default_factory=Glance)


def incident(signal: str, now: datetime) -> Incident:
    """The incident of a signal."""
    return INCIDENTS[signal](now)


def _backlog(now: datetime) -> Incident:
    """A batch of the night: far more was written than is done, by workers that do what they can."""
    arrivals = [_arrived(now, 55, 48_000), *(_arrived(now, ago, 1200) for ago in range(1, 55))]
    return Incident(_load(now, 48_213, arrivals), depths=[QueueDepth(QUEUE, 47_013, 1200)])


def _forecast(now: datetime) -> Incident:
    """More comes than is done, and it is known when that will hurt."""
    arrivals = [_arrived(now, ago, 2400) for ago in range(1, 60)]
    return Incident(_load(now, 3120, arrivals), depths=[QueueDepth(QUEUE, 2120, 1000)])


def _load(now: datetime, waiting: int, arrivals: Rows) -> Mapping[str, Rows]:
    finishes = [_finished(now, ago, 1910) for ago in range(1, 60)]
    times = [_times(now, ago, 300.0, 1910) for ago in range(1, 60)]
    workers = [_worker(now, number, busy=5) for number in (1, 2)]
    oldest = now - timedelta(minutes=55 if waiting > 10_000 else 2)
    tasks = [
        {"queue": QUEUE, "priority": 5, "status": status, "tasks": n, "due": n, "oldest_due_at": oldest}
        for status, n in ((0, waiting - 1000), (1, 1000))
    ]
    return {
        "tasks": tasks, "arrivals": arrivals, "finishes": finishes, "service_times": times, "workers": workers,
        "schedulers": [_scheduler(now)],
    }  # fmt: skip


def _success_rate(now: datetime) -> Incident:
    error = {
        "task_code": CODE, "queue": QUEUE, "outcome": "failed", "fingerprint": "3f9ac1d27b04", "runs": 61, "tasks": 61,
        "error": "ConnectionRefusedError: smtp.example.com:25 refused the connection",
    }  # fmt: skip
    frames = {"finishes": [_finished(now, 2, 1480, failed=61)], "errors": [error]}
    return Incident(frames, counts=RunCounts(1419, 61))


def _worker_dead(now: datetime) -> Incident:
    alive = [_sign(now, number, 1.0, queues=frozenset({QUEUE})) for number in (2, 3)]
    dead = _sign(now, 1, DEAD_S, queues=frozenset({QUEUE}), busy=5)
    return Incident(workers=[dead, *alive], held={dead.id: 37})


def _zombies(now: datetime) -> Incident:
    """A row that somebody has locked holds up every child of a worker."""
    still = now - timedelta(seconds=STILL_S)
    stuck = _worker(now, 1, busy=5) | {"last_progress_at": still, "children_cpu_percent": 1.0}
    lock = {
        "waiting_thread": 5, "holding_thread": 812, "table_name": "shop.orders", "kind": "row", "waited_s": 250,
    }  # fmt: skip
    holder = {
        "thread": 812, "account": "report", "state": "RUNNING", "statement": "SELECT … FROM orders FOR UPDATE",
        "age_s": 900,
    }  # fmt: skip
    waiting = {"queue": QUEUE, "priority": 5, "status": 1, "tasks": 412, "due": 412, "oldest_due_at": still}
    frames = {"workers": [stuck], "tasks": [waiting], "lock_waits": [lock], "transactions": [holder]}
    sign = _sign(now, 1, 1.0, queues=frozenset({QUEUE}), busy=5, progress_age_s=STILL_S)
    return Incident(frames, workers=[sign])


def _lost(now: datetime) -> Incident:
    frames = {"finishes": [_finished(now, 4, 3200, lost_messages=412)]}
    return Incident(frames, counts=RunCounts(3200, 0, 0, 412))


def _slow(now: datetime) -> Incident:
    normal = _times(now, 2, 310.0, 4000)
    return Incident(
        {"service_times": [_times(now, 2, 1240.0, 640)], "service_normal": [normal]}, by_code={CODE: 640}
    )


def _scheduler_gone(now: datetime) -> Incident:
    return Incident(
        schedulers=[_sign(now, 9, DEAD_S, scan_age_s=DEAD_S, last_scan_at=now - timedelta(seconds=DEAD_S))]
    )


def _given_up(now: datetime) -> Incident:
    error = "HTTPStatusError: 402 Payment Required for https://api.example.com/charge"
    first = now - timedelta(minutes=6)
    return Incident(dead=[NewDead("charge_card", "payments", "9b1e44d20c7a", 14, first, 48_117, error)])


def _missed(now: datetime) -> Incident:
    planned = now - timedelta(minutes=3)
    trouble = {
        "task_id": 31, "task_code": "nightly_report", "queue": "reports", "status": 0, "planned_at": planned,
        "state": "planned",
    }  # fmt: skip
    count = {
        "bucket_at": planned,
        "task_code": "nightly_report",
        "state": "planned",
        "occurrences": 1,
        "failed": 0,
    }
    late = NotFired(
        "nightly_report", "planned", "", held=False, occurrences=1, first_at=planned, sample_id=31
    )
    return Incident({"occurrences": [count], "troubled_occurrences": [trouble]}, not_fired=[late])


def _duplicates(now: datetime) -> Incident:
    """An attempt that was declared dead ended after all, and so did the next one."""
    begun = now - timedelta(minutes=12)
    runs = [
        {
            "task_id": 48_009, "task_code": "charge_card", "queue": "payments", "attempt": attempt, "outcome": outcome,
            "worker_id": f"{HOST}:471{attempt}:9f3c", "host": HOST, "pid": 4710 + attempt, "runtime_ms": 41_000.0,
            "dispatched_at": begun, "started_at": begun, "finished_at": begun + timedelta(seconds=41 * attempt),
        }
        for attempt, outcome in ((1, "superseded"), (2, "success"))
    ]  # fmt: skip
    return Incident({"finishes": [_finished(now, 3, 900)], "runs": runs})


def _stores(now: datetime) -> Incident:
    problem = "the broker at redis://10.0.0.9:6379 does not answer: Connection refused"
    return Incident(glance=Glance(sql_ms=0.8, broker_problem=problem))


def _watchdog(now: datetime) -> Incident:
    return Incident(watchdogs=[_sign(now, 20, 75.0), _sign(now, 21, 1.0)])


INCIDENTS = {
    "backlog": _backlog,
    "success_rate": _success_rate,
    "worker_dead": _worker_dead,
    "zombies": _zombies,
    "lost": _lost,
    "slow": _slow,
    "scheduler": _scheduler_gone,
    "given_up": _given_up,
    "missed": _missed,
    "forecast": _forecast,
    "duplicates": _duplicates,
    "stores": _stores,
    "watchdog": _watchdog,
}
"""Of every signal."""


def _sign(now: datetime, number: int, silent_s: float, **more: Any) -> NodeSign:
    pid, heard = 4710 + number, now - timedelta(seconds=silent_s)
    start = now - timedelta(hours=7)
    return NodeSign(f"{HOST}:{pid}:9f3c", HOST, pid, start, heard, silent_s, **more)


def _worker(now: datetime, number: int, *, busy: int) -> dict[str, Any]:
    pid = 4710 + number
    return {
        "worker_id": f"{HOST}:{pid}:9f3c", "host": HOST, "pid": pid, "queues": QUEUE, "processes": 5, "busy": busy,
        "started_at": now - timedelta(hours=7), "heartbeat_at": now, "last_progress_at": now, "cpu_percent": 3.0,
    }  # fmt: skip


def _scheduler(now: datetime) -> dict[str, Any]:
    started = now - timedelta(hours=7)
    return {
        "scheduler_id": f"{HOST}:4720:5d20", "host": HOST, "pid": 4720, "started_at": started, "heartbeat_at": now,
        "last_scan_at": now,
    }  # fmt: skip


def _times(now: datetime, minutes: int, ms: float, runs: int) -> dict[str, Any]:
    """So many runs that took so long each, as one bin."""
    number = math.floor(math.log(ms) / math.log(1.05))
    return {
        "bucket_at": now - timedelta(minutes=minutes), "queue": QUEUE, "task_code": CODE, "bin": number, "runs": runs,
        "min_ms": ms, "max_ms": ms, "sum_ms": ms * runs,
    }  # fmt: skip


def _finished(now: datetime, minutes: int, runs: int, **parts: int) -> dict[str, Any]:
    at = now - timedelta(minutes=minutes)
    row = {"bucket_at": at, "queue": QUEUE, "task_code": CODE, "finished": runs}
    return row | {"succeeded": runs - sum(parts.values())} | parts


def _arrived(now: datetime, minutes: int, tasks: int) -> dict[str, Any]:
    at = now - timedelta(minutes=minutes)
    return {"bucket_at": at, "queue": QUEUE, "task_code": CODE, "source": "new", "arrived": tasks}
