"""Engines: connections that know our session, and are looked at whether they keep it."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.engine import URL, Connection, Engine, ExceptionContext

from taskkit.center import sessions
from taskkit.center.dialect import Dialect, SQLite, StatementClock
from taskkit.clock import monotonic
from taskkit.identity import connection_name

READ_ONLY = "taskkit_read_only"
CLOCK = "taskkit_clock"
RAISED = "user-defined function raised exception"
"""What SQLite makes of whatever a function raises."""
OF_VALUES = (ValueError, TypeError, ArithmeticError)
"""What our functions raise by themselves, at a value that is none of theirs."""
GREETING_SECONDS = 5.0
LOCKED_S, LOOK_S = 10.0, 0.02
"""How long a lock is waited for, and how long between two looks where SQLite itself does not wait."""
SQLITE_SESSION = (
    "PRAGMA synchronous = FULL",
    "PRAGMA busy_timeout = 10000",
    "PRAGMA foreign_keys = ON",
)


def make_engine(url: URL, dialect: Dialect, pool_size: int, overflow: int, read_timeout: float) -> Engine:
    """An engine with at most ``pool_size`` + ``overflow`` connections, each of them prepared."""
    if isinstance(dialect, SQLite):
        return _sqlite_engine(url, dialect, pool_size, overflow)
    arguments: dict[str, Any] = {
        "connect_timeout": 5,
        "read_timeout": GREETING_SECONDS,
        "write_timeout": read_timeout,
        "charset": "utf8mb4",
        "client_flag": sessions.FOUND_ROWS | sessions.MULTI_STATEMENTS | _flags(url),
    }
    pooled = sessions.is_pooled(url)
    if pooled:
        arguments["autocommit"] = None
    engine = sa.create_engine(
        url.difference_update_query(["charset", sessions.POOLER]),
        connect_args=arguments,
        pool_size=pool_size,
        max_overflow=overflow,
        pool_recycle=1800,
        pool_timeout=30,
        pool_reset_on_return=None,
        hide_parameters=True,
    )
    engine.dialect.do_commit = sessions.do_commit  # type: ignore[method-assign, assignment]
    if pooled:
        engine.dialect.do_begin = sessions.do_begin  # type: ignore[method-assign, assignment]

    def prepare(raw: Any, _record: Any) -> None:
        (sessions.prepare_pooled if pooled else sessions.prepare)(raw)
        raw._read_timeout = read_timeout  # noqa: SLF001 - a server that says nothing is found out sooner, and PyMySQL has no other way

    event.listen(engine, "do_connect", _connect)
    event.listen(engine, "connect", prepare)
    event.listen(engine, "reset", _end_transaction)
    return engine


def _flags(url: URL) -> int:
    """Further capabilities that the URL asks for."""
    asked = url.query.get("client_flag", "0")
    return int(asked) if isinstance(asked, str) and asked.isdecimal() else 0


def _end_transaction(raw: Any, _record: Any, _state: Any) -> None:
    """A connection goes back to the pool: after a COMMIT there is nothing to roll back, and no trip to the server."""
    if raw.server_status & sessions.IN_TRANSACTION:
        raw.rollback()


def _connect(_dialect: Any, _record: Any, arguments: Any, parameters: dict[str, Any]) -> Any:
    """Say who connects, as the process is called at this moment; a name in the URL is kept."""
    from taskkit.center.wires import MySQLWire

    return MySQLWire(*arguments, **{"program_name": connection_name(), **parameters})


def _sqlite_engine(url: URL, dialect: SQLite, pool_size: int, overflow: int) -> Engine:
    memory = url.database in {None, "", ":memory:"}
    options: dict[str, Any] = (
        {"poolclass": sa.StaticPool} if memory else {"pool_size": pool_size, "max_overflow": overflow}
    )
    engine = sa.create_engine(
        url,
        connect_args={"check_same_thread": False, "timeout": LOCKED_S},
        hide_parameters=True,
        **options,
    )

    def prepare(raw: Any, record: Any) -> None:
        raw.isolation_level = None
        cursor = raw.cursor()
        _write_ahead(cursor)
        for statement in SQLITE_SESSION:
            cursor.execute(statement)
        cursor.close()
        clock = record.info[CLOCK] = StatementClock(dialect.clock)
        _give_functions(raw, clock)

    event.listen(engine, "connect", prepare)
    event.listen(engine, "before_cursor_execute", _begin_statement)
    event.listen(engine, "begin", _begin_immediate)
    event.listen(engine, "handle_error", _interrupted)
    return engine


def _write_ahead(cursor: sqlite3.Cursor) -> None:
    """Switch to WAL, for which a new file must be ours alone: where two try at once, SQLite refuses one without waiting."""
    deadline = monotonic() + LOCKED_S
    while True:
        try:
            cursor.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or monotonic() > deadline:
                raise
            time.sleep(LOOK_S)
        else:
            return


def _give_functions(raw: Any, clock: StatementClock) -> None:
    for title, (count, function) in clock.functions().items():
        raw.create_function(title, count, function, deterministic=True)


def _begin_statement(connection: Connection, *_statement: object) -> None:
    connection.info[CLOCK].begin()


def _interrupted(context: ExceptionContext) -> BaseException | None:
    """What a signal's handler raised in the middle of one of our functions: SQLite says only that one raised something.

    None for what a function itself makes of a value, which is an error of the statement. The connection gets its
    functions anew: one in which two signals met at once is over.
    """
    if context.connection is None or str(context.original_exception) != RAISED:
        return None
    clock: StatementClock = context.connection.info[CLOCK]
    raised = clock.raised
    if isinstance(raised, OF_VALUES):
        return None
    with contextlib.suppress(sqlite3.Error):  # another thread is in the middle of a statement of it
        _give_functions(context.connection.connection.driver_connection, clock)
    return raised


def _begin_immediate(connection: Connection) -> None:
    """A deferred BEGIN that turns into a write fails at once when somebody else wrote: take the lock first."""
    if not connection.get_execution_options().get(READ_ONLY):
        connection.exec_driver_sql("BEGIN IMMEDIATE")
