"""Limits as persons set and see them, and the book of them that dispatch goes by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy.engine import Connection

from taskkit.center import lines
from taskkit.center.database import Database
from taskkit.center.statements import limits as sql
from taskkit.center.statements.people import RECORD
from taskkit.clock import monotonic
from taskkit.limits import OLD_S, Limit, LimitBook, Scope
from taskkit.model import Message
from taskkit.texts import encodable

WAITING_EVERY, ALL_EVERY = 30, 600
"""Every so many sweeps look at each line in which somebody waits, and at every task that waits."""


@dataclass(frozen=True, slots=True)
class LimitUse:
    """A queue or a key under a limit: how many are in use, how many wait, and since when the first of them is due."""

    limit: Limit
    name: str
    in_use: int = 0
    waiting: int = 0
    oldest: datetime | None = None


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a held task stands: the limit it waits for, what is in use there, and how many go before it."""

    limit: Limit
    name: str
    in_use: int
    before: int


class LimitDesk:
    """Sets limits and knows them. Processes look at them every second, so that no dispatch has to."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._book: LimitBook | None = None
        self._anybody, self._looked = False, 0.0
        self._sweeps = 0

    @property
    def book(self) -> LimitBook:
        """All limits as they were at the last look."""
        return self.refresh() if self._book is None else self._book

    @property
    def active(self) -> bool:
        """Whether there is any limit, or somebody still waits for one that was removed."""
        return bool(self.book) or self._anybody

    @property
    def fresh_book(self) -> LimitBook:
        """The same, looked at again if that was long ago, as after the process was stopped."""
        return self.refresh() if monotonic() - self._looked > OLD_S else self.book

    def refresh(self) -> LimitBook:
        """Look at what is set."""
        began = monotonic()
        self._book, self._anybody = self.database.read(self._look)
        self._looked = began
        return self._book

    def use(self, other: LimitDesk) -> None:
        """Know what another desk has seen, over a connection of its own."""
        self._book, self._anybody, self._looked = other._book, other._anybody, other._looked

    def read(self, connection: Connection) -> LimitBook:
        """All limits, as a transaction sees them."""
        return self._look(connection)[0]

    def _look(self, connection: Connection) -> tuple[LimitBook, bool]:
        """The clock is read before what it dates."""
        instant, text = self.database.dialect.instant, self.database.text
        row = connection.execute(text(sql.ANYBODY)).one()
        limits = [
            Limit(Scope(r.scope), r.name, r.concurrency, r.rate, r.period_s, instant(r.created_at))
            for r in connection.execute(text(sql.LIMITS))
        ]
        return LimitBook(limits, instant(row.now)), bool(row.anybody)

    def put(self, limit: Limit, actor: str) -> None:
        """Set a limit, or change its numbers; what waits is looked at anew."""
        parameters = {
            "scope": limit.scope.value,
            "name": limit.name,
            "concurrency": limit.concurrency,
            "rate": limit.rate,
            "period": limit.period,
        }

        def write(connection: Connection) -> None:
            text = sql.SET_SQLITE if self.database.sqlite else sql.SET_MYSQL
            connection.execute(self.database.text(text), parameters)
            lines.adopt(connection, self.database, limit.scope, limit.bounds)
            self._changed(connection, limit, actor, f"{limit}: {limit.terms}")

        self.database.write(write)
        self.refresh()

    def remove(self, scope: Scope, name: str, actor: str) -> bool:
        """Remove a limit, and let go what waits for it; False when there was none."""

        def write(connection: Connection) -> bool:
            parameters = {"scope": scope.value, "name": name}
            gone = bool(connection.execute(self.database.text(sql.REMOVE), parameters).rowcount)
            if gone:
                self._changed(connection, Limit(scope, name), actor, f"{scope} {name}: removed")
            return gone

        gone = self.database.write(write)
        self.refresh()
        return gone

    def uses(self) -> list[LimitUse]:
        """What is in use and what waits under each limit, by queue and key; one that is not used stands alone."""
        rows = self.database.read(lambda c: c.execute(self.database.text(sql.WAITING_AND_IN_USE)).all())
        book = self.refresh()
        found: dict[lines.LineName, LimitUse] = {}
        for row in rows:
            for scope, name in ((Scope.KEY, row.limit_key), (Scope.QUEUE, row.queue)):
                limit = book.find(scope, name)
                if limit is not None:
                    known = found.get((scope, name), LimitUse(limit, name))
                    found[scope, name] = self._added(known, scope, row)
        used = {(use.limit.scope, use.limit.name) for use in found.values()}
        idle = [LimitUse(limit, limit.name) for limit in book if (limit.scope, limit.name) not in used]
        return [use for _, use in sorted(found.items())] + idle

    def standing(self, task_id: int) -> Standing | None:
        """Where a held task stands; None when it waits in no line."""
        return self.database.read(lambda c: self._standing(c, task_id))

    def send_back(self, messages: Sequence[Message]) -> set[int]:
        """Hold those of these dispatched tasks that a limit has not let go, since it is younger; returns their ids."""
        book = self.fresh_book
        ids = lines.dispatched_unbound(book, messages)
        return self.database.write(lambda c: lines.send_back(c, self.database, book, ids)) if ids else set()

    def sweep(self) -> int:
        """Keep the lines true to the rows; returns how many places were given back."""
        write, database, book = self.database.write, self.database, self.book
        given = write(lambda c: lines.tidy(c, database))
        if self._sweeps % WAITING_EVERY == 0:
            self.look_at_waiting()
        if self._sweeps % ALL_EVERY == 0:
            given += write(lambda c: lines.tidy_lines(c, database))
            write(lambda c: lines.place_again(c, database, book))
        self._sweeps += 1
        return given

    def look_at_waiting(self) -> None:
        """Look at each line in which somebody waits, since the limits have changed, or to be sure."""
        book = self.book
        self.database.write(lambda c: lines.look_at_waiting(c, self.database, book))

    def full_lists(self, queues: Sequence[str], most: int) -> set[tuple[str, int]]:
        """Lists of these queues of which so many wait for the queue's limit already, as (queue, priority)."""
        limited = [queue for queue in queues if self.book.find(Scope.QUEUE, queue) is not None]
        if not limited:
            return set()
        text = self.database.text(sql.QUEUE_LINES)
        rows = self.database.read(lambda c: c.execute(text, {"queues": limited}).all())
        return {(row.queue, row.priority) for row in rows if row.n >= most}

    def _changed(self, connection: Connection, limit: Limit, actor: str, detail: str) -> None:
        low, high = limit.bounds
        parameters = {"scope": limit.scope.value, "low": low, "high": high}
        connection.execute(self.database.text(sql.LOOK_AGAIN), parameters)
        record = {"actor": encodable(actor)[:100], "action": "limit", "task_id": None, "detail": detail}
        connection.execute(self.database.text(RECORD), record)

    def _added(self, known: LimitUse, scope: Scope, row: Any) -> LimitUse:
        if row.state == sql.TAKEN:
            return replace(known, in_use=known.in_use + row.n)
        if row.state != (sql.AT_KEY if scope is Scope.KEY else sql.AT_QUEUE):
            return known
        due = self.database.dialect.instant(row.oldest)
        oldest = min(filter(None, (known.oldest, due)), default=None)
        return replace(known, waiting=known.waiting + row.n, oldest=oldest)

    def _standing(self, connection: Connection, task_id: int) -> Standing | None:
        place = connection.execute(self.database.text(sql.PLACE_OF), {"id": task_id}).one_or_none()
        if place is None or place.state not in {sql.AT_KEY, sql.AT_QUEUE}:
            return None
        scope, name = (
            (Scope.KEY, place.limit_key) if place.state == sql.AT_KEY else (Scope.QUEUE, place.queue)
        )
        limit = self.read(connection).find(scope, name)
        if limit is None:
            return None
        column = "limit_key" if scope is Scope.KEY else "queue"
        parameters = {"name": name, "id": task_id}
        parameters |= {what: getattr(place, what) for what in ("state", "priority", "due_at")}
        before = connection.execute(
            self.database.text(sql.BEFORE_IT.replace("{column}", column)), parameters
        ).scalar_one()
        taken = connection.execute(
            self.database.text(sql.IN_USE_OF.replace("{column}", column)), {"name": name}
        ).scalar_one()
        return Standing(limit, str(name), int(taken), int(before))
