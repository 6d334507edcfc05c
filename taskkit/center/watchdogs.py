"""What watchdogs say of themselves and of their rules: rows of ``task_watchdog`` and ``task_rule``."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any

from sqlalchemy.engine import Connection

from taskkit.beats import HOST_LETTERS
from taskkit.center.database import Database
from taskkit.center.statements import alerts as sql
from taskkit.texts import cut

ERROR_BYTES = 2000


class WatchdogDesk:
    """Watchdogs and the state of their rules."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def enter(self, watchdog_id: str, host: str, pid: int) -> None:
        """A watchdog starts."""
        self._write(sql.WATCHDOG_IN, {"watchdog_id": watchdog_id, "host": host[:HOST_LETTERS], "pid": pid})

    def beat(self, watchdog_id: str, rounds: int, last_round_at: datetime | None) -> bool:
        """A watchdog's heartbeat; False when its row is gone."""
        at = self.database.dialect.bind(last_round_at)
        return (
            self._write(
                sql.WATCHDOG_BEAT, {"watchdog_id": watchdog_id, "rounds": rounds, "last_round_at": at}
            )
            == 1
        )

    def leave(self, watchdog_id: str) -> None:
        """A watchdog has stopped in order."""
        self._write(sql.WATCHDOG_OUT, {"watchdog_id": watchdog_id})

    def all(self) -> list[dict[str, Any]]:
        """All that are remembered, the freshest first, each with ``heartbeat_age_s`` and ``round_age_s``."""
        return self._rows(sql.WATCHDOGS)

    def note(self, rule: str, state: str, took_ms: float | None = None, error: str | None = None) -> None:
        """What a check of ``rule`` came to: ok, breach, no_data or failed."""
        values = {
            "rule": rule,
            "state": state,
            "took_ms": took_ms,
            "error": cut(error, ERROR_BYTES) if error else None,
        }

        def work(connection: Connection) -> None:
            if not connection.execute(self.database.text(sql.RULE_SET), values).rowcount:
                connection.execute(self.database.text(sql.RULE_IN), {"rule": rule, "state": state})
                connection.execute(self.database.text(sql.RULE_SET), values)

        self.database.write(work)

    def keep(self, rules: Collection[str]) -> int:
        """Forget how the checks of all other rules fared, which nobody looks after any more; returns how many there were."""
        known = {"names": sorted(rules) or [""]}
        return self.database.write(
            lambda c: int(c.execute(self.database.text(sql.RULES_GONE), known).rowcount)
        )

    def rules(self) -> dict[str, dict[str, Any]]:
        """By rule: state, since when, when it was checked last, how long that took and what failed."""
        return {row["rule"]: row for row in self._rows(sql.RULES)}

    def _write(self, template: str, values: dict[str, Any]) -> int:
        return self.database.write(lambda c: int(c.execute(self.database.text(template), values).rowcount))

    def _rows(self, template: str) -> list[dict[str, Any]]:
        rows = self.database.read(lambda c: c.execute(self.database.text(template)).all())
        return [{name: self._value(name, value) for name, value in row._mapping.items()} for row in rows]

    def _value(self, name: str, value: Any) -> Any:
        if name.endswith("_at") or name == "since":
            return self.database.dialect.instant(value)
        return float(value) if name.endswith("_age_s") and value is not None else value
