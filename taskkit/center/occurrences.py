"""Occurrences: what is written about each planned fire time of a periodic task."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy.engine import Connection

from taskkit.center.database import Database
from taskkit.center.statements import plan as sql
from taskkit.states import OccurrenceState


def states_of(
    connection: Connection, database: Database, keys: Sequence[tuple[int, object]]
) -> dict[int, str]:
    """The state of each task's occurrence ``(task id, planned instant as SQL gave it)``, where one is written."""
    if not keys:
        return {}
    instants = {i: database.dialect.instant(at) for i, at in keys}
    parameters = {
        "ids": sorted(instants),
        "instants": sorted({str(database.dialect.bind(at)) for at in instants.values()}),
    }
    rows = connection.execute(database.text(sql.OCCURRENCE_STATES), parameters)
    return {r.task_id: r.state for r in rows if database.dialect.instant(r.planned_at) == instants[r.task_id]}


def record_fired(
    connection: Connection, database: Database, fired: Sequence[tuple[int, datetime, int]], now: datetime
) -> None:
    """Write ``(task id, planned instant, attempt)`` as fired now, with how late that is in seconds."""
    if not fired:
        return
    text = database.text(sql.FIRE_SQLITE if database.sqlite else sql.FIRE_MYSQL)
    bind = database.dialect.bind
    connection.execute(
        text,
        [
            {
                "task_id": task_id,
                "planned_at": bind(planned),
                "fired_at": bind(now),
                "late_s": max(0.0, (now - planned).total_seconds()),
                "attempt": attempt,
            }
            for task_id, planned, attempt in fired
        ],
    )


def take_back_fired(
    connection: Connection, database: Database, fired: Sequence[tuple[int, object, int]]
) -> None:
    """These ``(task id, planned instant as SQL gave it, attempt)`` did not fire after all: they are planned as before."""
    if fired:
        bind, instant = database.dialect.bind, database.dialect.instant
        rows = [{"task_id": i, "planned_at": bind(instant(at)), "attempt": n} for i, at, n in fired]
        connection.execute(database.text(sql.UNFIRE), rows)


def settle(
    connection: Connection,
    database: Database,
    task_id: int,
    instants: Sequence[datetime],
    state: OccurrenceState,
    reason: str,
) -> None:
    """Write that these fire times were skipped or missed; one that fired stays as it is."""
    if instants:
        text = database.text(sql.SETTLE_SQLITE if database.sqlite else sql.SETTLE_MYSQL)
        rows = [
            {
                "task_id": task_id,
                "planned_at": database.dialect.bind(at),
                "state": state.value,
                "reason": reason,
            }
            for at in instants
        ]
        connection.execute(text, rows)


def plan_ahead(
    connection: Connection, database: Database, task_id: int, instants: Sequence[datetime]
) -> None:
    """Write fire times down before they are due."""
    if instants:
        rows = [{"task_id": task_id, "planned_at": database.dialect.bind(at)} for at in instants]
        connection.execute(database.text(sql.PLAN_AHEAD), rows)
