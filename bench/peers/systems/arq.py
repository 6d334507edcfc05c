"""arq: 2 processes; 100 jobs a process and a 10 ms poll where tuned (default: 10 jobs, 500 ms)."""

from __future__ import annotations

import os
import sys
from typing import ClassVar

import worklib
from arq import create_pool
from arq.connections import RedisSettings

SPEC = {
    "requirements": ["arq", "hiredis"],
    "versions": ["arq", "redis"],
    "bulk": 0,
    "variants": {
        "tuned": {
            "title": "arq 2 procs, max_jobs 100, poll_delay 10 ms, no results",
            "servers": ["redis"],
            "slots": 200,
        },
        "default": {
            "title": "arq 2 procs, default settings",
            "servers": ["redis"],
            "slots": 20,
            "optional": True,
        },
    },
}
TUNED = os.environ.get("BENCH_VARIANT") == "tuned" and os.environ.get("BENCH_SETTINGS") != "default"


async def noop(ctx, task_id: int, enqueued_at: float) -> None:
    """The no-op task."""
    worklib.noop(task_id, enqueued_at)


async def nap(ctx, task_id: int, enqueued_at: float) -> None:
    """The crash-test task."""
    await worklib.nap_async(task_id, enqueued_at)


class WorkerSettings:
    """Settings that the ``arq`` command reads."""

    functions: ClassVar = [noop, nap]
    redis_settings = RedisSettings.from_dsn(os.environ.get("BENCH_REDIS_URL", "redis://"))
    if TUNED:
        max_jobs = 100
        poll_delay = 0.01
        keep_result = 0
        log_results = False


class Producer:
    """``enqueue_job``; arq has no bulk call."""

    def __init__(self, pool) -> None:
        self.pool = pool

    async def enqueue(self, task: str, task_id: int, enqueued_at: float) -> None:
        """Enqueue one task."""
        await self.pool.enqueue_job(task, task_id, enqueued_at)

    async def close(self) -> None:
        """Close the connections."""
        await self.pool.aclose()


async def open_producer() -> Producer:
    """Return the producer."""
    return Producer(await create_pool(WorkerSettings.redis_settings))


def worker_commands() -> list[list[str]]:
    """Two arq processes."""
    quiet = ["--custom-log-dict", "systems.arq.QUIET"]
    return [[sys.executable, "-m", "arq", "systems.arq.WorkerSettings", *quiet]] * 2


QUIET = {"version": 1, "disable_existing_loggers": False, "loggers": {"arq": {"level": "WARNING"}}}
