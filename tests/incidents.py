"""Frames made by hand for tests of diagnoses: a window, and rows with what a test is about filled in."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

from taskkit.analytics import FRAMES, GivenSource, Window

NOW = datetime(2026, 3, 1, 1, 0, tzinfo=UTC)
SINCE = NOW - timedelta(hours=1)
WINDOW = Window(SINCE, NOW)
LATELY = NOW - timedelta(minutes=2)


def given(**frames: list[dict[str, Any]]) -> GivenSource:
    """A source with these rows; the other frames are empty."""
    return GivenSource(WINDOW, {name: FRAMES[name].of(rows) for name, rows in frames.items()}, NOW)


def minutes(every: int = 1) -> list[datetime]:
    return [SINCE + timedelta(minutes=n) for n in range(0, 60, every)]


def waiting(
    due: int = 0, queued: int = 0, queue: str = "push", age_s: float = 3600.0
) -> list[dict[str, Any]]:
    oldest = NOW - timedelta(seconds=age_s)
    return [
        {"queue": queue, "priority": 5, "status": status, "tasks": n, "due": n, "oldest_due_at": oldest}
        for status, n in ((0, due), (1, queued))
        if n
    ]


def worker(
    number: int = 1, *, queues: str = "push", processes: int = 5, busy: int = 5, **fields: Any
) -> dict[str, Any]:
    fixed = {
        "host": "h",
        "pid": number,
        "started_at": SINCE,
        "heartbeat_at": NOW,
        "last_progress_at": NOW,
        "cpu_percent": 1.0,
    }
    return (
        {"worker_id": f"h:{number}:a", "queues": queues, "processes": processes, "busy": busy}
        | fixed
        | fields
    )


def scheduler(**fields: Any) -> dict[str, Any]:
    fixed = {
        "scheduler_id": "h:9:s",
        "host": "h",
        "pid": 9,
        "started_at": SINCE,
        "heartbeat_at": NOW,
        "last_scan_at": NOW,
    }
    return fixed | fields


def times(
    ms: float, runs: int, at: datetime = LATELY, code: str = "push", queue: str = "push"
) -> dict[str, Any]:
    """``runs`` runs that took ``ms`` each, as one bin."""
    number = -1 if ms < 1 else math.floor(math.log(ms) / math.log(1.05))
    return {
        "bucket_at": at, "queue": queue, "task_code": code, "bin": number, "runs": runs, "min_ms": ms, "max_ms": ms, "sum_ms": ms * runs,
    }  # fmt: skip


def finished(
    n: int, at: datetime = LATELY, code: str = "push", queue: str = "push", **parts: int
) -> dict[str, Any]:
    bad = sum(
        parts.get(name, 0) for name in ("failed", "timed_out", "lost_running", "lost_messages", "superseded")
    )
    return {"bucket_at": at, "queue": queue, "task_code": code, "finished": n, "succeeded": n - bad} | parts


def arrived(n: int, at: datetime = SINCE, code: str = "push", queue: str = "push") -> dict[str, Any]:
    return {"bucket_at": at, "queue": queue, "task_code": code, "source": "new", "arrived": n}


def run(task_id: int, attempt: int, outcome: str, **fields: Any) -> dict[str, Any]:
    begun = NOW - timedelta(minutes=30 - attempt)
    fixed = {
        "task_code": "push", "queue": "push", "worker_id": f"h:{attempt}:a", "host": "h", "pid": attempt,
        "dispatched_at": begun, "started_at": begun, "finished_at": begun + timedelta(seconds=10), "runtime_ms": 10_000.0,
    }  # fmt: skip
    return {"task_id": task_id, "attempt": attempt, "outcome": outcome} | fixed | fields
