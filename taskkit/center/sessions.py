"""What a session on MySQL or MariaDB is set to, and looking whether it is: a pooler may give us another one.

Behind a pooler that gives each transaction another session (``?pooler=transaction`` in the URL) the settings and the
START TRANSACTION are sent as one command, which no pooler can split: one trip more for each transaction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy.engine import URL, Connection

from taskkit.errors import DatabaseUnavailable

POOLER, EACH_TRANSACTION = "pooler", "transaction"
MYSQL_SESSION = (
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    "SET SESSION time_zone = '+00:00', innodb_lock_wait_timeout = 10, lock_wait_timeout = 30, "
    "sql_mode = 'STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION'",
)
MARIADB_SESSION = ("SET SESSION idle_transaction_timeout = 30",)
MYSQL_EXPECTED = {
    "time_zone": "+00:00",
    "innodb_lock_wait_timeout": "10",
    "lock_wait_timeout": "30",
    "sql_mode": "STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION",
    "tx_isolation": "READ-COMMITTED",
    "transaction_isolation": "READ-COMMITTED",
}
MYSQL_SHOW = f"SHOW SESSION VARIABLES WHERE Variable_name IN {tuple(MYSQL_EXPECTED)}"
FOUND_ROWS, MULTI_STATEMENTS = 1 << 1, 1 << 16
"""Capabilities that a connection asks for: the first one as SQLAlchemy does, the second to save trips."""
IN_TRANSACTION, AUTOCOMMIT = 1, 2
"""What the server tells of a session with every answer."""
ADVICE = "write ?pooler=transaction at the end of the database's URL, or connect to the server itself"


def is_pooled(url: URL) -> bool:
    """Whether each transaction may have another session."""
    return POOLER in url.query


def settings(raw: Any) -> tuple[str, ...]:
    """The statements that make a session ours."""
    return MYSQL_SESSION + (MARIADB_SESSION if "MariaDB" in raw.get_server_info() else ())


def prepare(raw: Any) -> None:
    """Make a new connection's session ours, and look whether it is."""
    with raw.cursor() as cursor:
        for statement in settings(raw):
            cursor.execute(statement)
    look(raw)
    raw.commit()


def prepare_pooled(raw: Any) -> None:
    """Look, once for each connection, whether what begins a transaction reaches the session that it runs in."""
    begin(raw)
    look(raw)
    raw.rollback()


def look(raw: Any) -> None:
    """Raise DatabaseUnavailable unless the session is set as it should be."""
    with raw.cursor() as cursor:
        cursor.execute(MYSQL_SHOW)
        found = cursor.fetchall()
    wrong = [f"{title} {value}" for title, value in found if _words(value) != _words(MYSQL_EXPECTED[title])]
    if wrong:
        raise DatabaseUnavailable(
            f"the session settings did not hold ({', '.join(wrong)}): a pooler in between drops them; {ADVICE}"
        )


def begin(raw: Any) -> None:
    """Make whatever session this is ours, and begin a transaction in it, in one command."""
    with raw.cursor() as cursor:
        cursor.execute("; ".join((*settings(raw), "SET NAMES utf8mb4", "START TRANSACTION")))
        while cursor.nextset():
            continue
    if not raw.server_status & IN_TRANSACTION:
        raise DatabaseUnavailable(
            "the pooler in between began no transaction: it must pass on several statements sent at once; "
            "set it so, or connect to the server itself"
        )


def do_begin(connection: Any) -> None:
    """The same as SQLAlchemy's dialects have it."""
    begin(connection.dbapi_connection)


def still_ours(connection: Connection) -> None:
    """Raise DatabaseUnavailable when each statement was committed by itself, which only a session not ours does.

    The connection is not used again; the next one is looked at when it is made.
    """
    status: int = connection.connection.driver_connection.server_status  # type: ignore[union-attr]
    if status & AUTOCOMMIT and not status & IN_TRANSACTION:
        connection.invalidate()
        raise DatabaseUnavailable(
            "these statements were committed one by one: a pooler in between has changed the session; "
            + ADVICE
        )


def do_commit(connection: Any) -> None:
    """As SQLAlchemy's dialects have it, without a trip when the last statement took its COMMIT along."""
    if not connection.driver_connection.committed:
        connection.commit()


def begun_before(raw: Any) -> Callable[..., None]:
    """An event that begins a transaction before each statement that has none: after DDL, which commits."""

    def before(_connection: Any, _cursor: Any, *_: Any) -> None:
        if not raw.server_status & IN_TRANSACTION:
            begin(raw)

    return before


def _words(value: str) -> frozenset[str]:
    return frozenset(str(value).split(","))
