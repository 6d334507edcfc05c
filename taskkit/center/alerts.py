"""The book of alerts: what is wrong and was, silences, and the ledger of what was told. A step and its notices go together."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy.engine import Connection, Row

from taskkit.alerts import Alert, AlertChange, AlertState, Posting, Said, Silence
from taskkit.center.database import Database
from taskkit.center.outbox import OutboxDesk
from taskkit.center.statements import alerts as sql
from taskkit.center.statements.people import RECORD
from taskkit.clock import iso
from taskkit.errors import NotFound, StoreError
from taskkit.texts import encodable

INSTANTS = ("since", "breach_at", "under_at", "firing_at", "told_at", "resolved_at", "acked_at")
OBJECT_LETTERS = 190
LATE_S = 86_400
"""What ended within a silence is told so long after the end of that at most."""
STATES = tuple(state.value for state in AlertState)


class AlertBook:
    """Rows of ``task_alert`` and ``task_silence``, and through the outbox those of ``task_notice``."""

    def __init__(self, database: Database, outbox: OutboxDesk) -> None:
        self.database, self.outbox = database, outbox

    def open(self) -> list[Alert]:
        """All alerts that are pending or firing."""
        rows = self.database.read(lambda c: c.execute(self.database.text(sql.OPEN)).all())
        return [self._alert(row) for row in rows]

    def alert(self, alert_id: int) -> Alert:
        """One alert; raises NotFound."""
        text = self.database.text(sql.ALERT)
        row = self.database.read(lambda c: c.execute(text, {"id": alert_id}).one_or_none())
        if row is None:
            raise NotFound(
                f"there is no alert {alert_id}; `taskkit alerts list --all` shows those there were"
            )
        return self._alert(row)

    def newest(
        self,
        states: Sequence[str] = STATES,
        *,
        rule: str | None = None,
        since: datetime | None = None,
        most: int = 100,
    ) -> list[Alert]:
        """The newest alerts in these states, those of ``rule`` alone if given, that were open after ``since``."""
        values = {
            "states": list(states),
            "rule": rule,
            "since": self.database.dialect.bind(since),
            "most": most,
        }
        text = self.database.text(sql.NEWEST)
        return [self._alert(row) for row in self.database.read(lambda c: c.execute(text, values).all())]

    def record(self, changes: Iterable[AlertChange]) -> list[int]:
        """Write steps with their notices, each in one transaction; the ids of the alerts, 0 where another was faster."""
        return [self._one(change) for change in changes]

    def _one(self, change: AlertChange) -> int:
        return self.database.write(lambda c: self._record(c, change))

    def _record(self, connection: Connection, change: AlertChange) -> int:
        before, after = change.before, change.after
        if after is None:
            if before is not None:
                self._run(connection, sql.ALERT_GONE, {"id": before.id})
            return 0
        alert_id = self._insert(connection, after) if before is None else self._set(connection, before, after)
        if alert_id:
            for posting in change.postings:
                self.outbox.desk.put(connection, _of(posting, alert_id))
        return alert_id

    def _insert(self, connection: Connection, alert: Alert) -> int:
        values = self._values(alert)
        if values["open_key"] is not None:
            found = self._run(connection, sql.ALERT_LOCK, {"open_key": values["open_key"]}).first()
            if found is not None:
                return 0
        done = self._run(connection, sql.ALERT_IN, values)
        if done.rowcount:
            return int(done.lastrowid)
        if self._run(connection, sql.ALERT_LOCK, {"open_key": values["open_key"]}).first() is None:
            raise StoreError(
                f"the database does not take the alert of rule {alert.rule}, object {alert.object!r}"
            )
        return 0

    def _set(self, connection: Connection, before: Alert, after: Alert) -> int:
        told = self.database.dialect.bind(before.told_at)
        values = {
            **self._values(after),
            "id": before.id,
            "before": before.state.value,
            "told_before": told,
            "silence_before": before.silence_id,
        }
        return before.id if self._run(connection, sql.ALERT_SET, values).rowcount else 0

    def ack(self, alert_id: int, who: str) -> Alert:
        """Somebody looks after it: it is not repeated any more. Raises NotFound for one that is over."""
        values = {"id": alert_id, "who": encodable(who)[:100]}
        if not self._by(who, "ack", f"alert {alert_id}", sql.ACK, values)[0]:
            raise NotFound(f"there is no open alert {alert_id}; `taskkit alerts list` shows those there are")
        return self.alert(alert_id)

    def silence(
        self,
        ends_at: datetime,
        author: str,
        reason: str,
        *,
        rule: str | None = None,
        object: str | None = None,
        starts_at: datetime | None = None,
    ) -> int:
        """Tell nothing of these alerts until then; returns the silence's id."""
        bind = self.database.dialect.bind
        values = {
            "rule": rule,
            "object": object,
            "starts_at": bind(starts_at),
            "ends_at": bind(ends_at),
            "author": encodable(author)[:100],
            "reason": encodable(reason)[:190],
        }
        about = f"{rule or 'all rules'}, {object or 'all objects'}, until {iso(ends_at)}: {reason}"
        return self._by(author, "silence", about, sql.SILENCE_IN, values)[1]

    def end_silence(self, silence_id: int, who: str) -> None:
        """End it now; raises NotFound when there is none that lasts."""
        if not self._by(who, "unsilence", f"silence {silence_id}", sql.SILENCE_END, {"id": silence_id})[0]:
            raise NotFound(
                f"there is no silence {silence_id} that lasts; `taskkit alerts silences` shows them"
            )

    def _by(
        self, who: str, action: str, about: str, template: str, values: dict[str, Any]
    ) -> tuple[int, int]:
        """Something a person does, with its record, if it did anything; how many rows, and the id of a new one."""

        def work(connection: Connection) -> tuple[int, int]:
            done = self._run(connection, template, values)
            rows, row_id = int(done.rowcount), int(done.lastrowid or 0)
            if rows:
                detail = encodable(about)
                record = {"actor": encodable(who)[:100], "action": action, "task_id": None, "detail": detail}
                self._run(connection, RECORD, record)
            return rows, row_id

        return self.database.write(work)

    def silences(self, *, coming: bool = False) -> list[Silence]:
        """Those that hold now, and with ``coming`` those that have not begun yet."""
        rows = self.database.read(lambda c: self._run(c, sql.SILENCES, {}).all())
        return [self._silence(row) for row in rows if coming or row.holds]

    def ended_in_silence(self, rule: str) -> list[Alert]:
        """Alerts of a rule that people were told of, and that ended within a silence which is over since; of one day."""
        over = self.database.read(lambda c: self._run(c, sql.SILENCES_OVER, {"seconds": LATE_S}).all())
        if not over:
            return []
        values = {
            "rule": rule,
            "ids": [int(row.id) for row in over],
            "since": min(row.starts_at for row in over),
        }
        return [
            self._alert(row)
            for row in self.database.read(lambda c: self._run(c, sql.ENDED_WITHIN, values).all())
        ]

    def _silence(self, row: Row[Any]) -> Silence:
        starts, ends = (self.database.dialect.instant(at) for at in (row.starts_at, row.ends_at))
        assert starts is not None  # noqa: S101 - the columns are never empty
        assert ends is not None  # noqa: S101
        return Silence(int(row.id), row.rule, row.object, starts, ends, row.author, row.reason)

    def told(self, alert_id: int) -> list[dict[str, Any]]:
        """The notices about an alert, each with the calls that were made for it."""
        notices = self._rows(sql.TOLD, {"id": alert_id})
        ids = [row["id"] for row in notices] + [row["merged_into"] for row in notices if row["merged_into"]]
        calls = self._rows(sql.CALLS, {"ids": ids or [0]})
        return [
            row | {"calls": [one for one in calls if one["notice_id"] in (row["id"], row["merged_into"])]}
            for row in notices
        ]

    def _values(self, alert: Alert) -> dict[str, Any]:
        bind = self.database.dialect.bind
        name = object_name(alert.object)
        closed = alert.state is AlertState.RESOLVED
        return {
            "rule": alert.rule,
            "object": name,
            "open_key": None if closed else f"{alert.rule}|{name}",
            "state": alert.state.value,
            "severity": alert.severity,
            "cause": alert.cause,
            "value": alert.value,
            "unit": alert.unit,
            "said": msgspec.json.encode(alert.said).decode(),
            "flaps": alert.flaps,
            "inhibited_by": alert.inhibited_by,
            "silence_id": alert.silence_id,
            **{column: bind(getattr(alert, column)) for column in INSTANTS[:-1]},
        }

    def _alert(self, row: Row[Any]) -> Alert:
        instant = self.database.dialect.instant
        values = dict(row._mapping)
        values |= {name: instant(values[name]) for name in INSTANTS}
        values["state"] = AlertState(values["state"])
        said = msgspec.json.decode(values["said"] or b"{}", type=dict[str, Said])
        return Alert(**values | {"said": said})

    def _run(self, connection: Connection, template: str, values: dict[str, Any]) -> Any:
        return connection.execute(self.database.text(template), values)

    def _rows(self, template: str, values: dict[str, Any]) -> list[dict[str, Any]]:
        rows = self.database.read(lambda c: self._run(c, template, values).all())
        instant = self.database.dialect.instant
        return [
            {
                name: instant(value) if name == "at" or name.endswith("_at") else value
                for name, value in row._mapping.items()
            }
            for row in rows
        ]


def object_name(name: str) -> str:
    """An object as its column holds it: what is longer than any name may be ends with a digest, so that two stay two."""
    text = encodable(name)
    if len(text) <= OBJECT_LETTERS:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    return f"{text[: OBJECT_LETTERS - 13]}…{digest}"


def _of(posting: Posting, alert_id: int) -> Posting:
    """A new alert gets its number when it is written."""
    if posting.item.alert_id == alert_id:
        return posting
    return replace(posting, item=msgspec.structs.replace(posting.item, alert_id=alert_id))
