"""What is written when an attempt ends: the values of its row, of its run, and of its occurrence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy.engine import Connection, Row

from taskkit.center.database import Database
from taskkit.center.statements import work as sql
from taskkit.errors import CronError
from taskkit.model import Finish
from taskkit.planning import NextUp, after_run, schedule_of
from taskkit.states import Move, Outcome, Status, TaskType, target
from taskkit.texts import TEXT_BYTES, cut, cut_middle

HOST_LETTERS = 100


@dataclass(frozen=True, slots=True)
class Ending:
    """One row's part of the UPDATE that writes ends, and what becomes of its occurrence."""

    task_id: int
    values: tuple[Any, ...]
    next_up: NextUp | None = None
    occurrence_ended: dict[str, Any] | None = None


def endings(
    database: Database, ends: Sequence[Finish], held: Mapping[tuple[int, int], Row[Any]], default_zone: str
) -> list[Ending]:
    """The endings of attempts whose rows are locked, by ascending id."""
    found = [_ending(database, end, held[end.task.id, end.task.attempt], default_zone) for end in ends]
    return sorted(found, key=lambda ending: ending.task_id)


def _ending(database: Database, end: Finish, row: Row[Any], default_zone: str) -> Ending:
    bind = database.dialect.bind
    next_up = _next_up(database, end, row, default_zone)
    status = target(end.move)
    ended = status in {Status.SUCCESS, Status.GIVEN_UP, Status.CANCELLED} or end.move is Move.NEXT_OCCURRENCE
    values = (
        end.task.id,
        int(status),
        end.retry_count,
        end.delay if end.move is Move.FAIL else None,
        bind(next_up.occurrence_at) if next_up else None,
        bind(next_up.occurrence_at) if next_up else None,
        bind(next_up.next_fire_at) if next_up else None,
        cut(end.last_result or end.error or end.outcome.value, TEXT_BYTES),
        end.result,
        int(end.suspect),
        int(ended),
    )
    return Ending(end.task.id, values, next_up, _occurrence_ended(database, end, row) if ended else None)


def _next_up(database: Database, end: Finish, row: Row[Any], default_zone: str) -> NextUp | None:
    """The next occurrence of a periodic task that goes on; one whose schedule was broken by hand is left to the planner."""
    if end.move is not Move.NEXT_OCCURRENCE or row.cron_expr is None:
        return None
    now = database.dialect.instant(row.now)
    assert now is not None  # noqa: S101 - selected as the clock
    try:
        schedule = schedule_of(row.cron_expr, row.timezone, row.dst_gap, row.dst_overlap, default_zone)
        return after_run(
            schedule, row.misfire, database.dialect.instant(row.occurrence_at), end.task.dispatched_at, now
        )
    except CronError:
        return None


def _occurrence_ended(database: Database, end: Finish, row: Row[Any]) -> dict[str, Any] | None:
    if row.task_type != TaskType.PERIODIC or row.occurrence_at is None:
        return None
    outcome = end.outcome
    if end.outcome in {Outcome.FAILED, Outcome.TIMEOUT, Outcome.LOST}:
        outcome = Outcome.GIVEN_UP
    planned = database.dialect.bind(database.dialect.instant(row.occurrence_at))
    return {"outcome": outcome.value, "task_id": end.task.id, "planned_at": planned}


def write_run_rows(
    connection: Connection, database: Database, ends: Sequence[Finish], worker_id: str, now: datetime
) -> None:
    """One ``task_run`` row for each attempt."""
    host = worker_id.split(":")[0][:HOST_LETTERS]
    statement = sql.insert_runs(len(ends), "?")
    values = tuple(value for end in ends for value in _run(database, end, worker_id, host, now))
    connection.exec_driver_sql(database.driver_text(statement), values)


def _run(database: Database, end: Finish, worker_id: str, host: str, now: datetime) -> tuple[Any, ...]:
    bind = database.dialect.bind
    task = end.task
    return (
        task.id,
        task.attempt,
        task.task_code,
        task.queue,
        end.outcome.value,
        worker_id,
        host,
        end.pid,
        bind(task.dispatched_at),
        bind(end.started_at),
        bind(end.finished_at or now),
        end.runtime_ms,
        bind(task.occurrence_at),
        None if end.error is None else cut(end.error, TEXT_BYTES),
        None if end.traceback is None else cut_middle(end.traceback, TEXT_BYTES),
        None,
    )
