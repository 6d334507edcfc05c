"""The caller's own connection, so that a task can be part of the caller's transaction."""

from __future__ import annotations

from typing import Any

from sqlalchemy.engine import Connection
from sqlalchemy.orm import Session, scoped_session

from taskkit.errors import InputError


def connection_of(given: Any) -> Connection:
    """The Connection of a SQLAlchemy Connection or Session; InputError for anything else."""
    if isinstance(given, Connection):
        return given
    if isinstance(given, Session | scoped_session):
        return given.connection()
    if type(given).__name__ in {"AsyncSession", "AsyncConnection"}:
        raise InputError(
            "connection",
            f"a {type(given).__name__} cannot be joined directly; use `await session.run_sync(lambda s: "
            "handler.options(connection=s).enqueue(…))`",
        )
    raise InputError("connection", f"must be a SQLAlchemy Connection or Session, not {type(given).__name__}")
