"""APScheduler 3 with SQLAlchemyJobStore on MariaDB: fires jobs whose date is due.

Only one scheduler process may use a job store in APScheduler 3, and it does not
see jobs that another process adds until it wakes for another reason, so the
latency test does not apply.
"""

from __future__ import annotations

import datetime
import os
import sys
import time

import sqlalchemy
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler
from worklib import nap, noop

SPEC = {
    "requirements": ["APScheduler<4", "sqlalchemy", "pymysql"],
    "versions": ["APScheduler", "SQLAlchemy", "PyMySQL"],
    "bulk": 0,
    "latency": False,
    "variants": {
        "mariadb": {
            "title": "APScheduler 1 proc x 10 threads, MariaDB job store",
            "servers": ["mariadb"],
            "slots": 10,
            "durable": True,
        },
    },
}
TASKS = {"noop": noop, "nap": nap}


def scheduler() -> BackgroundScheduler:
    """A scheduler on the SQL job store."""
    return BackgroundScheduler(
        jobstores={"default": SQLAlchemyJobStore(url=os.environ["BENCH_MYSQL_URL"])},
        executors={"default": ThreadPoolExecutor(10)},
        timezone=datetime.UTC,
    )


class Producer:
    """``add_job`` with a date in the past, on a paused scheduler."""

    def __init__(self) -> None:
        self.scheduler = scheduler()
        self.scheduler.start(paused=True)

    def enqueue(self, task: str, task_id: int, enqueued_at: float) -> None:
        """Store one due job."""
        due = datetime.datetime.fromtimestamp(enqueued_at, datetime.UTC)
        self.scheduler.add_job(
            TASKS[task], "date", run_date=due, args=(task_id, enqueued_at), misfire_grace_time=None
        )

    def close(self) -> None:
        """Stop the paused scheduler."""
        self.scheduler.shutdown()


def open_producer() -> Producer:
    """Return the producer."""
    return Producer()


def setup() -> None:
    """Start from no jobs."""
    with sqlalchemy.create_engine(os.environ["BENCH_MYSQL_URL"]).begin() as connection:
        connection.execute(sqlalchemy.text("DROP TABLE IF EXISTS apscheduler_jobs"))


def worker_commands() -> list[list[str]]:
    """One scheduler process."""
    return [[sys.executable, "-c", "from systems.apscheduler import serve; serve()"]]


def serve() -> None:
    """Run the scheduler until killed."""
    scheduler().start()
    while True:
        time.sleep(3600)
