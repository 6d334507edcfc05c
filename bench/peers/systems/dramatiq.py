"""Dramatiq on Redis: 2 processes x 8 threads (its default per process), larger prefetch.

With the default prefetch (2 a thread) throughput grows with the number of
threads; ``dramatiq_queue_prefetch=200`` takes that limit away.
"""

from __future__ import annotations

import os
import sys

if os.environ.get("BENCH_SETTINGS") != "default":
    os.environ.setdefault("dramatiq_queue_prefetch", "200")

import dramatiq
import worklib
from dramatiq.brokers.redis import RedisBroker

SPEC = {
    "requirements": ["dramatiq[redis]", "hiredis"],
    "versions": ["dramatiq", "redis"],
    "bulk": 0,
    "variants": {
        "p2t8": {
            "title": "dramatiq -p 2 -t 8, queue prefetch 200, no results",
            "servers": ["redis"],
            "slots": 16,
        },
    },
}
broker = RedisBroker(url=os.environ.get("BENCH_REDIS_URL"))
dramatiq.set_broker(broker)
TASKS = {"noop": dramatiq.actor(worklib.noop), "nap": dramatiq.actor(worklib.nap)}


class Producer:
    """``actor.send``; Dramatiq has no bulk call."""

    def enqueue(self, task: str, task_id: int, enqueued_at: float) -> None:
        """Enqueue one task."""
        TASKS[task].send(task_id, enqueued_at)


def open_producer() -> Producer:
    """Return the producer."""
    return Producer()


def worker_commands() -> list[list[str]]:
    """The dramatiq command with two worker processes."""
    return [[sys.executable, "-m", "dramatiq", "systems.dramatiq:broker", "-p", "2", "-t", "8"]]
