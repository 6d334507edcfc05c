"""taskkit as it stands in this tree: the truth in SQL, Redis as the doorbell, handlers in child processes.

One scheduler and one worker with two child processes, with default settings; the variants differ in how the
handlers run, in who dispatches (the scheduler, or with ``short`` the producer itself), and in where the truth is.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import worklib

from taskkit import Settings, Taskkit

SPEC = {
    "requirements": ["-e", "../.."],
    "versions": ["taskkit", "PyMySQL", "redis"],
    "bulk": 500,
    "variants": {
        "processes": {
            "title": "taskkit 2 children, MariaDB, through the scheduler",
            "servers": ["redis", "mariadb"],
            "slots": 2,
            "durable": True,
        },
        "async": {
            "title": "taskkit 2 children x 100 async, MariaDB, through the scheduler",
            "servers": ["redis", "mariadb"],
            "slots": 200,
            "durable": True,
        },
        "threads": {
            "title": "taskkit 2 children x 8 threads, MariaDB, through the scheduler",
            "servers": ["redis", "mariadb"],
            "slots": 16,
            "durable": True,
        },
        "short": {
            "title": "taskkit 2 children, MariaDB, the short way while lists have room",
            "servers": ["redis", "mariadb"],
            "slots": 2,
            "durable": True,
        },
        "sqlite": {
            "title": "taskkit 2 children, SQLite file, through the scheduler",
            "servers": ["redis"],
            "slots": 2,
            "durable": True,
        },
    },
}
VARIANT = os.environ.get("BENCH_VARIANT", "processes")
SERVER = os.environ.get("BENCH_MYSQL_URL", "")
FOLDER = Path(os.environ.get("BENCH_FOLDER", "."))
DATABASE = f"bench_taskkit_{VARIANT}"
# a database of its own for each variant, since some tests run side by side; without a server it is a file in FOLDER
ENVIRONMENT = {
    "TASKKIT_DATABASE_URL": SERVER
    and f"mysql{SERVER.removeprefix('mysql+pymysql').rpartition('/')[0]}/{DATABASE}",
    "TASKKIT_HOME": str(FOLDER),
    "TASKKIT_REDIS_URL": os.environ.get("BENCH_REDIS_URL", ""),
    "TASKKIT_SHORT_WAY": "true" if VARIANT == "short" else "false",
    "TASKKIT_WORKER_PROCESSES": "2",
    "TASKKIT_WORKER_THREADS": "8" if VARIANT == "threads" else "1",
    "TASKKIT_LOG_LEVEL": "warning",
}
os.environ |= ENVIRONMENT
kit = Taskkit(Settings.load())

if VARIANT == "async":

    @kit.task("noop", timeout=60)
    async def noop(task_id: int, enqueued_at: float) -> None:
        """The no-op task."""
        worklib.noop(task_id, enqueued_at)

    @kit.task("nap", timeout=60)
    async def nap(task_id: int, enqueued_at: float) -> None:
        """The crash-test task."""
        await worklib.nap_async(task_id, enqueued_at)

else:

    @kit.task("noop", timeout=60, blocking=VARIANT == "threads")
    def noop(task_id: int, enqueued_at: float) -> None:
        """The no-op task."""
        worklib.noop(task_id, enqueued_at)

    @kit.task("nap", timeout=60, blocking=VARIANT == "threads")
    def nap(task_id: int, enqueued_at: float) -> None:
        """The crash-test task."""
        worklib.nap(task_id, enqueued_at)


class Producer:
    """``enqueue`` and ``enqueue_many``."""

    def enqueue(self, task: str, task_id: int, enqueued_at: float) -> None:
        """Enqueue one task."""
        kit.producer.enqueue(task, {"task_id": task_id, "enqueued_at": enqueued_at})

    def enqueue_bulk(self, task: str, items: list[tuple[int, float]]) -> None:
        """Enqueue many in one transaction."""
        kit.producer.enqueue_many(
            [{"code": task, "payload": {"task_id": i, "enqueued_at": at}} for i, at in items]
        )

    def close(self) -> None:
        """Close the connections."""
        kit.close()


def open_producer() -> Producer:
    """Return the producer."""
    return Producer()


def setup() -> None:
    """An empty database with the schema."""
    from taskkit.center import TaskCenter

    if SERVER:
        empty_database()
    else:
        for file in FOLDER.glob("taskkit.db*"):
            file.unlink()
    center = TaskCenter(kit.settings.sqlalchemy_url())
    center.upgrade_schema()
    center.close()


def empty_database() -> None:
    """Drop the database of this variant and make it anew."""
    import sqlalchemy

    engine = sqlalchemy.create_engine(SERVER)
    with engine.connect() as connection:
        connection.exec_driver_sql(f"DROP DATABASE IF EXISTS {DATABASE}")
        connection.exec_driver_sql(f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4")
    engine.dispose()


def worker_commands() -> list[list[str]]:
    """One scheduler, one worker."""
    environment = [f"{name}={value}" for name, value in ENVIRONMENT.items()]
    return [
        ["env", *environment, sys.executable, "-m", "taskkit.scheduler"],
        ["env", *environment, sys.executable, "-m", "taskkit.worker", "--app", "systems.taskkit:kit"],
    ]
