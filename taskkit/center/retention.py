"""What is over goes after its retention: in small steps by primary key, nothing that lives, never a long lock."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy.engine import Connection, Row

from taskkit.center.database import Database
from taskkit.center.statements import retention as sql
from taskkit.clock import EPOCH, seconds
from taskkit.settings import Retention

DAY = 86_400.0
NODES_DAYS = 7.0
"""How long a worker or scheduler is remembered after its last heartbeat."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a sweep: how many rows of a table it read, and how many it deleted (or would have)."""

    table: str
    looked: int
    gone: int


@dataclass(frozen=True, slots=True)
class Walk:
    """A way through one table: how to look, how to lock what goes, its key, and where the cursor starts."""

    table: str
    key: tuple[str, ...]
    look: str
    lock: str
    values: Mapping[str, Any] = field(default_factory=dict)
    after: int | str = 0


class RetentionDesk:
    """Deletes what is older than its retention; safe to be cut short, and for two at once."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def sweep(self, keep: Retention, *, dry: bool = False) -> Iterator[Step]:
        """One pass over all tables, a bounded step for each ``next()``; between two no transaction is open.

        A step reads at most ``keep.chunk`` rows without a lock and deletes at most so many in one transaction. Rows
        that somebody has locked are left for the next pass. ``dry`` only counts.
        """
        for table in self.tables(keep, dry=dry):
            yield from table

    def tables(self, keep: Retention, *, dry: bool = False) -> Iterator[Iterator[Step]]:
        """The steps of one pass, table by table, so that one in trouble does not end those after it."""
        walks = self._walks(keep, self.database.now())
        return (self._walk(walk, keep.chunk, dry=dry) for walk in walks)

    def _walks(self, keep: Retention, now: datetime) -> Iterator[Walk]:
        if keep.tasks_days or keep.dead_days:
            yield self._tasks(keep, now)
        for days, walk in (
            (keep.runs_days, Walk("task_run", ("id",), sql.LOOK_RUNS, sql.LOCK_RUNS)),
            *((keep.occurrences_days, walk) for walk in _occurrences()),
            (
                keep.samples_days,
                _by_name("task_sample", sql.LOOK_SAMPLES, sql.LOCK_SAMPLES, "sampled_at", "queue"),
            ),
            (keep.actions_days, Walk("task_action", ("id",), sql.LOOK_ACTIONS, sql.LOCK_ACTIONS)),
            (keep.once_days, _by_name("task_once", sql.LOOK_ONCE, sql.LOCK_ONCE, "name")),
            *((keep.alerts_days, walk) for walk in _alerts()),
            (NODES_DAYS, _by_name("task_watchdog", sql.LOOK_WATCHDOGS, sql.LOCK_WATCHDOGS, "watchdog_id")),
            (NODES_DAYS, _by_name("task_worker", sql.LOOK_WORKERS, sql.LOCK_WORKERS, "worker_id")),
            (
                NODES_DAYS,
                _by_name("task_scheduler", sql.LOOK_SCHEDULERS, sql.LOCK_SCHEDULERS, "scheduler_id"),
            ),
        ):
            if days:
                values = {**walk.values, "until": self._before(now, days)}
                yield Walk(walk.table, walk.key, walk.look, walk.lock, values, walk.after)

    def _tasks(self, keep: Retention, now: datetime) -> Walk:
        youngest = min(days for days in (keep.tasks_days, keep.dead_days) if days)
        values = {
            "tasks": self._before(now, keep.tasks_days),
            "dead": self._before(now, keep.dead_days),
            "youngest": self._before(now, youngest),
        }
        return Walk("task_center", ("id",), sql.LOOK_TASKS, sql.LOCK_TASKS, values)

    def _before(self, now: datetime, days: float) -> str | None:
        """The instant so many days ago; None, which nothing is older than, where 0 means for ever."""
        return self.database.dialect.bind(max(now - seconds(days * DAY), _FIRST)) if days else None

    def _walk(self, walk: Walk, n: int, *, dry: bool) -> Iterator[Step]:
        cursor = {"at": self.database.dialect.bind(_FIRST), "after": walk.after}
        while True:
            rows = self._rows(walk.look, {**walk.values, **cursor, "n": n})
            keys = [_key(row, walk.key) for row in rows if row.goes]
            yield Step(walk.table, len(rows), len(keys) if dry else self._delete(walk, keys))
            if len(rows) < n or not any(row.more for row in rows):
                return
            cursor = {"at": rows[-1].at, "after": rows[-1].after}

    def _rows(self, look: str, parameters: Mapping[str, Any]) -> Sequence[Row[Any]]:
        text = self.database.text(look)
        return self.database.read(lambda c: c.execute(text, parameters).all())

    def _delete(self, walk: Walk, keys: Sequence[Any]) -> int:
        """Delete those of these rows that may still go and that nobody has locked; how many those were."""
        if not keys:
            return 0
        lock = self.database.text(walk.lock)

        def act(connection: Connection) -> int:
            rows = connection.execute(lock, {**walk.values, "keys": keys}).all()
            if rows:
                self._remove(connection, walk, rows)
            return len(rows)

        return self.database.write(act)

    def _remove(self, connection: Connection, walk: Walk, rows: Sequence[Row[Any]]) -> None:
        if walk.key == ("id",) and not self.database.sqlite:
            statement = self.database.driver_text(sql.delete_ids(walk.table, len(rows)))
            connection.exec_driver_sql(statement, tuple(row.id for row in rows))
        else:
            text = self.database.text(sql.delete_one(walk.table, walk.key))
            connection.execute(text, [dict(row._mapping) for row in rows])


_FIRST = EPOCH + seconds(1)
"""The first instant of a TIMESTAMP."""


def _occurrences() -> list[Walk]:
    """Planned ones are still to come, or the planner will say what became of them."""
    key = ("task_id", "planned_at")
    return [
        Walk("task_occurrence", key, sql.LOOK_OCCURRENCES, sql.LOCK_OCCURRENCES, {"state": state})
        for state in ("fired", "skipped", "missed")
    ]


def _alerts() -> list[Walk]:
    """Notices before what names them: only what its notice has left behind goes from there."""
    return [
        Walk("task_alert", ("id",), sql.LOOK_ALERTS, sql.LOCK_ALERTS),
        Walk("task_notice", ("id",), sql.LOOK_NOTICES, sql.LOCK_NOTICES),
        Walk("task_notice_alert", ("id",), sql.LOOK_TOLD, sql.LOCK_TOLD),
        Walk("task_delivery", ("id",), sql.LOOK_DELIVERIES, sql.LOCK_DELIVERIES),
    ]


def _by_name(table: str, look: str, lock: str, *key: str) -> Walk:
    return Walk(table, key, look, lock, after="")


def _key(row: Row[Any], columns: Sequence[str]) -> Any:
    found = tuple(getattr(row, column) for column in columns)
    return found[0] if len(found) == 1 else found
