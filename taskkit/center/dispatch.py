"""The scheduler's verbs: which lists have due rows, which rows, claim them (→ 1), put them back (→ 0)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from msgspec import Struct
from sqlalchemy.engine import Connection
from sqlalchemy.exc import IntegrityError

from taskkit.center.database import Database
from taskkit.center.doubts import Doubts
from taskkit.center.expiry import expire
from taskkit.center.faults import explain
from taskkit.center.intake import new_token
from taskkit.center.limits import LimitDesk
from taskkit.center.lines import hold
from taskkit.center.occurrences import record_fired, states_of, take_back_fired
from taskkit.center.packed import commit_with_next, read_rows, run
from taskkit.center.shards import ShardDesk
from taskkit.center.statements import dispatch as sql
from taskkit.clock import seconds
from taskkit.errors import CommitUnknown, StoreError
from taskkit.limits import LimitBook
from taskkit.model import DueList, Waiting, Won
from taskkit.states import Move, Status, sources, target

DISPATCHABLE = sorted(int(s) for s in sources(Move.DISPATCH))


class Candidate(Struct, frozen=True, gc=False, array_like=True, order=True):
    """A due row as the index tells it, without a look at the row itself."""

    plan_next_run_at: datetime
    id: int


class Due(Struct, frozen=True, gc=False, array_like=True):
    """A locked row that is due: what decides whether it goes now."""

    id: int
    task_code: str
    task_type: int
    queue: str
    priority: int
    status: int
    attempt: int
    occurrence_at: datetime | None
    occurrence_attempt: int | None
    next_fire_at: datetime | None
    misfire: str
    cron_expr: str | None
    expires_at: datetime | None
    now: datetime


class BoundDue(Due, frozen=True, gc=False, array_like=True):
    """The same where there are limits."""

    limit_key: str | None
    plan_next_run_at: datetime


@dataclass(frozen=True, slots=True)
class Batch:
    """What one claim of due rows brought: the rows won, and those that somebody must look at first.

    ``held`` are those that now wait for a limit.
    """

    token: str
    won: list[Won] = field(default_factory=list)
    unadopted: list[int] = field(default_factory=list)
    misfired: list[int] = field(default_factory=list)
    expired: list[int] = field(default_factory=list)
    held: list[int] = field(default_factory=list)
    contended: int = 0


class DispatchDesk:
    """Finds and claims due rows. Every step re-checks what the one before saw; a lost race is not an error."""

    def __init__(
        self, database: Database, limits: LimitDesk, shards: ShardDesk, misfire_grace: float = 60.0
    ) -> None:
        self.database, self.limits, self.shards = database, limits, shards
        self.doubts = Doubts(database)
        self.grace = seconds(misfire_grace)

    def due_lists(self) -> tuple[list[DueList], datetime | None]:
        """All lists with waiting rows, and the database's clock; ``earliest`` None means rows nobody planned yet."""
        text = sql.LISTS_SQLITE if self.database.sqlite else sql.LISTS_MYSQL
        rows = self.database.read(lambda c: c.execute(self.database.text(text)).all())
        found: dict[tuple[str, int], dict[int, datetime | None]] = {}
        now = None
        for status, queue, priority, first, clock in rows:
            now = now or self.database.dialect.instant(clock)
            found.setdefault((queue, priority), {})[status] = self.database.dialect.instant(first)
        lists = []
        for (queue, priority), of_status in found.items():
            earliest = min((at for at in of_status.values() if at), default=None)
            due = bool(earliest and now and earliest <= now)
            lists.append(DueList(queue, priority, earliest, due, tuple(of_status)))
        return lists, now

    def refresh_statistics(self) -> None:
        """Let the server look at its indexes anew, so that finding the lists is a loose index scan again."""
        if not self.database.sqlite:
            self.database.write(lambda c: c.exec_driver_sql(sql.REFRESH_STATISTICS_MYSQL).fetchall())

    def candidates(
        self, queue: str, priority: int, n: int, skip: int = 0, statuses: Sequence[int] = DISPATCHABLE
    ) -> list[int]:
        """Ids of the ``n`` oldest due rows of a list, in these statuses, from the index alone; nothing is locked."""
        found: list[Candidate] = []

        def look(connection: Connection) -> None:
            for status in statuses:
                parameters = {"status": status, "queue": queue, "priority": priority, "n": n, "skip": skip}
                found.extend(read_rows(connection, self.database, sql.CANDIDATES, Candidate, parameters))

        self.database.read(look)
        return [one.id for one in sorted(found)[:n]]

    def waits(self, queue: str, priority: int) -> Waiting:
        """Whether somebody waits in front of a list, and how its queue is split."""
        parameters = {"queue": queue, "priority": priority}
        row = self.database.read(lambda c: run(c, self.database, sql.WAITS, parameters).one())
        waits = bool(row.pending or row.failed or row.bound)
        return Waiting(waits, self.database.dialect.moment(row.now), row.shards or 1, row.lists or 1)

    def claim(self, ids: Sequence[int]) -> Batch:
        """Move those of ``ids`` that are still due to status 1 under a fresh token, and record what fired.

        Those that have a limit wait for it instead.
        """
        token, book, _ = new_token(), self.limits.book, self.shards.book
        try:
            batch = self.database.write(lambda c: self._claim(c, sorted(ids), token, book))
            if batch is None:
                book = self.limits.refresh()
                batch = self.database.write(lambda c: self._claim(c, sorted(ids), token, book))
        except CommitUnknown:
            return Batch(token, won=self.doubts.won(ids, token))
        except IntegrityError as error:
            raise StoreError(explain(error, self.database.url)) from error
        return batch or Batch(token, contended=len(ids))

    def settle(self) -> Iterator[Batch]:
        """What claims have won, or the letting go of tasks has, whose COMMIT got no reply before SQL went away."""
        for token, won in self.doubts.settle():
            yield Batch(token, won=won)

    def put_back(self, won: Sequence[Won], token: str) -> int:
        """Undo a claim whose push was definitely refused; returns how many rows were still ours.

        An occurrence that fired by it is planned again, so that its misfire policy decides when the broker is back.
        """
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
            fired = connection.execute(self.database.text(sql.FIRED_BY), parameters).all()
            counts.append(connection.execute(self.database.text(sql.PUT_BACK), parameters).rowcount)
            take_back_fired(connection, self.database, [(r.id, r.occurrence_at, r.attempt) for r in fired])

        try:
            self.database.write(work)
        except CommitUnknown:
            self.database.write(work)
        return max(counts)

    def claim_locked(
        self, connection: Connection, rows: Sequence[Due], token: str, at: datetime
    ) -> list[Won]:
        """Move rows to status 1 that this transaction has locked and let go by their limits; those that may go now."""
        batch = Batch(token)
        ready = self._sort_out(connection, rows, batch)
        if ready:
            self._move(connection, ready, batch, at)
        return batch.won

    def _claim(self, connection: Connection, ids: list[int], token: str, book: LimitBook) -> Batch | None:
        """None when what is known of the limits was too old when the rows were locked."""
        parameters = {"ids": ids, "statuses": DISPATCHABLE}
        kind = BoundDue if book else Due
        rows = read_rows(connection, self.database, sql.LOCK_DUE, kind, parameters)
        if rows and book.is_old(rows[0].now):
            return None
        batch = Batch(token, contended=len(ids) - len(rows))
        ready = self._sort_out(connection, rows, batch)
        expire(connection, self.database, sql.EXPIRE_DUE, batch.expired)
        if book:
            ready = self._hold_bound(connection, ready, book, batch)
        if ready:
            self._move(connection, ready, batch, ready[0].now, is_last=True)
        return batch

    def _hold_bound(
        self, connection: Connection, rows: Sequence[Due], book: LimitBook, batch: Batch
    ) -> list[Due]:
        """Those without a limit; the others wait in their lines, in the order of which they are let go."""
        bound = [row for row in rows if isinstance(row, BoundDue) and book.covers(row.queue, row.limit_key)]
        if not bound:
            return list(rows)
        batch.held.extend(row.id for row in bound)
        failed = [row.id for row in bound if row.status == Status.FAILED]
        hold(connection, self.database, book, bound, failed)
        left = set(batch.held)
        return [row for row in rows if row.id not in left]

    def _sort_out(self, connection: Connection, rows: Sequence[Due], batch: Batch) -> list[Due]:
        """The rows that may go now; the others are noted in ``batch`` with the reason why not."""
        ready = []
        first_fires = [row for row in rows if _fires_first(row)]
        states = states_of(connection, self.database, [(r.id, r.occurrence_at) for r in first_fires])
        for row in rows:
            if _unadopted(row):
                batch.unadopted.append(row.id)
            elif row.expires_at is not None and row.expires_at <= row.now:
                batch.expired.append(row.id)
            elif _fires_first(row) and (self._misfired(row) or states.get(row.id, "planned") != "planned"):
                batch.misfired.append(row.id)
            else:
                ready.append(row)
        return ready

    def _misfired(self, row: Due) -> bool:
        """A further fire time has passed already, or a late run is unwanted: the planner decides what runs."""
        if row.misfire == "all":
            return False
        if row.next_fire_at is None or row.next_fire_at <= row.now:
            return True
        late = row.occurrence_at is not None and row.occurrence_at < row.now - self.grace
        return row.misfire == "skip" and late

    def _move(
        self, connection: Connection, ready: list[Due], batch: Batch, now: datetime, *, is_last: bool = False
    ) -> None:
        """Move locked rows; ``is_last``: nothing else is left to do in this transaction."""
        book = self.shards.book
        fired = [
            (row.id, row.occurrence_at, row.attempt + 1)
            for row in ready
            if row.occurrence_at is not None and _fires_first(row)
        ]
        groups = book.by_shards(ready)  # all are locked already, so their order does not matter
        for left, (shards, rows) in zip(range(len(groups) - 1, -1, -1), groups.items(), strict=True):
            if is_last and not left and not fired:
                commit_with_next(connection, self.database)
            parameters = {
                "ids": [row.id for row in rows],
                "statuses": DISPATCHABLE,
                "to": int(target(Move.DISPATCH)),
                "token": batch.token,
                "now": self.database.dialect.bind(now),
                "shards": shards,
            }
            run(connection, self.database, sql.CLAIM_DUE, parameters)
        record_fired(connection, self.database, fired, now)
        for row in ready:
            place = book.place(row.queue, row.priority, row.id)
            batch.won.append(
                Won(row.id, row.task_code, row.attempt + 1, row.queue, row.priority, now, place.shard)
            )


def _unadopted(row: Due) -> bool:
    """Somebody else's INSERT that the planner has not completed: without a queue, or periodic without a plan."""
    unplanned = row.occurrence_at is None and row.next_fire_at is None
    return row.queue == "" or (row.cron_expr is not None and (row.task_type != 1 or unplanned))


def _fires_first(row: Due) -> bool:
    """This dispatch would be the first attempt of a planned occurrence."""
    return bool(
        row.task_type == 1
        and row.status == Status.PENDING
        and row.occurrence_at is not None
        and row.occurrence_attempt is None
    )
