"""New tasks into the task center: one or many, on our own connection or on the caller's."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy.engine import Connection

from taskkit.center.database import Database
from taskkit.center.dialect import Dialect
from taskkit.center.joining import foreign_dialect
from taskkit.center.packed import write_marked, write_rows
from taskkit.center.statements import intake as sql
from taskkit.clock import EPOCH, seconds, utc_now
from taskkit.cron import parse
from taskkit.errors import CommitUnknown, InputError, StoreError
from taskkit.model import ListName, NewTask
from taskkit.planning import digest
from taskkit.shards import list_text
from taskkit.states import Move, target

ROWS_PER_STATEMENT = 1000
BYTES_PER_STATEMENT = 4_000_000
BYTES_ANY_SERVER_TAKES = 500_000
"""A statement of this size passes wherever max_allowed_packet was not made smaller than anybody makes it."""
PACKET_MARGIN = 20_000
KEY_ATTEMPTS = 5
DISPATCHED = int(target(Move.DISPATCH))
NO_INSTANTS = {"occurrence_at": None, "next_fire_at": None, "expires_at": None}


def new_token() -> str:
    """A token that no other batch has."""
    return secrets.token_hex(12)


class Intake:
    """Writes new tasks; ``unique_key`` of a live task gives that task's id instead of a second row."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def insert(self, tasks: Sequence[NewTask]) -> list[int]:
        """Write the tasks in one transaction of our own and return their ids, in order."""
        _check(tasks, self.database.dialect)
        written: list[int] = []

        def work(connection: Connection) -> list[int]:
            written[:] = _insert(connection, tasks, self.database.dialect, self.database)
            return written

        try:
            return self.database.write(work)
        except CommitUnknown:
            return written if self._stand(written) else self.database.write(work)

    def insert_dispatched(self, tasks: Sequence[NewTask], lists: Sequence[ListName]) -> tuple[list[int], str]:
        """Write tasks that are due now as dispatched, each to its list; returns their ids and the token of the batch.

        None of them has a ``unique_key``. Their messages are the caller's to push.
        """
        _check(tasks, self.database.dialect)
        token = new_token()
        dialect = self.database.dialect
        written: list[int] = []

        def work(connection: Connection) -> list[int]:
            written[:] = _insert(connection, tasks, dialect, self.database, token, lists)
            return written

        try:
            ids = self.database.write(work)
        except CommitUnknown:
            ids = written if self._stand(written) else self.database.write(work)
        return ids, token

    def _stand(self, ids: Sequence[int]) -> bool:
        """Whether a COMMIT whose reply was lost came through; waits for it by the lock on its rows."""
        text, wanted = self.database.text(sql.WRITTEN), sorted(set(ids))
        return len(self.database.write(lambda c: c.execute(text, {"ids": wanted}).all())) == len(wanted)

    def insert_joined(self, connection: Connection, tasks: Sequence[NewTask]) -> list[int]:
        """Write the tasks on the caller's connection: they exist if and only if the caller commits.

        Nothing is repeated or reconnected, and errors go up: after a deadlock the caller's own work is gone too.
        """
        dialect = foreign_dialect(connection)
        _check(tasks, dialect)
        return _insert(connection, tasks, dialect)


def _check(tasks: Sequence[NewTask], dialect: Dialect) -> None:
    """Refuse by name what the database cannot hold."""
    now = utc_now()
    for task in tasks:
        field = "at" if task.cron_expr is None else "cron"
        if task.plan_next_run_at is None:
            _check_instant("delay", _after(now, task.delay, dialect.last), dialect)
        else:
            _check_instant(field, task.plan_next_run_at, dialect)
        if task.expires_at is not None:
            _check_instant("expires_at", task.expires_at, dialect)


def _after(now: datetime, delay: float, last: datetime) -> datetime:
    room = (last - now).total_seconds()
    return now + seconds(delay) if delay <= room else last + seconds(1)


def _check_instant(field: str, value: datetime, dialect: Dialect) -> None:
    if not EPOCH < value <= dialect.last:
        raise InputError(
            field,
            f"{value.isoformat()} is outside 1970 … {dialect.last:%Y-%m-%dT%H:%M:%SZ}, which the database can hold",
        )


def _insert(
    connection: Connection,
    tasks: Sequence[NewTask],
    dialect: Dialect,
    own: Database | None = None,
    token: str = "",
    lists: Sequence[ListName] | None = None,
) -> list[int]:
    """``lists``: the tasks are dispatched to these. ``own`` is the database that a connection of our own belongs to: its driver is known, and may be hurried."""
    token = token or new_token()
    ids: dict[int, int] = {}
    weights = _weights(tasks)
    for group in _groups(tasks, weights, _most_bytes(connection, dialect, weights)):
        rows = [tasks[index] for index in group]
        keyed = rows[0].unique_key is not None
        found = (
            _insert_keyed(connection, rows, dialect, token, own)
            if keyed
            else _insert_plain(connection, rows, dialect, token, own, lists and [lists[i] for i in group])
        )
        ids.update(zip(group, found, strict=True))
        _remember_schedules(connection, dialect, rows, found)
    return [ids[index] for index in range(len(tasks))]


def _weights(tasks: Sequence[NewTask]) -> list[int]:
    """Bytes of each payload in a statement; no need to be exact while the sum is far from anybody's limit."""
    letters = [len(task.payload) for task in tasks]
    return letters if sum(letters) * 8 < BYTES_ANY_SERVER_TAKES else [_weight(task) for task in tasks]


def _weight(task: NewTask) -> int:
    """Bytes of a payload in a statement, where quotes and backslashes take two."""
    raw = task.payload.encode("utf-8", "surrogatepass")
    return len(raw) + sum(raw.count(sign) for sign in (b'"', b"'", b"\\", b"\n", b"\r", b"\0", b"\x1a"))


def _most_bytes(connection: Connection, dialect: Dialect, weights: Sequence[int]) -> int:
    """How large a statement may be; a single payload that no statement can carry is refused before it is sent."""
    if dialect.name != "mysql" or sum(weights) <= BYTES_ANY_SERVER_TAKES:
        return BYTES_PER_STATEMENT
    packet = int(connection.exec_driver_sql(sql.PACKET_MYSQL).one()[1])
    largest = max(weights)
    if largest + PACKET_MARGIN > packet:
        raise InputError(
            "payload",
            f"takes {largest} bytes in a statement, and the server takes {packet} (max_allowed_packet): "
            "store large data elsewhere and pass a reference, or raise max_allowed_packet",
        )
    return min(BYTES_PER_STATEMENT, packet // 2)


def _groups(tasks: Sequence[NewTask], weights: Sequence[int], most: int) -> Iterator[list[int]]:
    """Indexes of tasks that go into one statement: alike in shape, bounded in rows and bytes."""
    shapes: dict[tuple[bool, bool, bool], list[int]] = {}
    for index, task in enumerate(tasks):
        shape = task.unique_key is not None, task.plan_next_run_at is None, task.limit_key is not None
        shapes.setdefault(shape, []).append(index)
    for indexes in shapes.values():
        group: list[int] = []
        size = 0
        for index in indexes:
            weight = weights[index]
            if group and (len(group) >= ROWS_PER_STATEMENT or size + weight > most):
                yield group
                group, size = [], 0
            group.append(index)
            size += weight
        yield group


def _run(
    connection: Connection,
    rows: Sequence[NewTask],
    dialect: Dialect,
    token: str,
    own: Database | None,
    *,
    skip_taken: bool,
    lists: Sequence[ListName] | None = None,
) -> int:
    due_now = rows[0].plan_next_run_at is None
    each = sql.insert(dialect, due_now, skip_taken, rows[0].limit_key is not None)
    values = [sql.values(task, token, _instants(task, dialect, due_now)) for task in rows]
    if lists is not None:
        each = sql.insert_dispatched(dialect, DISPATCHED)
        for name, row in zip(lists, values, strict=True):
            row.append(list_text(name))
    if own is None:
        done = write_marked(connection, dialect, each, values)
    else:
        done = write_rows(connection, own, each, values)
    return int(done.lastrowid or 0)


def _instants(task: NewTask, dialect: Dialect, due_now: bool) -> dict[str, Any]:
    if due_now and task.expires_at is None:
        return {"plan_next_run_at": task.delay, **NO_INSTANTS}
    periodic = task.cron_expr is not None
    return {
        "plan_next_run_at": task.delay if due_now else dialect.insert_instant(task.plan_next_run_at),
        "occurrence_at": dialect.insert_instant(task.plan_next_run_at if periodic else None),
        "next_fire_at": dialect.insert_instant(task.next_fire_at and min(task.next_fire_at, dialect.last)),
        "expires_at": dialect.insert_instant(task.expires_at),
    }


def _remember_schedules(
    connection: Connection, dialect: Dialect, rows: Sequence[NewTask], ids: Sequence[int]
) -> None:
    """The planner knows periodic tasks by these rows."""
    text = dialect.render(sql.REMEMBER_SCHEDULE)
    text = text.replace(":task_id", dialect.mark).replace(":digest", dialect.mark)
    for task, task_id in zip(rows, ids, strict=True):
        if task.cron_expr is not None and task.timezone is not None:
            schedule = parse(task.cron_expr, task.timezone, gap=task.dst_gap, overlap=task.dst_overlap)
            connection.exec_driver_sql(text, (task_id, digest(schedule, task.misfire)))


def _insert_plain(
    connection: Connection,
    rows: Sequence[NewTask],
    dialect: Dialect,
    token: str,
    own: Database | None,
    lists: Sequence[ListName] | None,
) -> list[int]:
    last = _run(connection, rows, dialect, token, own, skip_taken=False, lists=lists)
    if len(rows) == 1:
        return [last]
    first = dialect.first_id(last, len(rows))
    found = _ids(connection, dialect, first, token, len(rows))
    if len(found) != len(rows):
        raise StoreError(
            f"{len(rows)} tasks were written but {len(found)} were read back; nothing was committed"
        )
    return found


def _ids(connection: Connection, dialect: Dialect, first: int, token: str, rows: int) -> list[int]:
    text = dialect.render(sql.IDS_OF_BATCH)
    for name in (":first", ":token", ":n"):
        text = text.replace(name, dialect.mark)
    return [row[0] for row in connection.exec_driver_sql(text, (first, token, rows))]


def _insert_keyed(
    connection: Connection, rows: Sequence[NewTask], dialect: Dialect, token: str, own: Database | None
) -> list[int]:
    """Insert those whose key is free; a key that was freed between our look and our insert is tried again."""
    pending: dict[str | None, NewTask] = {}
    for task in rows:
        pending.setdefault(task.unique_key, task)
    holders: dict[str | None, int] = {}
    for _ in range(KEY_ATTEMPTS):
        _run(connection, list(pending.values()), dialect, token, own, skip_taken=True)
        holders.update(_holders(connection, dialect, list(pending)))
        pending = {key: task for key, task in pending.items() if key not in holders}
        if not pending:
            return [holders[task.unique_key] for task in rows]
    raise StoreError(
        f"unique_key {next(iter(pending))!r}: taken and freed again {KEY_ATTEMPTS} times; try again"
    )


def _holders(connection: Connection, dialect: Dialect, keys: Sequence[str | None]) -> dict[str | None, int]:
    marks = "(" + ", ".join([dialect.mark] * len(keys)) + ")"
    text = dialect.render(sql.HOLDERS_OF_KEYS).replace(":keys", marks)
    return {key: task_id for task_id, key in connection.exec_driver_sql(text, tuple(keys))}
