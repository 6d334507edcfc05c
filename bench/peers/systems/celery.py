"""Celery on Redis: prefork, two solo processes, and prefork with results in MariaDB."""

from __future__ import annotations

import os
import sys

from celery import Celery
from worklib import nap, noop

SPEC = {
    "requirements": ["celery[redis]", "sqlalchemy", "pymysql", "hiredis"],
    "versions": ["celery", "kombu", "redis"],
    "bulk": 0,
    "variants": {
        "prefork": {
            "title": "celery prefork -c 2, prefetch x64, no results",
            "servers": ["redis"],
            "slots": 2,
        },
        "solo": {
            "title": "celery 2 procs -P solo, prefetch x64, no results",
            "servers": ["redis"],
            "slots": 2,
        },
        "mariadb": {
            "title": "celery prefork -c 2, results in MariaDB",
            "servers": ["redis", "mariadb"],
            "slots": 2,
            "durable": True,
        },
    },
}
VARIANT = os.environ.get("BENCH_VARIANT", "prefork")
RESULTS = "db+" + os.environ.get("BENCH_MYSQL_URL", "") if VARIANT == "mariadb" else None

app = Celery("bench", broker=os.environ.get("BENCH_REDIS_URL"), backend=RESULTS)
app.conf.task_ignore_result = RESULTS is None
app.conf.broker_connection_retry_on_startup = True
if os.environ.get("BENCH_SETTINGS") != "default":
    app.conf.worker_prefetch_multiplier = 64
noop_task = app.task(name="noop")(noop)
nap_task = app.task(name="nap")(nap)
TASKS = {"noop": noop_task, "nap": nap_task}


class Producer:
    """Single calls through ``apply_async``; Celery has no bulk call."""

    def enqueue(self, task: str, task_id: int, enqueued_at: float) -> None:
        """Enqueue one task."""
        TASKS[task].apply_async((task_id, enqueued_at))


def open_producer() -> Producer:
    """Return the producer."""
    return Producer()


def worker_commands() -> list[list[str]]:
    """One prefork tree with two children, or two solo processes."""
    base = [
        sys.executable,
        "-m",
        "celery",
        "-A",
        "systems.celery",
        "worker",
        "-l",
        "WARNING",
        "--without-gossip",
        "--without-mingle",
    ]
    if VARIANT == "solo":
        return [[*base, "-P", "solo", "-n", f"solo{i}@%h"] for i in range(2)]
    return [[*base, "-P", "prefork", "-c", "2"]]
