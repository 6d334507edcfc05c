"""streaQ: 2 processes x concurrency 32 (default 16)."""

from __future__ import annotations

import os
import sys

import worklib
from streaq import Worker

SPEC = {
    "requirements": ["streaq"],
    "versions": ["streaq", "coredis"],
    "bulk": 500,
    "variants": {
        "c32": {"title": "streaq 2 procs x 32, ttl 0 (no results)", "servers": ["redis"], "slots": 64},
    },
}
DEFAULT = os.environ.get("BENCH_SETTINGS") == "default"
worker = Worker(redis_url=os.environ.get("BENCH_REDIS_URL", "redis://"), concurrency=16 if DEFAULT else 32)
OPTIONS = {} if DEFAULT else {"ttl": 0}


@worker.task(name="noop", **OPTIONS)
async def noop(task_id: int, enqueued_at: float) -> None:
    """The no-op task."""
    worklib.noop(task_id, enqueued_at)


@worker.task(name="nap", **OPTIONS)
async def nap(task_id: int, enqueued_at: float) -> None:
    """The crash-test task."""
    await worklib.nap_async(task_id, enqueued_at)


TASKS = {"noop": noop, "nap": nap}


class Producer:
    """``task.enqueue`` and ``Worker.enqueue_many``."""

    async def enqueue(self, task: str, task_id: int, enqueued_at: float) -> None:
        """Enqueue one task."""
        await TASKS[task].enqueue(task_id, enqueued_at)

    async def enqueue_bulk(self, task: str, items: list[tuple[int, float]]) -> None:
        """Enqueue many tasks in one pipeline."""
        await worker.enqueue_many([TASKS[task].enqueue(*item) for item in items])

    async def close(self) -> None:
        """Close the connections."""
        await worker.__aexit__(None, None, None)


async def open_producer() -> Producer:
    """Return the producer."""
    await worker.__aenter__()
    return Producer()


def worker_commands() -> list[list[str]]:
    """The streaq command with two worker processes, quiet."""
    start = (
        "import logging.config; logging.config.dictConfig = lambda *a: None; "
        "from streaq.cli import cli; cli()"
    )
    return [[sys.executable, "-c", start, "run", "systems.streaq:worker"]] * 2
