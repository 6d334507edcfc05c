"""Which schema a database has, and bringing it up to date with Alembic."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from taskkit.center.database import Database
from taskkit.center.faults import Fault, classify, explain
from taskkit.center.sessions import begun_before
from taskkit.errors import SchemaError

HEAD = "0004"
"""The schema this code was written for; it also runs on the next one (a rolling upgrade)."""
VERSION_TABLE = "task_schema"
WAIT_S = 60
OPEN_TRANSACTIONS = (
    "SELECT trx_mysql_thread_id, trx_started FROM information_schema.innodb_trx ORDER BY trx_started"
)
"""For a person who looks who holds a table; taskkit itself never asks."""
DDL = re.compile(r"\s*(ALTER|CREATE|DROP) .*?\b(?:TABLE|ON) +`?(\w+)", re.IGNORECASE | re.DOTALL)


def revision(database: Database) -> str | None:
    """The revision a database has; None when it has no schema of ours."""
    return None if database.absent else database.read(_revision)


def _revision(connection: sa.Connection) -> str | None:
    if not sa.inspect(connection).has_table(VERSION_TABLE):
        return None
    found = connection.execute(sa.text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()  # noqa: S608
    if found is not None and not str(found).isdecimal():
        raise SchemaError(f"{VERSION_TABLE} says {found!r}, which no taskkit wrote; restore it from a backup")
    return found


def check(database: Database) -> None:
    """Raise SchemaError unless this code can work on the database's schema."""
    found = revision(database)
    if found is None:
        raise SchemaError("the database has no taskkit schema yet; run `taskkit db upgrade`")
    if found < HEAD:
        raise SchemaError(f"the schema is {found} and this taskkit needs {HEAD}; run `taskkit db upgrade`")
    if int(found) > int(HEAD) + 1:
        raise SchemaError(
            f"the schema is {found}, too new for this taskkit (made for {HEAD}); upgrade taskkit"
        )


def upgrade(database: Database) -> tuple[str | None, str]:
    """Bring the schema up to date; returns the revision before and after. Safe to run twice at once."""
    before = revision(database)
    if before is not None and before >= HEAD:
        return before, before
    database.make_folder()
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))

    def run(connection: sa.Connection) -> None:
        _refuse_remains(connection)
        config.attributes["connection"] = connection
        command.upgrade(config, "head")

    with _alone(database):
        _run(database, run)
    return before, HEAD


def _run(database: Database, run: Any) -> None:
    """MySQL commits at every CREATE TABLE, so a repeat would find half a schema: no repeats here."""
    with database.engine.connect() as connection:
        transaction = connection.begin()
        if database.pooled:
            before = begun_before(connection.connection.driver_connection)
            sa.event.listen(connection, "before_cursor_execute", before)
        try:
            run(connection)
            transaction.commit()
        except SQLAlchemyError as error:
            transaction.rollback()
            said = explain(error, database.url, _held_up(error, database.sqlite))
            raise classify(error, database.sqlite).error(said) from error
        except BaseException:
            transaction.rollback()
            raise


def _held_up(error: SQLAlchemyError, sqlite: bool) -> str | None:
    """What to do about a change of a table that waited in vain: no row is locked then, but the table's definition."""
    changes = DDL.match(getattr(error, "statement", None) or "")
    if changes is None or classify(error, sqlite) is not Fault.LOCK_WAIT:
        return None
    verb, table = changes.group(1).upper(), changes.group(2)
    return (
        f"the {verb} waited for a metadata lock: a transaction that has used {table}, even if it only read, is still "
        f"open. Find it by SHOW PROCESSLIST, or by {OPEN_TRANSACTIONS} (needs PROCESS); end it there or by KILL <id>, "
        "and run `taskkit db upgrade` again: it goes on where it stopped"
    )


def _refuse_remains(connection: sa.Connection) -> None:
    """Half a schema is what a killed upgrade leaves on MySQL, which has no transactions for CREATE TABLE."""
    if sa.inspect(connection).has_table("task_center") and _revision(connection) is None:
        raise SchemaError(
            f"there is a task_center but no revision in {VERSION_TABLE}: an upgrade was cut short, or a restore left "
            f"it out; drop the tables task_… if they are empty, or restore {VERSION_TABLE}, and try again"
        )


@contextmanager
def _alone(database: Database) -> Iterator[None]:
    """Two upgrades at once: the second waits. On SQLite the transaction itself is exclusive.

    The lock stands in a transaction of its own, which stays open: a pooler takes back the connection of the upgrade at
    every CREATE and ALTER, since they commit.
    """
    if database.sqlite:
        yield
        return
    with database.engine.connect() as connection:
        connection.detach()  # closed at the end, and with it the lock is gone
        if getattr(connection.dialect, "is_mariadb", False):
            connection.execute(sa.text("SET SESSION idle_transaction_timeout = 0"))
        if connection.execute(sa.text(f"SELECT GET_LOCK('taskkit_upgrade', {WAIT_S})")).scalar() != 1:
            raise SchemaError(
                "another `taskkit db upgrade` is running on this database; try again when it is done"
            )
        yield
