"""What is written when an attempt ends: the values of its row, of its run, and of its occurrence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from msgspec import Struct
from sqlalchemy.engine import Connection, Row

from taskkit.beats import HOST_LETTERS
from taskkit.center.database import Database
from taskkit.center.occurrences import settle
from taskkit.center.packed import run, write_rows
from taskkit.center.statements import work as sql
from taskkit.errors import CronError
from taskkit.fingerprints import fingerprint
from taskkit.model import Finish
from taskkit.planning import NextUp, after_run, schedule_of, within
from taskkit.states import Move, OccurrenceState, Outcome, Status, TaskType, target
from taskkit.texts import TEXT_BYTES, cut, cut_middle, encodable

GOES_ON = {Move.FAIL, Move.HAND_BACK, Move.LOSE, Move.NEXT_OCCURRENCE}
ROWS_PER_STATEMENT = 500
SUCCEEDED = int(target(Move.SUCCEED))
FEW = 8
"""So many ends that are alike go into a statement of their own, which costs the server half."""
LETTERS_PER_STATEMENT = 1_000_000
"""A letter may take four bytes, and quoting doubles them: so a statement fits the usual packet of 16 MiB."""


class Held(Struct, frozen=True, gc=False, array_like=True):
    """A running row whose end is written: what of it decides how, and the database's clock."""

    id: int
    attempt: int
    task_type: int
    occurrence_at: datetime | None
    next_fire_at: datetime | None
    cron_expr: str | None
    timezone: str | None
    misfire: str
    dst_gap: str
    dst_overlap: str
    cancel_requested_at: datetime | None
    granted_at: datetime | None
    now: datetime


@dataclass(frozen=True, slots=True)
class Ending:
    """One row's part of the UPDATE that writes ends, and what becomes of its occurrence."""

    task_id: int
    values: tuple[Any, ...]
    next_up: NextUp | None = None
    occurrence_ended: dict[str, Any] | None = None

    @property
    def stays(self) -> bool:
        """Whether the row has ended, and its times stay as they are."""
        _, _, _, delay, moved, *_, ended = self.values
        return bool(ended and not moved and delay is None)


def portions(ends: Sequence[Finish]) -> Iterator[list[Finish]]:
    """The ends in portions that go into one statement: bounded in rows and in letters."""
    portion: list[Finish] = []
    size = 0
    for end in ends:
        weight = sum(
            len(t or "") for t in (end.result, end.result, end.last_result, end.error, end.traceback)
        )
        if portion and (len(portion) >= ROWS_PER_STATEMENT or size + weight > LETTERS_PER_STATEMENT):
            yield portion
            portion, size = [], 0
        portion.append(end)
        size += weight
    if portion:
        yield portion


def endings(
    database: Database,
    ends: Sequence[Finish],
    held: Mapping[tuple[int, int], Held | Row[Any]],
    default_zone: str,
) -> list[Ending]:
    """The endings of attempts whose rows are locked, by ascending id."""
    found = [_ending(database, end, held[end.task.id, end.task.attempt], default_zone) for end in ends]
    return sorted(found, key=lambda ending: ending.task_id)


def _ending(database: Database, end: Finish, row: Held | Row[Any], default_zone: str) -> Ending:
    if end.move is Move.SUCCEED and row.task_type != TaskType.PERIODIC and row.cancel_requested_at is None:
        return Ending(
            end.task.id,
            (end.task.id, SUCCEEDED, end.retry_count, None, 0, None, None, *words_of(end), 0, 1),
        )
    bind, move = database.dialect.bind, _move(end, row)
    next_up = _next_up(database, end, row, default_zone) if move is Move.NEXT_OCCURRENCE else None
    status = target(move)
    ended = status in {Status.SUCCESS, Status.GIVEN_UP, Status.CANCELLED} or move is Move.NEXT_OCCURRENCE
    values = (
        end.task.id,
        int(status),
        0 if move is Move.NEXT_OCCURRENCE else end.retry_count,
        _delay(database, end, row) if move in {Move.FAIL, Move.LOSE} else None,
        int(move is Move.NEXT_OCCURRENCE),
        bind(next_up.occurrence_at) if next_up else None,
        bind(next_up.next_fire_at) if next_up else None,
        cut(end.last_result or end.error or end.outcome.value, TEXT_BYTES),
        None if end.result is None else encodable(end.result),
        int(end.suspect),
        int(end.outcome is Outcome.LOST),
        int(ended),
    )
    return Ending(end.task.id, values, next_up, _occurrence_ended(database, end, row) if ended else None)


def words_of(end: Finish) -> tuple[str, str | None, int]:
    """What the row of a success says of it: last_result, result, suspect."""
    said = cut(end.last_result or end.outcome.value, TEXT_BYTES)
    return said, None if end.result is None else encodable(end.result), int(end.suspect)


def _move(end: Finish, row: Held | Row[Any]) -> Move:
    """The move as the row stands now: people may have cancelled the task, or changed its type, while it ran."""
    if row.cancel_requested_at is not None and end.move in GOES_ON:
        return Move.HONOUR_CANCEL
    periodic = row.task_type == TaskType.PERIODIC
    if periodic and end.move in {Move.SUCCEED, Move.EXHAUST}:
        return Move.NEXT_OCCURRENCE
    if not periodic and end.move is Move.NEXT_OCCURRENCE:
        return Move.SUCCEED if end.outcome is Outcome.SUCCESS else Move.EXHAUST
    return end.move


def _delay(database: Database, end: Finish, row: Held | Row[Any]) -> float | None:
    """Seconds of back-off: a handler may ask for any number, and the instant must be one the database can hold."""
    if end.delay is None:
        return None
    room = (database.dialect.last - database.dialect.moment(row.now)).total_seconds()
    return min(end.delay, room) if end.delay >= 0 else 0.0


def _next_up(database: Database, end: Finish, row: Held | Row[Any], default_zone: str) -> NextUp | None:
    """The next occurrence; None leaves the row unplanned, and the planner says what is wrong with its schedule."""
    now, at = database.dialect.moment(row.now), database.dialect.instant(row.occurrence_at)
    try:
        schedule = schedule_of(row.cron_expr or "", row.timezone, row.dst_gap, row.dst_overlap, default_zone)
        up = after_run(schedule, row.misfire, at, end.task.dispatched_at, now)
        return within(up, database.dialect.last)
    except CronError:
        return None


def _occurrence_ended(database: Database, end: Finish, row: Held | Row[Any]) -> dict[str, Any] | None:
    if row.task_type != TaskType.PERIODIC or row.occurrence_at is None:
        return None
    outcome = end.outcome
    if end.outcome in {Outcome.FAILED, Outcome.TIMEOUT, Outcome.LOST}:
        outcome = Outcome.GIVEN_UP
    planned = database.dialect.bind(database.dialect.instant(row.occurrence_at))
    return {"outcome": outcome.value, "task_id": end.task.id, "planned_at": planned}


def _alike(found: Sequence[Ending]) -> Iterable[list[Ending]]:
    """The endings in groups whose values are the same, each by ascending id."""
    groups: dict[tuple[Any, ...], list[Ending]] = {}
    for ending in found:
        groups.setdefault(ending.values[1:], []).append(ending)
    return groups.values()


def write_endings(connection: Connection, database: Database, found: Sequence[Ending]) -> None:
    """Write the ends into their locked rows, those that are alike together, and what became of their occurrences."""
    each: list[Ending] = []
    for alike in _alike(found):
        if len(alike) < FEW or not alike[0].stays:
            each += alike
            continue
        _, status, retry_count, *_, last_result, result, suspect, _, _ = alike[0].values
        parameters = {
            "ids": [ending.task_id for ending in alike],
            "status": status,
            "retry_count": retry_count,
            "last_result": last_result,
            "result": result,
            "suspect": suspect,
        }
        run(connection, database, sql.END_ALIKE, parameters)
    if each:
        write_rows(connection, database, sql.write_ends(not database.sqlite), [e.values for e in each])
    for ending in found:
        if ending.occurrence_ended:
            connection.execute(database.text(sql.OCCURRENCE_ENDED), ending.occurrence_ended)
        if ending.next_up is not None and ending.next_up.passed:
            settle(
                connection, database, ending.task_id, ending.next_up.passed,
                OccurrenceState.SKIPPED, ending.next_up.reason,
            )  # fmt: skip


def write_run_rows(
    connection: Connection,
    database: Database,
    ends: Sequence[Finish],
    worker_id: str | None,
    now: datetime | None,
) -> None:
    """One ``task_run`` row for each attempt; a superseded one fills in the row of an attempt thought lost.

    ``now`` is for the ends that do not say when they were.
    """
    host = None if worker_id is None else worker_id.partition(":")[0][:HOST_LETTERS]
    late = ends[0].outcome is Outcome.SUPERSEDED
    rows = [_run(database, end, worker_id, host, now) for end in ends]
    write_rows(connection, database, sql.insert_runs(not database.sqlite, late=late), rows)


def _run(
    database: Database, end: Finish, worker_id: str | None, host: str | None, now: datetime | None
) -> tuple[Any, ...]:
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
        None if end.result is None else encodable(end.result),
        None if end.error is None else cut(end.error, TEXT_BYTES),
        None if end.traceback is None else cut_middle(end.traceback, TEXT_BYTES),
        fingerprint(end.outcome, task.task_code, end.error, end.traceback),
    )
