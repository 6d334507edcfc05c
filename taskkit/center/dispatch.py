"""The scheduler's verbs: which lists have due rows, which rows, claim them (→ 1), put them back (→ 0)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy.engine import Connection, Row
from sqlalchemy.exc import IntegrityError

from taskkit.center.database import Database
from taskkit.center.faults import explain
from taskkit.center.intake import new_token
from taskkit.center.occurrences import record_fired, states_of
from taskkit.center.statements import dispatch as sql
from taskkit.clock import seconds
from taskkit.errors import CommitUnknown, StoreError
from taskkit.model import DueList, Won
from taskkit.states import Move, Status, sources, target

DISPATCHABLE = sorted(int(s) for s in sources(Move.DISPATCH))


@dataclass(frozen=True, slots=True)
class Batch:
    """What one claim of due rows brought: the rows won, and those that somebody must look at first."""

    token: str
    won: list[Won] = field(default_factory=list)
    unadopted: list[int] = field(default_factory=list)
    misfired: list[int] = field(default_factory=list)
    expired: list[int] = field(default_factory=list)
    contended: int = 0


class DispatchDesk:
    """Finds and claims due rows. Every step re-checks what the one before saw; a lost race is not an error."""

    def __init__(self, database: Database, misfire_grace: float = 60.0) -> None:
        self.database = database
        self.grace = seconds(misfire_grace)

    def due_lists(self) -> tuple[list[DueList], datetime | None]:
        """All lists with waiting rows, and the database's clock; ``earliest`` None means rows nobody planned yet."""
        text = sql.LISTS_SQLITE if self.database.sqlite else sql.LISTS_MYSQL
        rows = self.database.read(lambda c: c.execute(self.database.text(text)).all())
        earliest: dict[tuple[str, int], datetime | None] = {}
        now = None
        for _status, queue, priority, first, clock in rows:
            now = now or self.database.dialect.instant(clock)
            at = self.database.dialect.instant(first)
            known = earliest.get((queue, priority))
            earliest[queue, priority] = min(known, at) if known and at else known or at
        return [DueList(q, p, at, bool(at and now and at <= now)) for (q, p), at in earliest.items()], now

    def refresh_statistics(self) -> None:
        """Let the server look at its indexes anew, so that finding the lists is a loose index scan again."""
        if not self.database.sqlite:
            self.database.write(lambda c: c.exec_driver_sql(sql.REFRESH_STATISTICS_MYSQL).fetchall())

    def candidates(self, queue: str, priority: int, n: int, skip: int = 0) -> list[int]:
        """Ids of the ``n`` oldest due rows of a list, from the index alone; nothing is locked."""
        found: list[tuple[Any, int]] = []

        def look(connection: Connection) -> None:
            for status in DISPATCHABLE:
                parameters = {"status": status, "queue": queue, "priority": priority, "n": n, "skip": skip}
                rows = connection.execute(self.database.text(sql.CANDIDATES), parameters)
                found.extend((row[1], row[0]) for row in rows)

        self.database.read(look)
        return [task_id for _, task_id in sorted(found)[:n]]

    def claim(self, ids: Sequence[int]) -> Batch:
        """Move those of ``ids`` that are still due to status 1 under a fresh token, and record what fired."""
        token = new_token()
        try:
            return self.database.write(lambda c: self._claim(c, sorted(ids), token))
        except CommitUnknown:
            return Batch(token, won=self._won_by_token(ids, token))
        except IntegrityError as error:
            raise StoreError(explain(error, self.database.url)) from error

    def put_back(self, won: Sequence[Won], token: str) -> int:
        """Undo a claim whose push was definitely refused; returns how many rows were still ours."""
        if not won:
            return 0
        parameters = {
            "ids": sorted(w.id for w in won),
            "statuses": [int(s) for s in sources(Move.PUT_BACK)],
            "to": int(target(Move.PUT_BACK)),
            "token": token,
        }
        counts: list[int] = []

        def work(connection: Connection) -> None:
            counts.append(connection.execute(self.database.text(sql.PUT_BACK), parameters).rowcount)

        try:
            self.database.write(work)
        except CommitUnknown:
            self.database.write(work)
        return max(counts)

    def _claim(self, connection: Connection, ids: list[int], token: str) -> Batch:
        rows = connection.execute(
            self.database.text(sql.LOCK_DUE), {"ids": ids, "statuses": DISPATCHABLE}
        ).all()
        batch = Batch(token, contended=len(ids) - len(rows))
        ready = self._sort_out(connection, rows, batch)
        self._expire(connection, batch.expired)
        if ready:
            self._move(connection, ready, batch)
        return batch

    def _sort_out(self, connection: Connection, rows: Sequence[Row[Any]], batch: Batch) -> list[Row[Any]]:
        """The rows that may go now; the others are noted in ``batch`` with the reason why not."""
        ready = []
        first_fires = [row for row in rows if _fires_first(row)]
        states = states_of(connection, self.database, [(r.id, r.occurrence_at) for r in first_fires])
        for row in rows:
            if _unadopted(row):
                batch.unadopted.append(row.id)
            elif row.expires_at is not None and self._instant(row.expires_at) <= self._instant(row.now):
                batch.expired.append(row.id)
            elif _fires_first(row) and (self._misfired(row) or states.get(row.id, "planned") != "planned"):
                batch.misfired.append(row.id)
            else:
                ready.append(row)
        return ready

    def _misfired(self, row: Row[Any]) -> bool:
        """A further fire time has passed already, or a late run is unwanted: the planner decides what runs."""
        now = self._instant(row.now)
        if row.misfire == "all":
            return False
        if row.next_fire_at is None or self._instant(row.next_fire_at) <= now:
            return True
        return bool(row.misfire == "skip" and self._instant(row.occurrence_at) < now - self.grace)

    def _expire(self, connection: Connection, ids: list[int]) -> None:
        if ids:
            parameters = {
                "ids": ids,
                "statuses": [int(s) for s in sources(Move.EXPIRE)],
                "to": int(target(Move.EXPIRE)),
                "note": "expired before it could start",
            }
            connection.execute(self.database.text(sql.EXPIRE_DUE), parameters)

    def _move(self, connection: Connection, ready: list[Row[Any]], batch: Batch) -> None:
        now = self._instant(ready[0].now)
        parameters = {
            "ids": [row.id for row in ready],
            "statuses": DISPATCHABLE,
            "to": int(target(Move.DISPATCH)),
            "token": batch.token,
            "now": self.database.dialect.bind(now),
        }
        connection.execute(self.database.text(sql.CLAIM_DUE), parameters)
        fired = [(r.id, self._instant(r.occurrence_at), r.attempt + 1) for r in ready if _fires_first(r)]
        record_fired(connection, self.database, fired, now)
        batch.won.extend(
            Won(row.id, row.task_code, row.attempt + 1, row.queue, row.priority, now) for row in ready
        )

    def _won_by_token(self, ids: Sequence[int], token: str) -> list[Won]:
        """After a COMMIT whose reply was lost: what carries our token is ours. The lock waits for that COMMIT."""
        parameters = {"ids": sorted(ids), "status": int(Status.DISPATCHED), "token": token}
        rows = self.database.write(
            lambda c: c.execute(self.database.text(sql.WON_IN_BATCH), parameters).all()
        )
        return [
            Won(row.id, row.task_code, row.attempt, row.queue, row.priority, self._instant(row.dispatched_at))
            for row in rows
        ]

    def _instant(self, value: object) -> datetime:
        read = self.database.dialect.instant(value)
        assert read is not None  # noqa: S101 - the callers looked
        return read


def _unadopted(row: Row[Any]) -> bool:
    """Somebody else's INSERT that the planner has not completed: without a queue, or periodic without a plan."""
    unplanned = row.occurrence_at is None and row.next_fire_at is None
    return row.queue == "" or (row.cron_expr is not None and (row.task_type != 1 or unplanned))


def _fires_first(row: Row[Any]) -> bool:
    """This dispatch would be the first attempt of a planned occurrence."""
    return bool(
        row.task_type == 1
        and row.status == Status.PENDING
        and row.occurrence_at is not None
        and row.occurrence_attempt is None
    )
