"""Tasks that expired before they could start end as cancelled, whoever finds them."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy.engine import Connection

from taskkit.center.database import Database
from taskkit.states import Move, sources, target


def expire(connection: Connection, database: Database, template: str, ids: Iterable[int]) -> None:
    """Run this statement, which names the rows that may be moved, for those of ``ids`` that are still as it says."""
    if found := sorted(ids):
        parameters = {
            "ids": found,
            "statuses": [int(s) for s in sources(Move.EXPIRE)],
            "to": int(target(Move.EXPIRE)),
            "note": "expired before it could start",
        }
        connection.execute(database.text(template), parameters)
