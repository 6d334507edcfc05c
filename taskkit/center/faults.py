"""What a database error means: a deadlock, a lock wait, a lost connection, a missing schema, or something else."""

from __future__ import annotations

import re
from enum import Enum

from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from taskkit.errors import DatabaseUnavailable, SchemaError, StoreError


class Fault(Enum):
    """A class of database errors; how often a transaction is repeated for it, and after how long a pause."""

    DEADLOCK = "deadlock"
    LOCK_WAIT = "lock_wait"
    GONE = "gone"
    BUSY = "busy"
    UNREACHABLE = "unreachable"
    REFUSED = "refused"
    READ_ONLY = "read_only"
    TOO_LONG = "too_long"
    NO_SCHEMA = "no_schema"
    OTHER = "other"

    @property
    def repeats(self) -> bool:
        return self in {Fault.DEADLOCK, Fault.LOCK_WAIT, Fault.GONE, Fault.BUSY, Fault.READ_ONLY}

    @property
    def attempts(self) -> int:
        times = {Fault.DEADLOCK: 6, Fault.BUSY: 6, Fault.LOCK_WAIT: 2, Fault.GONE: 3, Fault.READ_ONLY: 2}
        return times.get(self, 1)

    @property
    def pause(self) -> float:
        return 0.05 if self in {Fault.GONE, Fault.BUSY, Fault.READ_ONLY} else 0.01

    @property
    def elsewhere(self) -> bool:
        """Whether this connection leads nowhere, or to the wrong server, so that the next try needs another one."""
        return self in {Fault.GONE, Fault.READ_ONLY}

    def error(self, message: str) -> StoreError:
        """The error to raise when repeating did not help."""
        if self is Fault.TOO_LONG:
            return StoreError(message)
        return SchemaError(message) if self is Fault.NO_SCHEMA else DatabaseUnavailable(message)


WAITED, NO_WAIT = 1205, 3572
SORT_ABORTED = 1028
"""Says for what reason in words only."""
MYSQL_CODES = {
    1213: Fault.DEADLOCK,
    1020: Fault.DEADLOCK,
    3101: Fault.DEADLOCK,
    WAITED: Fault.LOCK_WAIT,
    NO_WAIT: Fault.LOCK_WAIT,
    0: Fault.GONE,
    1053: Fault.GONE,
    1158: Fault.GONE,
    1159: Fault.GONE,
    1160: Fault.GONE,
    1161: Fault.GONE,
    1927: Fault.GONE,
    2006: Fault.GONE,
    2013: Fault.GONE,
    2014: Fault.GONE,
    2055: Fault.GONE,
    4031: Fault.GONE,
    1040: Fault.BUSY,
    1203: Fault.BUSY,
    2002: Fault.UNREACHABLE,
    2003: Fault.UNREACHABLE,
    2005: Fault.UNREACHABLE,
    1044: Fault.REFUSED,
    1045: Fault.REFUSED,
    1049: Fault.REFUSED,
    1142: Fault.REFUSED,
    1290: Fault.READ_ONLY,
    1836: Fault.READ_ONLY,
    1047: Fault.GONE,
    3100: Fault.GONE,
    1698: Fault.REFUSED,
    1969: Fault.TOO_LONG,
    3024: Fault.TOO_LONG,
    1054: Fault.NO_SCHEMA,
    1146: Fault.NO_SCHEMA,
}

ADVICE = {
    Fault.UNREACHABLE: "check that the server runs and that TASKKIT_DATABASE_URL has the right host and port",
    Fault.REFUSED: "check user, password, database and grants in TASKKIT_DATABASE_URL",
    Fault.READ_ONLY: "it is read only: TASKKIT_DATABASE_URL must lead to the primary, also after a failover",
    Fault.NO_SCHEMA: "run `taskkit db upgrade`",
    Fault.BUSY: "the server has no room for more connections or is locked; try again",
    Fault.TOO_LONG: "the server ended this statement at its time limit: look at a shorter time (--since), or try again "
    "when the server has less to do",
    Fault.GONE: "the server went away; try again",
    Fault.LOCK_WAIT: "somebody holds a lock on these rows; look for a long transaction",
}
SQLITE_LOCKED = "another process writes to it, or was stopped while it wrote and keeps all others out: look for one that hangs"
SQLITE_ADVICE = "check that the file and its folder exist, can be written, and have room"


def classify(error: BaseException, sqlite: bool) -> Fault:
    """The class of an error that came from SQLAlchemy or its driver."""
    if isinstance(error, PoolTimeout):
        return Fault.BUSY
    if not isinstance(error, DBAPIError) or error.orig is None:
        return Fault.OTHER
    if sqlite:
        return _classify_sqlite(str(error.orig))
    arguments = error.orig.args
    code = arguments[0] if arguments and isinstance(arguments[0], int) else None
    if code == 0 and "InterfaceError" not in type(error.orig).__name__:
        return Fault.OTHER
    fault = MYSQL_CODES.get(code, Fault.OTHER) if code is not None else Fault.OTHER
    if code == SORT_ABORTED and "maximum statement execution time" in str(arguments[-1]):
        return Fault.TOO_LONG
    return Fault.GONE if fault is Fault.OTHER and error.connection_invalidated else fault


def refuses_to_wait(error: DBAPIError) -> bool:
    """Whether a statement with NOWAIT met a lock: MariaDB says so as it does of a wait that took too long.

    MySQL does wait for the definition of a table that is being changed, and then says 1205 as well.
    """
    code = error.orig.args[0] if error.orig is not None and error.orig.args else None
    return code in {NO_WAIT, WAITED}


def _classify_sqlite(text: str) -> Fault:
    if "locked" in text or "busy" in text:
        return Fault.BUSY
    if "no such table" in text or "no such column" in text:
        return Fault.NO_SCHEMA
    if "unable to open" in text or "not a database" in text or "disk" in text:
        return Fault.UNREACHABLE
    return Fault.REFUSED if "readonly" in text else Fault.OTHER


def explain(error: SQLAlchemyError, url: URL, advice: str | None = None) -> str:
    """One line for people: what the database said, which one, and what to do; never a password or a parameter.

    ``advice`` is for who knows better what to do than the class of the error.
    """
    sqlite = url.get_backend_name() == "sqlite"
    fault = classify(error, sqlite)
    place = url.database if sqlite else f"{url.host}:{url.port or 3306}/{url.database or ''}"
    original = error.orig if isinstance(error, DBAPIError) else None
    parts = original.args if original is not None and original.args else (str(error),)
    said = str(parts[-1]) if parts[-1] else type(error).__name__
    said = re.sub(r"\s+", " ", said).strip()[:300]
    advice = advice or ADVICE.get(fault)
    if sqlite and fault in {Fault.UNREACHABLE, Fault.REFUSED}:
        advice = SQLITE_ADVICE
    if sqlite and fault is Fault.BUSY and not isinstance(error, PoolTimeout):
        advice = SQLITE_LOCKED
    if isinstance(error, OperationalError) and url.password:
        said = said.replace(str(url.password), "***")
    return f"database {place}: {said}" + (f"; {advice}" if advice else "")
