"""RQ: the default forking Worker, and SimpleWorker, two processes each."""

from __future__ import annotations

import os
import sys

from redis import Redis
from rq import Queue
from worklib import nap, noop

SPEC = {
    "requirements": ["rq", "hiredis"],
    "versions": ["rq", "redis"],
    "bulk": 500,
    "variants": {
        "fork": {"title": "rq 2x Worker (fork per job), result_ttl 0", "servers": ["redis"], "slots": 2},
        "simple": {"title": "rq 2x SimpleWorker, result_ttl 0", "servers": ["redis"], "slots": 2},
    },
}
TASKS = {"noop": noop, "nap": nap}
CLASSES = {"fork": "rq.worker.Worker", "simple": "rq.worker.SimpleWorker"}


class Producer:
    """``Queue.enqueue`` and ``Queue.enqueue_many``."""

    def __init__(self) -> None:
        self.queue = Queue(connection=Redis.from_url(os.environ["BENCH_REDIS_URL"]))

    def enqueue(self, task: str, task_id: int, enqueued_at: float) -> None:
        """Enqueue one task."""
        self.queue.enqueue(TASKS[task], task_id, enqueued_at, result_ttl=0)

    def enqueue_bulk(self, task: str, items: list[tuple[int, float]]) -> None:
        """Enqueue many tasks in one pipeline."""
        self.queue.enqueue_many([Queue.prepare_data(TASKS[task], args=item, result_ttl=0) for item in items])


def open_producer() -> Producer:
    """Return the producer."""
    return Producer()


def worker_commands() -> list[list[str]]:
    """Two ``rq worker`` processes with the task module imported before they fork."""
    start = "import worklib; from rq.cli import main; main()"
    worker = CLASSES[os.environ.get("BENCH_VARIANT", "fork")]
    return [
        [sys.executable, "-c", start, "worker", "-q", "-u", os.environ["BENCH_REDIS_URL"], "-w", worker]
    ] * 2
