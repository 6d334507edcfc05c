"""The lines that one transaction holds: what is in use there, who is first, and when they are to be looked at again."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy.engine import Connection

from taskkit.center.limits import LimitDesk
from taskkit.center.lines import LineName
from taskkit.center.packed import write_rows
from taskkit.center.statements import limits as sql
from taskkit.clock import EPOCH, seconds
from taskkit.limits import MOST, Limit, Scope, Starts

PORTION = 500
"""Most tasks that one line lets go at once."""


@dataclass(frozen=True, slots=True)
class Place:
    """A task in a line, or one that was."""

    task_id: int
    queue: str
    limit_key: str | None
    priority: int = 0
    due_at: Any = None
    state: int = sql.BACK

    @property
    def order(self) -> tuple[int, str, int]:
        """Who comes first: by priority, then by time."""
        return self.priority, str(self.due_at), self.task_id

    @property
    def line(self) -> LineName:
        """The line it waits in."""
        return (Scope.KEY, str(self.limit_key)) if self.state == sql.AT_KEY else (Scope.QUEUE, self.queue)


@dataclass(slots=True)
class LimitLine:
    """A line: its limit (None when it was removed), what is in use, who has passed on to a queue's line, who goes now.

    ``asked`` is how many there was room for, ``found`` how many waited; a line that was not asked is only counted.
    ``startable`` is what its rate has room for, once that was looked at; a ``shared`` line is not under our lock.
    """

    name: LineName
    limit: Limit | None
    starts: Starts
    look_at: datetime | None
    in_use: int = 0
    passed: int = 0
    going: int = 0
    asked: int | None = None
    found: int = 0
    again: float | None = None
    touched: bool = False
    startable: int | None = None
    shared: bool = False

    @property
    def over(self) -> bool:
        """Whether more are in use, and have passed on, than may be by now."""
        most = None if self.limit is None else self.limit.concurrency
        return most is not None and self.in_use + self.passed > most

    def room(self, now: datetime) -> int:
        """How many more may go now."""
        if self.limit is None:
            return MOST
        if self.startable is None:
            self.startable = self.starts.room(self.limit, now)
        free = MOST if self.limit.concurrency is None else self.limit.concurrency - self.in_use
        return min(free, self.startable) - self.going

    def look_again(self, wait: float) -> None:
        """Look at it again after so many seconds."""
        self.again = wait if self.again is None else min(self.again, wait)

    def went(self, now: datetime, won: bool, *, passed: bool) -> None:
        """One that was to go went, or did not after all."""
        self.touched = True
        self.going -= 1
        if passed and self.name[0] is Scope.KEY:
            self.passed -= 1
        if not won:
            self.look_again(0)
            return
        self.in_use += 1
        if self.limit is not None:
            self.starts.take(self.limit, now, 1)
            self.startable = None

    def next_look(self, now: datetime) -> datetime | None:
        """When somebody may go next; None: not before a place is given back, or somebody comes."""
        if self.again is not None:
            return now + seconds(self.again)
        if self.asked is None and not self.touched:
            return self.look_at
        if self.found < (self.asked or 0) or self._in_use_up:
            return None
        if self.limit is None or self.limit.rate is None:
            return now
        if not self.asked and self.starts.room(self.limit, now) > 0:
            return None  # it is kept for those that passed on
        return max(now, self.starts.next(self.limit, now))

    @property
    def _in_use_up(self) -> bool:
        """Whether as many are in use as may be, with those that passed on."""
        most = None if self.limit is None else self.limit.concurrency
        return most is not None and self.in_use + self.passed >= most


class LockedLines:
    """Lines by name; ``now`` is the database's clock as it was last seen."""

    def __init__(self, connection: Connection, limits: LimitDesk) -> None:
        self.connection, self.limits, self.database = connection, limits, limits.database
        self.book, self.now = limits.book, EPOCH
        self._lines: dict[LineName, LimitLine] = {}

    def __contains__(self, name: LineName) -> bool:
        return name in self._lines

    def __getitem__(self, name: LineName) -> LimitLine:
        return self._lines[name]

    @property
    def names(self) -> list[LineName]:
        """All that are locked."""
        return list(self._lines)

    def lock(self, names: Collection[LineName], *, missing: bool = False) -> None:
        """Lock these as well, but for those that another transaction holds; ``missing`` makes what was never there."""
        wanted = {name for name in names if name not in self._lines}
        if missing and wanted:
            self._make(wanted)
        if not wanted:
            return
        instant, parameters = self.database.dialect.instant, self._by_scope(wanted)
        rows = self.connection.execute(self.database.text(sql.LOCK_LINES), parameters).all()
        self.note_clock(instant(row.now) or EPOCH for row in rows)
        if not self._lines and self.book.is_old(self.now):
            self.book = self.limits.read(self.connection)
        for row in rows:
            name = Scope(row.scope), row.name
            limit = self.book.find(*name)
            self._lines[name] = LimitLine(name, limit, Starts.decode(row.starts), instant(row.look_at))
        self._count([name for name in wanted if name in self._lines])

    def join_keys(self, names: Collection[LineName]) -> None:
        """The lines of keys whose tasks have passed on to a queue's line.

        What is in use and what has passed on are together never more than may be, and a task that goes changes
        nothing of that: so these are only counted. Locked are those with a rate, or with smaller numbers than before.
        """
        keys = {name for name in names if name not in self._lines and name[0] is Scope.KEY}
        limits = {name: self.book.find(*name) for name in keys}
        counted = {name for name, limit in limits.items() if limit is not None and limit.rate is None}
        for name in counted:
            self._lines[name] = LimitLine(name, limits[name], Starts(), None, shared=True)
        self._count(sorted(counted))
        over = {name for name in counted if self._lines[name].over}
        for name in over:
            del self._lines[name]
        self.lock((keys - counted) | over, missing=True)

    def note_clock(self, instants: Iterable[datetime]) -> None:
        """The clock of a later statement: a grant is dated after the ends that it has counted, never before."""
        self.now = max([self.now, *instants])

    def oldest(self, names: Sequence[LineName]) -> list[Place]:
        """The first of each line, as many as there is room for."""
        asked: list[tuple[LineName, int]] = []
        for name in names:
            line = self._lines[name]
            line.asked = max(0, min(PORTION, line.room(self.now) - line.passed))
            if line.asked:
                asked.append((name, line.asked))
        if not asked:
            return []
        text = self.database.dialect.render(
            sql.oldest([scope for (scope, _), _ in asked], self.database.dialect.mark)
        )
        values = tuple(value for (_, name), count in asked for value in (name, count))
        places = [Place(*row) for row in self.connection.exec_driver_sql(text, values)]
        for place in places:
            self._lines[place.line].found += 1
        return places

    def write(self) -> float | None:
        """Write when to look again, and who has started; returns the seconds until the first look."""
        bind, now = self.database.dialect.bind, self.database.dialect.bind(self.now)
        ours = [(name, line) for name, line in sorted(self._lines.items()) if not line.shared]
        looks = {name: line.next_look(self.now) for name, line in ours}
        rows = [
            (name[0].value, name[1], bind(at), self._lines[name].starts.encode(), now)
            for name, at in looks.items()
        ]
        if rows:
            write_rows(self.connection, self.database, sql.lines(not self.database.sqlite), rows)
        rests = [(at - self.now).total_seconds() for at in looks.values() if at is not None]
        return min(rests, default=None)

    def _make(self, names: Collection[LineName]) -> None:
        for scope in Scope:
            wanted = {name for its, name in names if its is scope}
            if not wanted:
                continue
            parameters = {"scope": scope.value, "names": sorted(wanted)}
            rows = self.connection.execute(self.database.text(sql.KNOWN_LINES), parameters)
            for name in sorted(wanted.difference(row.name for row in rows)):
                new = {"scope": scope.value, "name": name}
                self.connection.execute(self.database.text(sql.NEW_LINE), new)

    def _count(self, names: Sequence[LineName]) -> None:
        limited = [name for name in names if self._lines[name].limit is not None]
        parameters = self._by_scope(limited)
        if parameters["keys"]:
            for row in self.connection.execute(
                self.database.text(sql.IN_USE_BY_KEY), {"keys": parameters["keys"]}
            ):
                line = self._lines[Scope.KEY, row.name]
                line.in_use, line.passed = int(row.in_use), int(row.passed)
        queues = [name for name in parameters["queues"] if self._concurrent(name)]
        if queues:
            for row in self.connection.execute(self.database.text(sql.IN_USE_BY_QUEUE), {"queues": queues}):
                self._lines[Scope.QUEUE, row.name].in_use = int(row.in_use)

    def _concurrent(self, queue: str) -> bool:
        limit = self._lines[Scope.QUEUE, queue].limit
        return limit is not None and limit.concurrency is not None

    def _by_scope(self, names: Collection[LineName]) -> dict[str, list[str]]:
        return {
            "keys": sorted(name for scope, name in names if scope is Scope.KEY),
            "queues": sorted(name for scope, name in names if scope is Scope.QUEUE),
        }
