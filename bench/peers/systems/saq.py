"""SAQ on Redis: 2 processes x concurrency 20 (default 10)."""

from __future__ import annotations

import os
import sys

import worklib
from saq import Queue

SPEC = {
    "requirements": ["saq[redis,hiredis]", "typing_extensions"],
    "versions": ["saq", "redis"],
    "bulk": 0,
    "variants": {
        "c20": {"title": "saq 2 procs x 20, ttl -1 (no results)", "servers": ["redis"], "slots": 40},
    },
}
queue = Queue.from_url(os.environ.get("BENCH_REDIS_URL", "redis://"), name="bench")


async def noop(ctx, *, task_id: int, enqueued_at: float) -> None:
    """The no-op task."""
    worklib.noop(task_id, enqueued_at)


async def nap(ctx, *, task_id: int, enqueued_at: float) -> None:
    """The crash-test task."""
    await worklib.nap_async(task_id, enqueued_at)


DEFAULT = os.environ.get("BENCH_SETTINGS") == "default"
settings = {"queue": queue, "functions": [noop, nap], "concurrency": 10 if DEFAULT else 20}


class Producer:
    """``Queue.enqueue``; SAQ has no bulk call."""

    async def enqueue(self, task: str, task_id: int, enqueued_at: float) -> None:
        """Enqueue one task."""
        await queue.enqueue(
            task, task_id=task_id, enqueued_at=enqueued_at, **({} if DEFAULT else {"ttl": -1})
        )

    async def close(self) -> None:
        """Close the connections."""
        await queue.disconnect()


async def open_producer() -> Producer:
    """Return the producer."""
    await queue.connect()
    return Producer()


def worker_commands() -> list[list[str]]:
    """Two saq processes."""
    return [[sys.executable, "-m", "saq", "systems.saq.settings", "--quiet"]] * 2
