"""What an SQL server says of itself, and what our account may do there; for doctor, which judges it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy.engine import Connection

from taskkit.center import schema as revisions
from taskkit.center.database import Database
from taskkit.center.grants import Grants, read_grants
from taskkit.center.statements import sql_facts as sql
from taskkit.center.transactions import TransactionFacts, read_transactions
from taskkit.clock import monotonic, utc_now
from taskkit.errors import SchemaError, StoreError

OUR_TABLES = sql.OUR_TABLES
LOOKS = 3
"""How often the time is asked for; the quickest answer counts, which is the one that says most about the clock."""


@dataclass(frozen=True, slots=True)
class SqlFacts:
    """Facts of one server or file. ``settings`` are its global variables, or an SQLite file's pragmas, as text.

    ``sessions`` is how many answered a few transactions of one connection; ``pooled``, whether that was foreseen.
    ``offset_ms`` is this node's clock less the database's; ``schema_problem`` the sentence that refuses the schema.
    None and empty: it did not tell.
    """

    product: str
    version: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    connected: int | None = None
    account: str | None = None
    database: str = ""
    grants: Grants | None = None
    engines: Mapping[str, str] = field(default_factory=dict)
    collations: Mapping[str, str] = field(default_factory=dict)
    indexes: frozenset[str] | None = None
    schema: str | None = None
    schema_needed: str = revisions.HEAD
    schema_problem: str | None = None
    offset_ms: float | None = None
    latency_ms: float | None = None
    transactions: TransactionFacts = field(default_factory=TransactionFacts)
    pooled: bool = False
    sessions: int = 1


def read_facts(database: Database) -> SqlFacts:
    """Ask the server; raises DatabaseUnavailable only when it cannot be reached."""
    database.read(lambda c: c.exec_driver_sql("SELECT 1").all())  # connecting is not part of the latency
    latency, offset = min(_clock(database) for _ in range(LOOKS))
    told = _sqlite(database) if database.sqlite else _server(database)
    revision, problem = _schema(database)
    return SqlFacts(
        **told,
        schema=revision,
        schema_problem=problem,
        offset_ms=round(offset, 3),
        latency_ms=round(latency, 3),
    )


def _clock(database: Database) -> tuple[float, float]:
    began, before = monotonic(), utc_now()
    there = database.now()
    took = monotonic() - began
    offset = (before - there).total_seconds() + took / 2
    return took * 1000, offset * 1000


def _schema(database: Database) -> tuple[str | None, str | None]:
    try:
        revisions.check(database)
    except SchemaError as error:
        return _revision(database), str(error)
    except StoreError:  # an account that may not read it; what it lacks is among its grants
        return None, None
    return _revision(database), None


def _revision(database: Database) -> str | None:
    try:
        return revisions.revision(database)
    except StoreError:
        return None


def _sqlite(database: Database) -> dict[str, Any]:
    def look(connection: Connection) -> dict[str, Any]:
        pragmas = {
            name: str(connection.exec_driver_sql(f"PRAGMA {name}").scalar()) for name in sql.SQLITE_PRAGMAS
        }
        rows = connection.exec_driver_sql(sql.SQLITE_TABLES).all()
        return {
            "product": "sqlite",
            "version": str(connection.exec_driver_sql(sql.SQLITE_VERSION).scalar()),
            "settings": pragmas,
            "engines": {row.name: "sqlite" for row in rows if row.type == "table"},
            "indexes": frozenset(f"{row.table_name}.{row.name}" for row in rows if row.type == "index"),
        }

    return database.read(look)


def _server(database: Database) -> dict[str, Any]:
    settings = {str(name).lower(): str(value) for name, value in _asked(database, sql.VARIABLES) or ()}
    # compared exactly: the server may take task_Run for task_run
    tables = [row for row in _asked(database, sql.TABLES) or () if row.name in OUR_TABLES]
    indexes = _asked(database, sql.INDEXES)
    name = str(database.url.database or "")
    connected = _asked(database, sql.CONNECTED)
    account = _asked(database, sql.ACCOUNT)
    version = settings.get("version", "")
    return {
        "product": "mariadb"
        if "mariadb" in f"{version}{settings.get('version_comment')}".lower()
        else "mysql",
        "version": version,
        "settings": settings,
        "connected": int(connected[0][1]) if connected else None,
        "account": str(account[0][0]) if account else None,
        "database": name,
        "grants": _grants(database, name),
        "engines": {row.name: str(row.engine) for row in tables},
        "collations": {row.name: str(row.collation) for row in tables},
        "transactions": read_transactions(lambda statement: _asked(database, statement)),
        "pooled": database.pooled,
        "sessions": len({row[0] for _ in range(LOOKS) for row in _asked(database, sql.SESSION) or ()}),
        "indexes": None if indexes is None else frozenset(f"{row.table_name}.{row.name}" for row in indexes),
    }


def _grants(database: Database, name: str) -> Grants | None:
    lines = _asked(database, sql.GRANTS)
    return None if lines is None else read_grants([str(row[0]) for row in lines], name)


def _asked(database: Database, statement: str) -> Any:
    """The rows; None where the account may not ask or the server does not know."""
    try:
        return database.read(lambda c: c.exec_driver_sql(statement.replace("%", "%%")).all())
    except StoreError:
        return None
