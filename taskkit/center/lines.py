"""The lines in which tasks wait for a limit: joining one, giving a place back, and keeping them true to the rows.

How many are in use is counted by the rows themselves; a place only says where to look.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from sqlalchemy.engine import Connection

from taskkit.center.database import Database
from taskkit.center.packed import run, write_rows
from taskkit.center.statements import limits as sql
from taskkit.clock import iso, seconds
from taskkit.limits import LATE_S, OVER, LimitBook, Scope
from taskkit.model import Message
from taskkit.states import Move, Status, sources, target

LineName = tuple[Scope, str]
OVER_ANY = f"{OVER}%"
PORTION = 1000
IDLE_SECONDS = 90_000.0
"""A line in which nobody waits is forgotten after so long, which is longer than any limit's period."""
HELD = int(target(Move.HOLD))
HOLDABLE = sorted(int(s) for s in sources(Move.HOLD))
DISPATCHED = [int(Status.DISPATCHED)]


class Bound(Protocol):
    """A task as far as limits care."""

    @property
    def id(self) -> int: ...
    @property
    def queue(self) -> str: ...
    @property
    def limit_key(self) -> str | None: ...
    @property
    def now(self) -> object: ...


def hold(
    connection: Connection, database: Database, book: LimitBook, rows: Sequence[Bound], failed: Iterable[int]
) -> None:
    """Locked rows leave the line of what is due and join those of their limits; ``failed`` of them wait in status 4."""
    back_off = Move.BACK_OFF_OVER
    over = {
        "ids": sorted(failed),
        "statuses": [int(s) for s in sources(back_off)],
        "to": int(target(back_off)),
    }
    if over["ids"]:
        run(connection, database, sql.BACK_OFF_OVER, over)
    at_key = [row.id for row in rows if book.find(Scope.KEY, row.limit_key) is not None]
    rest = {row.id for row in rows}.difference(at_key)
    for state, ids in ((sql.AT_KEY, at_key), (sql.AT_QUEUE, sorted(rest))):
        if ids:
            run(connection, database, sql.HOLD[state], {"ids": ids, "statuses": HOLDABLE, "to": HELD})
            place(connection, database, ids, state)
    join(connection, database, [line_of(book, row) for row in rows], rows[0].now)


def line_of(book: LimitBook, task: Bound) -> LineName:
    """Where a task waits first: for its key, if that is limited, else for its queue."""
    if task.limit_key and book.find(Scope.KEY, task.limit_key) is not None:
        return Scope.KEY, task.limit_key
    return Scope.QUEUE, task.queue


def place(connection: Connection, database: Database, ids: list[int], state: int) -> None:
    """Give these tasks a place to wait in."""
    template = sql.PLACE_SQLITE if database.sqlite else sql.PLACE_MYSQL
    run(connection, database, template, {"ids": ids, "state": state})


def join(connection: Connection, database: Database, names: Iterable[LineName], now: object) -> None:
    """Somebody waits in these lines: they are to be looked at. ``now`` is the database's clock."""
    at = database.dialect.bind(database.dialect.instant(now))
    rows = [(scope.value, name, at, at) for scope, name in sorted(set(names))]
    if rows:
        write_rows(connection, database, sql.join(not database.sqlite), rows)


def give_back(connection: Connection, database: Database, ids: Iterable[int]) -> None:
    """These tasks have ended, or will start again: whoever waits for their places is to be let go."""
    _mark_back(connection, database, sorted(ids), [sql.TAKEN])


def leave(connection: Connection, database: Database, ids: Sequence[int]) -> None:
    """These tasks wait no more, since somebody moved them."""
    _mark_back(connection, database, sorted(ids), [sql.AT_KEY, sql.AT_QUEUE])


def dispatched_unbound(book: LimitBook, messages: Sequence[Message]) -> list[int]:
    """Ids of those that may have been dispatched before a limit was known to all; none once all limits are old."""
    if book.newest is None:
        return []
    until = iso(book.newest + seconds(LATE_S)) or ""
    return sorted({message.task_id for message in messages if message.dispatched_at < until})


def send_back(connection: Connection, database: Database, book: LimitBook, ids: list[int]) -> set[int]:
    """Hold those dispatched tasks that have a limit and were not let go by it; returns their ids."""
    parameters = {"ids": ids, "statuses": DISPATCHED}
    rows = run(connection, database, sql.UNGRANTED, parameters).all()
    over = [row for row in rows if book.covers(row.queue, row.limit_key)]
    if over:
        hold(connection, database, book, over, ())
    return {row.id for row in over}


def tidy(connection: Connection, database: Database) -> int:
    """Places that are not in use any more, whatever way their tasks went, are given back; returns how many."""
    gone = _ids(connection, database, sql.GONE)
    return _mark_back(connection, database, gone, [sql.TAKEN])


def tidy_lines(connection: Connection, database: Database) -> int:
    """The same for places of tasks that do not wait any more."""
    left = _ids(connection, database, sql.LEFT_THE_LINES, reason=OVER_ANY)
    return _mark_back(connection, database, left, [sql.AT_KEY, sql.AT_QUEUE])


def tidy_line(connection: Connection, database: Database, name: LineName) -> int:
    """The same for one line, from its head on."""
    template = sql.LEFT_THE_LINE[name[0].value]
    left = _ids(connection, database, template, reason=OVER_ANY, name=name[1])
    return _mark_back(connection, database, left, [sql.AT_KEY, sql.AT_QUEUE])


def _mark_back(connection: Connection, database: Database, ids: list[int], states: list[int]) -> int:
    if not ids:
        return 0
    return run(connection, database, sql.MARK_BACK, {"ids": ids, "states": states}).rowcount


def look_at_waiting(connection: Connection, database: Database, book: LimitBook) -> None:
    """Count what runs under limits that were set since, look at each line in which somebody waits, forget idle ones."""
    for limit in book:
        adopt(connection, database, limit.scope, limit.bounds)
    connection.execute(database.text(sql.LOOK_AT_WAITING))
    age = {"age": IDLE_SECONDS}
    idle = connection.execute(database.text(sql.IDLE_LINES), {**age, "n": PORTION}).all()
    for scope in Scope:
        names = sorted(row.name for row in idle if row.scope == scope)
        if names:
            parameters = {"scope": scope.value, "names": names, **age}
            connection.execute(database.text(sql.FORGET_LINES), parameters)


def adopt(connection: Connection, database: Database, scope: Scope, bounds: tuple[str, str]) -> None:
    """What runs already counts against a limit."""
    between = {"low": bounds[0], "high": bounds[1]}
    connection.execute(database.text(sql.ADOPT[scope.value]), between)


def place_again(connection: Connection, database: Database, book: LimitBook) -> None:
    """Rows that wait for a limit and stand in no line, as after a restore of some tables."""
    parameters = {"reason": OVER_ANY, "status": HELD, "n": PORTION}
    rows = connection.execute(database.text(sql.LEFT_WITHOUT_PLACE), parameters).all()
    lines = {row.id: line_of(book, row) for row in rows}
    for scope, state in ((Scope.KEY, sql.AT_KEY), (Scope.QUEUE, sql.AT_QUEUE)):
        ids = sorted(i for i, line in lines.items() if line[0] is scope)
        if ids:
            place(connection, database, ids, state)
    if lines:
        join(connection, database, lines.values(), rows[0].now)


def _ids(connection: Connection, database: Database, template: str, **extra: str) -> list[int]:
    rows = connection.execute(database.text(template), {"n": PORTION, **extra})
    return sorted(row[0] for row in rows)
