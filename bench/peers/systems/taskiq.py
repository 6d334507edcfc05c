"""taskiq: list broker and stream broker (with acknowledgements), 2 processes x 100."""

from __future__ import annotations

import os
import sys

import worklib
from taskiq_redis import ListQueueBroker, RedisStreamBroker

SPEC = {
    "requirements": ["taskiq", "taskiq-redis", "hiredis", "uvloop"],
    "versions": ["taskiq", "taskiq-redis", "redis"],
    "bulk": 0,
    "variants": {
        "list": {
            "title": "taskiq 2 procs x 100, ListQueueBroker, no results",
            "servers": ["redis"],
            "slots": 200,
        },
        "stream": {
            "title": "taskiq 2 procs x 100, RedisStreamBroker, no results",
            "servers": ["redis"],
            "slots": 200,
        },
    },
}
if os.environ.get("BENCH_VARIANT") == "stream":
    broker = RedisStreamBroker(os.environ.get("BENCH_REDIS_URL", "redis://"), consumer_id="0")
else:
    broker = ListQueueBroker(os.environ.get("BENCH_REDIS_URL", "redis://"))


@broker.task("noop")
async def noop(task_id: int, enqueued_at: float) -> None:
    """The no-op task."""
    worklib.noop(task_id, enqueued_at)


@broker.task("nap")
async def nap(task_id: int, enqueued_at: float) -> None:
    """The crash-test task."""
    await worklib.nap_async(task_id, enqueued_at)


TASKS = {"noop": noop, "nap": nap}


class Producer:
    """``task.kiq``; taskiq has no bulk call."""

    async def enqueue(self, task: str, task_id: int, enqueued_at: float) -> None:
        """Enqueue one task."""
        await TASKS[task].kiq(task_id, enqueued_at)

    async def close(self) -> None:
        """Close the connections."""
        await broker.shutdown()


async def open_producer() -> Producer:
    """Return the producer."""
    await broker.startup()
    return Producer()


def worker_commands() -> list[list[str]]:
    """The taskiq command with two worker processes."""
    return [
        [
            sys.executable,
            "-m",
            "taskiq",
            "worker",
            "systems.taskiq:broker",
            "--workers",
            "2",
            "--log-level",
            "WARNING",
        ]
    ]
