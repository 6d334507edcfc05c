"""Huey on Redis: one consumer with 2 process workers, or 2 consumers with one thread each."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import worklib
from huey import RedisHuey

SPEC = {
    "requirements": ["huey", "redis", "hiredis"],
    "versions": ["huey", "redis"],
    "bulk": 0,
    "variants": {
        "process": {"title": "huey -k process -w 2, results off", "servers": ["redis"], "slots": 2},
        "thread": {"title": "huey 2 consumers -k thread -w 1, results off", "servers": ["redis"], "slots": 2},
    },
}
huey = RedisHuey("bench", url=os.environ.get("BENCH_REDIS_URL"), results=False)
TASKS = {"noop": huey.task()(worklib.noop), "nap": huey.task()(worklib.nap)}


class Producer:
    """Calling a task enqueues it; Huey has no bulk call."""

    def enqueue(self, task: str, task_id: int, enqueued_at: float) -> None:
        """Enqueue one task."""
        TASKS[task](task_id, enqueued_at)


def open_producer() -> Producer:
    """Return the producer."""
    return Producer()


def worker_commands() -> list[list[str]]:
    """The huey_consumer program of this environment."""
    base = [str(Path(sys.executable).parent / "huey_consumer"), "systems.huey.huey", "-q"]
    if os.environ.get("BENCH_VARIANT") == "thread":
        return [[*base, "-k", "thread", "-w", "1"]] * 2
    return [[*base, "-k", "process", "-w", "2"]]
