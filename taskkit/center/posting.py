"""Putting news into the outbox: together with others of its group, in place of what nobody was told yet, or alone."""

from __future__ import annotations

import secrets
from typing import Any

import msgspec
from msgspec.structs import replace
from sqlalchemy.engine import Connection

from taskkit.alerts import Event, Item, Notice, Posting
from taskkit.center.database import Database
from taskkit.center.statements import outbox as sql

MOST_TOGETHER = 100
"""Alerts that gather in one notice: their ids alone fit into the smallest message there is."""


class PostDesk:
    """New rows of ``task_notice``, within the transactions of others."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def put(self, connection: Connection, posting: Posting) -> None:
        """Put one item into the outbox, within a transaction: into a notice that still gathers, or into a new one.

        What is over before anybody was told is not told; what waits longer for another reason tells how it ended. A
        notebook goes by itself, so that it takes nobody's place.
        """
        alone = posting.item.event in (Event.FIRING, Event.EVIDENCE)
        if not alone and self._amended(connection, posting):
            return
        values = {"receiver": posting.receiver, "group_key": posting.group}
        gathering = self._run(connection, sql.GATHERING, values).first() if posting.wait_s else None
        if gathering is not None and len((notice := notice_of(gathering.body)).items) < MOST_TOGETHER:
            self._change(connection, int(gathering.id), (*notice.items, posting.item), notice)
            self._note(connection, int(gathering.id), posting.item)
            return
        notice = Notice(uuid=new_uuid(), receiver=posting.receiver, items=(posting.item,))
        self.new(
            connection,
            notice,
            group=posting.group,
            wait_s=posting.wait_s,
            severity=posting.item.severity,
        )

    def _amended(self, connection: Connection, posting: Posting) -> bool:
        """Whether an untold notice about this alert took the news in; then there is nothing more to tell."""
        item = posting.item
        values = {"alert_id": item.alert_id, "receiver": posting.receiver}
        amended = dropped = False
        for row in self._run(connection, sql.UNTOLD, values).all():
            notice = notice_of(row.body)
            others = tuple(one for one in notice.items if one.alert_id != item.alert_id)
            states = [one.event for one in notice.items if one.alert_id == item.alert_id]
            states = [event for event in states if event is not Event.EVIDENCE]
            if not states and not dropped:
                continue
            dropped = dropped or (
                not amended and item.event is Event.RESOLVED and row.gathers and states[-1] is Event.FIRING
            )
            if amended or dropped:
                self._take_out(connection, int(row.id), others, notice, item.alert_id)
                continue
            amended = True
            first = item.event is Event.REPEAT and states[-1] is Event.FIRING
            news = replace(item, event=Event.FIRING) if first else item
            self._change(connection, int(row.id), (*others, news), notice)
            values = {"notice_id": row.id, "alert_id": item.alert_id, "event": news.event.value}
            self._run(connection, sql.NOTICE_OF_SET, values)
        return amended or dropped

    def _take_out(
        self, connection: Connection, notice_id: int, others: tuple[Item, ...], notice: Notice, alert_id: int
    ) -> None:
        self._run(connection, sql.NOTICE_OF_OUT, {"notice_id": notice_id, "alert_id": alert_id})
        if others:
            self._change(connection, notice_id, others, notice)
        else:
            self._run(connection, sql.NOTICE_DROP, {"id": notice_id, "state": "dropped", "into": None})

    def _change(
        self, connection: Connection, notice_id: int, items: tuple[Item, ...], notice: Notice
    ) -> None:
        changed = replace(notice, items=items)
        values = {"id": notice_id, "body": body_of(changed), "severity": changed.severity}
        self._run(connection, sql.NOTICE_BODY, values)

    def new(
        self,
        connection: Connection,
        notice: Notice,
        *,
        group: str = "",
        wait_s: float = 0.0,
        severity: str = "warning",
    ) -> int:
        """Put a whole notice into the outbox; returns its id."""
        values = {
            "uuid": notice.uuid,
            "receiver": notice.receiver,
            "group_key": group,
            "severity": severity,
            "body": body_of(notice),
            "wait_s": wait_s,
        }
        notice_id = int(self._run(connection, sql.NOTICE_IN, values).lastrowid)
        for item in notice.items:
            self._note(connection, notice_id, item)
        return notice_id

    def _note(self, connection: Connection, notice_id: int, item: Item) -> None:
        values = {"notice_id": notice_id, "alert_id": item.alert_id, "event": item.event.value}
        self._run(connection, sql.NOTICE_OF_IN, values)

    def _run(self, connection: Connection, template: str, values: dict[str, Any]) -> Any:
        return connection.execute(self.database.text(template), values)


def new_uuid() -> str:
    """An idempotency key."""
    return secrets.token_hex(16)


def notice_of(body: str | bytes) -> Notice:
    """A notice as its row has it."""
    return msgspec.json.decode(body, type=Notice)


def body_of(notice: Notice) -> str:
    """A notice for its row."""
    return msgspec.json.encode(notice).decode()
