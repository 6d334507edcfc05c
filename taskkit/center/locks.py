"""Locks in SQL, the fencing numbers of all locks, and ``once`` on a caller's connection."""

from __future__ import annotations

import secrets
from typing import Any

from sqlalchemy.engine import Connection

from taskkit.center.database import Database
from taskkit.center.joining import connection_of, foreign_dialect
from taskkit.center.statements import locks as sql
from taskkit.center.statements import sql_facts
from taskkit.errors import CommitUnknown, InputError
from taskkit.names import check_name


class LockDesk:
    """Rows of ``task_lock``; the database's clock decides when a lock is over.

    A row is never deleted: its fencing number would begin anew.
    """

    def __init__(self, database: Database) -> None:
        self.database = database

    def take(self, name: str, holder: str, ttl: float) -> int | None:
        """Hold the lock for ``ttl`` seconds; its fencing number, or None while somebody else holds it."""
        values = {"name": name, "holder": holder, "seconds": ttl}

        def work(connection: Connection) -> int | None:
            if not self._run(connection, sql.LOCK_TAKE, values).rowcount:
                if self._run(connection, sql.LOCK_KNOWN, values).scalar() is not None:
                    return None
                self._run(connection, sql.LOCK_IN, values)
                self._run(connection, sql.LOCK_TAKE, values)
            fence = self._run(connection, sql.LOCK_FENCE, values).scalar()
            return None if fence is None else int(fence)

        try:
            return self.database.write(work)
        except CommitUnknown:  # the same holder gets the same number again
            return self.database.write(work)

    def renew(self, name: str, holder: str, ttl: float) -> bool:
        """Hold it for ``ttl`` seconds from now, unless somebody else got it meanwhile."""
        return self._write(sql.LOCK_RENEW, {"name": name, "holder": holder, "seconds": ttl}) == 1

    def drop(self, name: str, holder: str) -> bool:
        """Give it back; False when somebody else got it meanwhile."""
        values = {"name": name, "holder": holder}
        try:
            return self._write(sql.LOCK_DROP, values) == 1
        except CommitUnknown:
            self._write(sql.LOCK_DROP, values)
            return True

    def next_fence(self, name: str) -> int:
        """The next fencing number of a lock that is kept elsewhere, larger than all before."""
        values = {"name": name}

        def work(connection: Connection) -> int:
            if not self._run(connection, sql.FENCE_NEXT, values).rowcount:
                self._run(connection, sql.LOCK_IN, values)
                self._run(connection, sql.FENCE_NEXT, values)
            return int(self._run(connection, sql.FENCE, values).scalar_one())

        try:
            return self.database.write(work)
        except CommitUnknown:  # a number that nobody got does no harm
            return self.database.write(work)

    def _run(self, connection: Connection, template: str, values: dict[str, Any]) -> Any:
        return connection.execute(self.database.text(template), values)

    def _write(self, template: str, values: dict[str, Any]) -> int:
        return self.database.write(lambda c: int(self._run(c, template, values).rowcount))


def once(given: Any, key: str) -> bool:
    """Whether ``key`` is new in the transaction of the caller's Connection or Session, which now holds it.

    Nothing is repeated or reconnected, and errors go up: after a deadlock the caller's own work is gone too.
    """
    check_name(key, "key", 190)
    connection = connection_of(given)
    dialect = foreign_dialect(connection)
    _refuse_autocommit(connection)
    holder = secrets.token_hex(12)
    connection.exec_driver_sql(sql.ONCE_IN[dialect.name].replace("?", dialect.mark), (key, holder))
    text = dialect.render(sql.ONCE_HOLDER).replace("?", dialect.mark)
    row = connection.exec_driver_sql(text, (key,)).first()
    if row is None or row[1] != key.encode().hex().upper():
        raise InputError(
            "key", f"{key!r} did not get through the connection's character set; use charset=utf8mb4"
        )
    return bool(row[0] == holder)


def _refuse_autocommit(connection: Connection) -> None:
    """A connection that commits each statement by itself cannot take the key back with the effect."""
    if _commits(connection):
        raise InputError(
            "connection", "is in AUTOCOMMIT: begin a transaction, so that a rollback takes the key back"
        )


def _commits(connection: Connection) -> bool:
    """Asked after a first statement: SQLAlchemy has begun by then, by a recipe of the caller's where there is one."""
    if connection.dialect.name != "sqlite":  # the server knows, whatever the driver tells
        return bool(int(connection.exec_driver_sql(sql_facts.AUTOCOMMIT).scalar_one()))
    connection.exec_driver_sql(sql_facts.NOTHING).all()
    driver: Any = connection.connection.driver_connection
    mode = getattr(
        driver, "autocommit", None
    )  # from Python 3.12 on; anything but True and False is as before
    legacy = not isinstance(mode, bool) and getattr(driver, "isolation_level", "") is None
    return (mode is True or legacy) and not driver.in_transaction
