"""Letting tasks go that wait for a limit: 7 → 0 → 1 in one transaction, under the locks of their lines.

Who counts and lets go holds the row of the line, so that any number of schedulers grants no more than there is; a line
that another one holds is left to it. How many are in use is counted by the rows of their tasks.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace
from sqlalchemy.engine import Connection
from sqlalchemy.exc import IntegrityError

from taskkit.center import lines
from taskkit.center.database import Database
from taskkit.center.dispatch import Batch, BoundDue, DispatchDesk
from taskkit.center.faults import explain
from taskkit.center.intake import new_token
from taskkit.center.limits import LimitDesk
from taskkit.center.lines import OVER_ANY, LineName
from taskkit.center.locked_lines import LimitLine, LockedLines, Place
from taskkit.center.packed import read_rows, run
from taskkit.center.statements import limits as sql
from taskkit.errors import CommitUnknown, StoreError
from taskkit.limits import LimitBook, Scope
from taskkit.model import ListName, Won
from taskkit.states import Move, Status, sources, target

HELD = int(Status.HELD)
PENDING = int(target(Move.RELEASE))
RELEASE = {"statuses": sorted(int(s) for s in sources(Move.RELEASE)), "to": PENDING}
WAITING = {"status": HELD, "reason": OVER_ANY}
LINES, BACK = 200, 500
SOON, FULL = 0.01, 0.05
"""Seconds until a line is looked at again that somebody else held, and one whose list was full."""


@dataclass(frozen=True, slots=True)
class Look:
    """Which lines are to be looked at now, the places that were given back, and the seconds until the next look."""

    names: frozenset[LineName] = frozenset()
    back: tuple[Place, ...] = ()
    rest: float | None = None


class GrantDesk:
    """Lets go what limits have room for, in the order of each line: by priority, then by time."""

    def __init__(self, database: Database, dispatch: DispatchDesk, limits: LimitDesk) -> None:
        self.database, self.dispatch, self.limits = database, dispatch, limits
        self.tried: list[int] = []
        """The tasks that the last transaction wanted to let go."""
        self.rest: float | None = None
        """Seconds from then on until the next of its lines is to be looked at."""
        self.unseen: set[LineName] = set()
        """Lines of queues that it let somebody into while another transaction held them."""

    def look(self) -> Look:
        """What there is to do now; nothing is locked."""
        book = self.limits.book  # not while the connection is held
        return self.database.read(lambda c: self._look(c, book))

    def grant(
        self, look: Look, rooms: Mapping[ListName, int], spare: int, only: Collection[int] | None = None
    ) -> Batch:
        """Let go and dispatch what there is room for, in its limits and in the lists; ``spare`` is the room of others.

        ``only``: none but these. Raises StoreError when the database refuses one of the rows; none is let go then.
        """
        token, _, _ = (
            new_token(),
            self.limits.book,
            self.dispatch.shards.book,
        )  # known before the connection is held

        def work(connection: Connection) -> Batch:
            self.tried, self.unseen = [], set()
            return _Pass(self, connection, token, dict(rooms), spare, only).run(look)

        try:
            batch = self.database.write(work)
        except CommitUnknown:
            batch = Batch(token, won=self.dispatch.doubts.won(self.tried, token))
        except IntegrityError as error:
            raise StoreError(explain(error, self.database.url)) from error
        self._see()
        return batch

    def _see(self) -> None:
        """Whoever held these lines may have thought them empty."""
        if self.unseen:
            now = self.database.now()
            self.database.write(lambda c: lines.join(c, self.database, self.unseen, now))

    def refuse(self, task_id: int, reason: str) -> None:
        """A row that cannot be let go is held for a person to mend, and leaves its line."""
        parameters = {"id": task_id, "status": HELD, "reason": f"invalid: {reason}"[:190]}

        def write(connection: Connection) -> None:
            connection.execute(self.database.text(sql.REFUSE), parameters)
            run(connection, self.database, sql.LEAVE, {"ids": [task_id]})

        self.database.write(write)

    def _look(self, connection: Connection, book: LimitBook) -> Look:
        instant, names, back, rest = self.database.dialect.instant, set(), [], None
        for row in connection.execute(self.database.text(sql.LOOK), {"lines": LINES, "back": BACK}):
            if row.what == "due":
                names.add((Scope(row.scope), row.name))
            elif row.what == "back":
                back.append(Place(row.task_id, row.scope, row.name))
            else:
                at, now = instant(row.look_at), instant(row.now)
                rest = None if at is None or now is None else (at - now).total_seconds()
        names.update(name for place in back for name in lines_of(book, place))
        return Look(frozenset(names), tuple(back), rest)


def lines_of(book: LimitBook, place: Place) -> list[LineName]:
    """The lines of those limits that a task is under."""
    found: list[LineName] = []
    if place.limit_key and book.find(Scope.KEY, place.limit_key) is not None:
        found.append((Scope.KEY, place.limit_key))
    if book.find(Scope.QUEUE, place.queue) is not None:
        found.append((Scope.QUEUE, place.queue))
    return found


class _Pass:
    """One transaction: lock lines, count, choose who goes, move them, and say when to look again."""

    def __init__(
        self,
        desk: GrantDesk,
        connection: Connection,
        token: str,
        rooms: dict[ListName, int],
        spare: int,
        only: Collection[int] | None,
    ) -> None:
        self.desk, self.connection, self.token = desk, connection, token
        self.rooms, self.spare, self.only = rooms, spare, only
        self.database = desk.database
        self.lines = LockedLines(connection, desk.limits)
        self.rows: dict[int, BoundDue] = {}

    def run(self, look: Look) -> Batch:
        self.lines.lock(look.names)
        if len(self.lines.names) < len(look.names):
            self.lines.lock(look.names, missing=True)
        first = self._from_keys([n for n in self.lines.names if n[0] is Scope.KEY])
        queues = [n for n in self.lines.names if n[0] is Scope.QUEUE]
        places = self._still_waiting(first + self._from_queues(queues))
        going = self._choose(sorted(places, key=lambda p: p.order))
        won = self._let_go(going)
        self.desk.rest = self.lines.write()
        self._forget(look)
        return Batch(self.token, won=won)

    def _from_keys(self, names: Sequence[LineName]) -> list[Place]:
        """Who may go by its key: straight away, or on to the line of its queue, where the key's place is kept for it."""
        found = self.lines.oldest(names)
        limited = {p.queue for p in found if self.lines.book.find(Scope.QUEUE, p.queue) is not None}
        self.lines.lock({(Scope.QUEUE, queue) for queue in limited}, missing=True)
        passing = [p for p in found if p.queue in limited]
        if passing:
            self._move_on(passing, sql.AT_QUEUE)
        for place in passing:
            self.lines[place.line].passed += 1
        self.desk.unseen = {name for p in passing if (name := (Scope.QUEUE, p.queue)) not in self.lines}
        return [p for p in found if p.queue not in limited]

    def _from_queues(self, names: Sequence[LineName]) -> list[Place]:
        """Who may go by its queue.

        The place that its key keeps for it holds without a lock; a start of its key's rate needs the key's line.
        """
        found = self.lines.oldest(names)
        self.lines.join_keys({name for p in found for name in lines_of(self.lines.book, p)})
        ready = []
        for place in found:
            if all(name in self.lines for name in lines_of(self.lines.book, place)):
                ready.append(place)
            else:
                self.lines[place.line].look_again(SOON)
        return ready

    def _still_waiting(self, places: list[Place]) -> list[Place]:
        """Those that still wait, with their rows locked; lines that somebody left are put in order."""
        if not places:
            return []
        parameters = {"ids": sorted(p.task_id for p in places), **WAITING}
        found = read_rows(self.connection, self.database, sql.LOCK_WAITING, BoundDue, parameters)
        locked = self.rows = {row.id: row for row in found}
        self.lines.note_clock(row.now for row in found)
        ready, astray = [], []
        self._missed([place for place in places if place.task_id not in locked])
        for place in places:
            row = locked.get(place.task_id)
            if row is None:
                continue
            if (row.queue, row.limit_key) != (place.queue, place.limit_key) or row.plan_next_run_at > row.now:
                astray.append(place.task_id)
            elif self.only is None or place.task_id in self.only:
                ready.append(place)
            else:
                self._lines(place)[0].look_again(SOON)
        self._astray(astray)
        return ready

    def _missed(self, places: Sequence[Place]) -> None:
        """Their rows are locked by somebody, or do not wait any more; then others of the line may not either."""
        for name in {place.line for place in places}:
            self.lines[name].look_again(SOON)
            lines.tidy_line(self.connection, self.database, name)

    def _astray(self, ids: list[int]) -> None:
        """Somebody edited queue, key or time of a waiting row: it becomes pending, and joins the line it belongs to."""
        if ids:
            run(self.connection, self.database, sql.LET_GO, {"ids": sorted(ids), "now": None, **RELEASE})
            run(self.connection, self.database, sql.LEAVE, {"ids": sorted(ids)})

    def _choose(self, places: Sequence[Place]) -> list[Place]:
        """Who goes: all limits of a task must have room for it, and its list as well."""
        going, back = [], []
        for place in places:
            own, name = self._lines(place), ListName(place.queue, place.priority)
            room = self.rooms.setdefault(name, self.spare)
            if room < 1:
                own[0].look_again(FULL)
            elif all(line.room(self.lines.now) > 0 for line in own):
                going.append(place)
                self.rooms[name] = room - 1
                for line in own:
                    line.going += 1
            elif (
                place.state == sql.AT_QUEUE
                and own[0].name[0] is Scope.KEY
                and own[0].room(self.lines.now) < 1
            ):
                back.append(place)
        if back:
            self._move_on(back, sql.AT_KEY)
        for place in back:
            line = self._lines(place)[0]
            line.passed -= 1
            line.touched = True
        return going

    def _let_go(self, going: Sequence[Place]) -> list[Won]:
        if not going:
            return []
        ids = self.desk.tried = sorted(p.task_id for p in going)
        now = self.lines.now
        parameters = {"ids": ids, "now": self.database.dialect.bind(now), **RELEASE}
        run(self.connection, self.database, sql.LET_GO, parameters)
        rows = [replace(self.rows[i], status=PENDING) for i in ids]
        won = self.desk.dispatch.claim_locked(self.connection, rows, self.token, now)
        order = {place.task_id: number for number, place in enumerate(going)}
        won.sort(key=lambda one: order[one.id])
        taken = {one.id for one in won}
        for place in going:
            for line in self._lines(place):
                line.went(now, place.task_id in taken, passed=place.state == sql.AT_QUEUE)
        if taken:
            run(self.connection, self.database, sql.TAKE, {"ids": sorted(taken)})
        if left := sorted(set(ids) - taken):
            run(self.connection, self.database, sql.LEAVE, {"ids": left})
        return won

    def _forget(self, look: Look) -> None:
        """Places that were given back are done with once all their lines were looked at."""
        left = {name for name in look.names if name not in self.lines}
        ids = [p.task_id for p in look.back if not left.intersection(lines_of(self.lines.book, p))]
        if ids:
            run(self.connection, self.database, sql.FORGET, {"ids": sorted(ids)})

    def _move_on(self, places: Sequence[Place], state: int) -> None:
        ids = sorted(p.task_id for p in places)
        run(self.connection, self.database, sql.MOVE_ON, {"ids": ids, "state": state})

    def _lines(self, place: Place) -> list[LimitLine]:
        """The lines that a chosen task is in; of its key first."""
        found = [self.lines[name] for name in lines_of(self.lines.book, place)]
        return found or [self.lines[place.line]]
