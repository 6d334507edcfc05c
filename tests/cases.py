"""Two windows for notebooks and pictures, made by hand: a busy healthy one, and one in which everything is wrong."""

from __future__ import annotations

from datetime import timedelta

from taskkit.analytics import GivenSource
from tests.incidents import (
    NOW,
    SINCE,
    arrived,
    finished,
    given,
    minutes,
    run,
    scheduler,
    times,
    waiting,
    worker,
)


def healthy() -> GivenSource:
    """What arrives is done; a report fires every ten minutes."""
    return given(
        tasks=waiting(due=3, queued=2, age_s=1.0),
        workers=[worker(n, busy=1) for n in (1, 2)],
        schedulers=[scheduler()],
        arrivals=[arrived(600, at) for at in minutes(5)],
        finishes=[finished(600, at) for at in minutes(5)],
        service_times=[times(200, 600, at) for at in minutes(5)],
        service_normal=[times(200, 100_000)],
        waits=[{**times(20, 600, at), "stage": "due_to_dispatched"} for at in minutes(5)],
        occurrences=[
            {"bucket_at": at, "task_code": "report", "state": "fired", "occurrences": 1, "late_max_s": 0.4}
            for at in minutes(10)
        ],
        slots=[slot(at, 1) for at in minutes(5)],
    )


def slot(at: object, n: int, failed: int = 0) -> dict[str, object]:
    """What one child of worker ``n`` ended in a bucket."""
    end = at + timedelta(seconds=55)  # type: ignore[operator]
    return {
        "bucket_at": at, "worker_id": f"h:{n}:a", "pid": 100 + n, "runs": 200, "failed": failed, "busy_s": 50.0,
        "first_at": at, "last_at": end,
    }  # fmt: skip


def broken() -> GivenSource:
    """A backlog behind workers of which one is dead, failures and retries, slow runs, doubles, missed times, losses."""
    dead = {"heartbeat_at": NOW - timedelta(minutes=20), "lost_at": NOW - timedelta(minutes=19)}
    troubled = [("fired", 7), ("missed", None), ("skipped", None), ("planned", None), ("fired", 2)]
    return given(
        tasks=waiting(due=150_000, queued=50_000),
        workers=[*(worker(n, processes=1, busy=1) for n in range(1, 5)), worker(9, **dead)],
        schedulers=[scheduler()],
        arrivals=[arrived(200_000)],
        finishes=[finished(1000, at, failed=250, timed_out=20, lost_running=5, again=260) for at in minutes(5)],
        service_times=[times(900, 960, at) for at in minutes(5)],
        service_normal=[times(290, 100_000)],
        waits=[{**times(60_000.0 * (n + 1), 900, at), "stage": "due_to_dispatched"} for n, at in enumerate(minutes(5))],
        samples=[
            {"bucket_at": at, "queue": "push", "samples": 4, "due_mean": 199_000.0 - n * 900, "queued_mean": 1000.0}
            for n, at in enumerate(minutes())
        ],
        slots=[slot(at, n, failed=n % 2) for at in minutes(5) for n in range(1, 5)],
        running=[
            {"task_id": 5000 + n, "task_code": "push", "queue": "push", "attempt": 1, "worker_id": f"h:{n}:a",
             "claimed_at": NOW - timedelta(minutes=n), "timeout_s": 300.0} for n in (1, 2)
        ],
        errors=[
            {"task_code": "push", "queue": "push", "outcome": "failed", "fingerprint": "3f9ac1d27b04", "runs": 3000,
             "tasks": 2900, "first_at": SINCE, "last_at": NOW, "error": "<b>ConnectionError</b>: refused \x1b[31m"}
        ],
        dead_letters=[
            {"task_code": "push", "queue": "push", "fingerprint": "3f9ac1d27b04", "tasks": 300, "new_tasks": 300,
             "first_at": SINCE, "last_at": NOW, "sample_id": 17, "error": "ConnectionError: refused"}
        ],
        runs=[
            run(17, 1, "superseded"), run(17, 2, "success"), run(18, 1, "lost"), run(18, 2, "success"),
            run(19, 1, "failed"), run(19, 2, "timeout"), run(19, 3, "success"),
        ],
        occurrences=[
            {"bucket_at": at, "task_code": "同步 $x$", "state": "fired", "occurrences": 1, "late_max_s": 1.0}
            for at in minutes(10)
        ],
        troubled_occurrences=[
            {"task_id": 1, "task_code": "invoice", "queue": "push", "cron_expr": "*/10 * * * *", "timezone": "UTC",
             "planned_at": SINCE + timedelta(minutes=10 * n), "state": state, "late_s": 60.0 * late if late else None,
             "fired_at": SINCE + timedelta(minutes=10 * n + late) if late else None}
            for n, (state, late) in enumerate(troubled)
        ],
        limits=[{"scope": "queue", "name": "push", "rate": 100, "period_s": 1.0}],
    )  # fmt: skip
