"""The caller's own connection, so that a task, or a ``once``, can be part of the caller's transaction."""

from __future__ import annotations

import sys
from typing import Any

from sqlalchemy.engine import Connection

from taskkit.center.dialect import Dialect, ForeignSQLite, MySQL
from taskkit.errors import InputError


def connection_of(given: Any) -> Connection:
    """The Connection of a SQLAlchemy Connection or Session; InputError for anything else."""
    if isinstance(given, Connection):
        return given
    orm = sys.modules.get(
        "sqlalchemy.orm"
    )  # whoever has a Session has imported it; nobody else shall wait for it
    if orm is not None and isinstance(given, orm.Session | orm.scoped_session):
        return given.connection()  # type: ignore[no-any-return]
    if type(given).__name__ in {"AsyncSession", "AsyncConnection"}:
        raise InputError(
            "connection",
            f"a {type(given).__name__} cannot be joined directly; use `await session.run_sync(lambda s: "
            "handler.options(connection=s).enqueue(…))`, or kit.once(s, …) there",
        )
    raise InputError("connection", f"must be a SQLAlchemy Connection or Session, not {type(given).__name__}")


def foreign_dialect(connection: Connection) -> Dialect:
    """How to speak on a connection of the caller's, through whatever driver."""
    if connection.dialect.name == "sqlite":
        return ForeignSQLite()
    if connection.dialect.name not in {"mysql", "mariadb"}:
        raise InputError("connection", f"is to {connection.dialect.name}; the task center is not there")
    dialect = MySQL()
    if connection.dialect.paramstyle == "qmark":
        dialect.mark = "?"
    return dialect
