"""Engines: connections that know our session, and are looked at whether they keep it."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.engine import URL, Connection, Engine

from taskkit.center.dialect import Dialect, SQLite
from taskkit.errors import DatabaseUnavailable
from taskkit.identity import connection_name

READ_ONLY = "taskkit_read_only"
GREETING_SECONDS = 5.0
MYSQL_SESSION = (
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    "SET SESSION time_zone = '+00:00', innodb_lock_wait_timeout = 10, lock_wait_timeout = 30, "
    "sql_mode = 'STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION'",
)
MARIADB_SESSION = ("SET SESSION idle_transaction_timeout = 30",)
MYSQL_EXPECTED = {
    "time_zone": "+00:00",
    "innodb_lock_wait_timeout": "10",
    "tx_isolation": "READ-COMMITTED",
    "transaction_isolation": "READ-COMMITTED",
}
MYSQL_SHOW = f"SHOW SESSION VARIABLES WHERE Variable_name IN {tuple(MYSQL_EXPECTED)}"
SQLITE_SESSION = (
    "PRAGMA journal_mode = WAL",
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
    }
    engine = sa.create_engine(
        url.difference_update_query(["charset"]),
        connect_args=arguments,
        pool_size=pool_size,
        max_overflow=overflow,
        pool_recycle=1800,
        pool_timeout=30,
        hide_parameters=True,
    )

    def prepare(raw: Any, record: Any) -> None:
        _prepare_mysql(raw, record)
        raw._read_timeout = read_timeout  # noqa: SLF001 - a server that says nothing is found out sooner, and PyMySQL has no other way

    event.listen(engine, "do_connect", _introduce)
    event.listen(engine, "connect", prepare)
    return engine


def _introduce(_dialect: Any, _record: Any, _arguments: Any, parameters: dict[str, Any]) -> None:
    """Say who connects, as the process is called at this moment; a name in the URL is kept."""
    parameters.setdefault("program_name", connection_name())


def _sqlite_engine(url: URL, dialect: SQLite, pool_size: int, overflow: int) -> Engine:
    memory = url.database in {None, "", ":memory:"}
    options: dict[str, Any] = (
        {"poolclass": sa.StaticPool} if memory else {"pool_size": pool_size, "max_overflow": overflow}
    )
    engine = sa.create_engine(
        url,
        connect_args={"check_same_thread": False, "timeout": 10},
        hide_parameters=True,
        **options,
    )

    def prepare(raw: Any, _record: Any) -> None:
        raw.isolation_level = None
        cursor = raw.cursor()
        for statement in SQLITE_SESSION:
            cursor.execute(statement)
        cursor.close()
        for title, (count, function) in dialect.functions().items():
            # deterministic: evaluated once for a statement, as NOW() is on the servers
            raw.create_function(title, count, function, deterministic=True)

    event.listen(engine, "connect", prepare)
    event.listen(engine, "begin", _begin_immediate)
    return engine


def _prepare_mysql(raw: Any, _record: Any) -> None:
    """Every connection gets our session, and is looked at: a pooler may have dropped the settings."""
    cursor = raw.cursor()
    for statement in MYSQL_SESSION + (MARIADB_SESSION if "MariaDB" in raw.get_server_info() else ()):
        cursor.execute(statement)
    cursor.execute(MYSQL_SHOW)
    wrong = [f"{title} {value}" for title, value in cursor.fetchall() if value != MYSQL_EXPECTED[title]]
    cursor.close()
    raw.commit()
    if wrong:
        raise DatabaseUnavailable(
            f"the session settings did not hold ({', '.join(wrong)}): a pooler drops them; "
            "let it pass SET SESSION through, or connect to the server itself"
        )


def _begin_immediate(connection: Connection) -> None:
    """A deferred BEGIN that turns into a write fails at once when somebody else wrote: take the lock first."""
    if not connection.get_execution_options().get(READ_ONLY):
        connection.exec_driver_sql("BEGIN IMMEDIATE")
