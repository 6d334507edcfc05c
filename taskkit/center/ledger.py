"""A look into the ledger of what was told: one notice with its calls, and what each robot was asked to take of late."""

from __future__ import annotations

from typing import Any

from taskkit.center.database import Database
from taskkit.center.statements import ledger as sql


class LedgerDesk:
    """Reads rows of ``task_notice`` and ``task_delivery``; takes back a notice that nobody has begun to send."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def notice(self, uuid: str) -> dict[str, Any] | None:
        """A notice by its key, with the calls that were made for it; None when there is none."""
        found = self._rows(sql.NOTICE, {"uuid": uuid})
        if not found:
            return None
        return found[0] | {"calls": self._rows(sql.CALLS_OF, {"id": found[0]["id"]})}

    def take_back(self, uuid: str) -> bool:
        """Drop a notice that waits; False when it does not wait any more."""
        text = self.database.text(sql.NOTICE_OUT)
        return bool(self.database.write(lambda c: c.execute(text, {"uuid": uuid}).rowcount))

    def recent_calls(self, span_s: float = 60.0) -> dict[str, int]:
        """How many calls each robot had in the last seconds, by its fingerprint."""
        return {
            row["robot"]: int(row["calls"]) for row in self._rows(sql.RECENT_BY_ROBOT, {"span_s": span_s})
        }

    def _rows(self, template: str, values: dict[str, Any]) -> list[dict[str, Any]]:
        text, instant = self.database.text(template), self.database.dialect.instant
        rows = self.database.read(lambda c: c.execute(text, values).all())
        return [
            {
                name: instant(value) if name == "at" or name.endswith("_at") else value
                for name, value in row._mapping.items()
            }
            for row in rows
        ]
