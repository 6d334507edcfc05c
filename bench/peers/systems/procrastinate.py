"""Procrastinate on PostgreSQL: 2 processes x concurrency 10 (default 1)."""

from __future__ import annotations

import os
import sys

import procrastinate
import psycopg
import worklib

SPEC = {
    "requirements": ["procrastinate"],
    "versions": ["procrastinate", "psycopg"],
    "bulk": 500,
    "variants": {
        "c10": {
            "title": "procrastinate 2 procs x 10, PostgreSQL",
            "servers": ["postgres"],
            "slots": 20,
            "durable": True,
        },
    },
}
DSN = os.environ.get("BENCH_PG_DSN", "")
app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=DSN))


@app.task(name="noop")
async def noop(task_id: int, enqueued_at: float) -> None:
    """The no-op task."""
    worklib.noop(task_id, enqueued_at)


@app.task(name="nap")
async def nap(task_id: int, enqueued_at: float) -> None:
    """The crash-test task."""
    await worklib.nap_async(task_id, enqueued_at)


class Producer:
    """``defer`` and ``batch_defer`` through the synchronous connector."""

    def __init__(self) -> None:
        self.app = procrastinate.App(connector=procrastinate.SyncPsycopgConnector(conninfo=DSN))
        self.app.open()
        self.tasks = {name: self.app.configure_task(name) for name in ("noop", "nap")}

    def enqueue(self, task: str, task_id: int, enqueued_at: float) -> None:
        """Enqueue one task."""
        self.tasks[task].defer(task_id=task_id, enqueued_at=enqueued_at)

    def enqueue_bulk(self, task: str, items: list[tuple[int, float]]) -> None:
        """Enqueue many tasks in one statement."""
        self.tasks[task].batch_defer(*({"task_id": i, "enqueued_at": at} for i, at in items))

    def close(self) -> None:
        """Close the connections."""
        self.app.close()


def open_producer() -> Producer:
    """Return the producer."""
    return Producer()


def setup() -> None:
    """Start from an empty schema."""
    with psycopg.connect(DSN, autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    with procrastinate.App(connector=procrastinate.SyncPsycopgConnector(conninfo=DSN)).open() as sync:
        sync.schema_manager.apply_schema()


def worker_commands() -> list[list[str]]:
    """Two procrastinate workers."""
    concurrency = [] if os.environ.get("BENCH_SETTINGS") == "default" else ["-c", "10"]
    return [
        [sys.executable, "-m", "procrastinate", "--app", "systems.procrastinate.app", "worker", *concurrency]
    ] * 2
