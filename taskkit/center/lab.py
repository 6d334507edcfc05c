"""What the lab does to a database: a schema of its own, and a report transaction that holds the rows it reads."""

from __future__ import annotations

import contextlib
import secrets
import sqlite3
from collections.abc import Iterator

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from taskkit.center.database import Database
from taskkit.center.faults import explain
from taskkit.center.statements import drills as sql
from taskkit.errors import StoreError
from taskkit.settings.urls import sqlalchemy_url


@contextlib.contextmanager
def fresh_schema(url: str) -> Iterator[str]:
    """A new schema on the server of a MySQL or MariaDB URL while the block runs; gives its URL."""
    server = sa.make_url(sqlalchemy_url(url))
    name = f"taskkit_lab_{secrets.token_hex(4)}"
    _alone(server, sql.FRESH_SCHEMA.format(name))
    try:
        yield server.set(database=name).render_as_string(hide_password=False)
    finally:
        _alone(server, sql.DROP_SCHEMA.format(name))


def _alone(server: sa.URL, statement: str) -> None:
    engine = sa.create_engine(server, poolclass=sa.NullPool, hide_parameters=True)
    try:
        with engine.connect() as connection:
            connection.exec_driver_sql(statement)
    except DBAPIError as error:
        raise StoreError(f"the lab needs a schema of its own: {explain(error, server)}") from error
    finally:
        engine.dispose()


def is_writable(database: Database, seconds: float = 0.3) -> bool:
    """Whether SQLite's only write lock can be had soon; on a server each row has its own."""
    if not database.sqlite:
        return True
    with contextlib.closing(sqlite3.connect(str(database.url.database), timeout=seconds)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return False
        connection.rollback()
        return True


@contextlib.contextmanager
def report_transaction(database: Database) -> Iterator[int | None]:
    """Hold what a long report holds while the block runs; gives its connection's number.

    On MySQL and MariaDB these are the locks of all tasks, on SQLite the lock of the file, and then there is no number.
    """
    with database.engine.connect() as connection, connection.begin() as held:
        number = None
        if not database.sqlite:
            if getattr(connection.dialect, "is_mariadb", False):
                connection.exec_driver_sql(sql.HOLD_ON_MARIADB)
            number = int(connection.exec_driver_sql("SELECT CONNECTION_ID()").scalar_one())
            connection.exec_driver_sql(sql.REPORT).all()
        yield number
        with contextlib.suppress(
            DBAPIError
        ):  # somebody may have killed the connection, as a diagnosis advises
            held.rollback()
