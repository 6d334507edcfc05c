"""The recovery's verbs: dispatched rows whose message is gone (1 → 0), running rows whose worker is gone (2 → 0, 5)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from msgspec.structs import replace
from sqlalchemy.engine import Connection, Row
from sqlalchemy.exc import IntegrityError

from taskkit.center.claimed import claimed
from taskkit.center.database import Database
from taskkit.center.ends import endings, write_endings, write_run_rows
from taskkit.center.faults import explain
from taskkit.center.shards import ShardDesk
from taskkit.center.statements import recovery as sql
from taskkit.errors import CommitUnknown, StoreError
from taskkit.model import Claimed, Finish, ListName
from taskkit.shards import list_text, read_list
from taskkit.states import Move, Outcome, Status, sources, target
from taskkit.texts import cut

log = logging.getLogger("taskkit.center")
MOST_SUSPECTS = 20_000
NAMED = 20
"""So many tasks are named in one line of the log."""
PORTION = 200
RUNG_PORTION = 1000
RUNG_FOR = sorted(int(s) for s in sources(Move.RING_AGAIN))


@dataclass(frozen=True, slots=True)
class Suspect:
    """A dispatched attempt that is older than the head of its list, and the list it was pushed to."""

    task_id: int
    attempt: int
    list_name: ListName


@dataclass(frozen=True, slots=True)
class WatchedWorker:
    """A worker that has not signed off: how often it has beaten, how long ago, and whether it is declared dead."""

    worker_id: str
    heartbeat_count: int
    age_s: float
    lost: bool


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds running rows; the orphaned ones were claimed before it stopped or was declared dead."""

    worker_id: str
    held: int
    orphaned: int


@dataclass(frozen=True, slots=True)
class Overdue:
    """A running task that should have been ended long ago."""

    task_id: int
    task_code: str
    attempt: int
    worker_id: str
    timeout: float
    age_s: float


class RecoveryDesk:
    """What a scheduler needs to find lost tasks. Every verb is safe for any number of schedulers at once."""

    def __init__(self, database: Database, shards: ShardDesk, default_zone: str = "UTC") -> None:
        self.database, self.shards = database, shards
        self.default_zone = default_zone

    def dispatched_lists(self) -> list[list[ListName]]:
        """The lists that dispatched rows wait in, by what the rows say now: for each queue and priority its shards."""
        rows = self._rows(sql.DISPATCHED_LISTS, {"status": int(Status.DISPATCHED)})
        book = self.shards.book
        return [book.lists(row.queue, row.priority) for row in rows]

    def suspects(
        self, name: ListName, age: float, heads: Mapping[ListName, datetime | None]
    ) -> list[Suspect]:
        """Rows of a queue and priority dispatched ``age`` seconds ago or more, not after the oldest message of their list.

        ``heads`` has that instant for each shard, None where nothing is known of it.
        """
        known = [(list_text(one), head) for one, head in heads.items() if head is not None]
        parameters: dict[str, Any] = {
            "status": int(Status.DISPATCHED),
            "queue": name.queue,
            "priority": name.priority,
            "age": age,
            "n": MOST_SUSPECTS,
        }
        for number, (text, head) in enumerate(known):
            parameters |= {f"list_{number}": text, f"head_{number}": self.database.dialect.bind(head)}
        if known:
            parameters["names"] = [text for text, _ in known]
        rows = self._rows(sql.suspects(len(known)), parameters)
        return [Suspect(row.id, row.attempt, read_list(row.list_name, name)) for row in rows]

    def ring_again(self, suspects: Sequence[Suspect]) -> int:
        """Make these attempts' tasks due again, where they still wait for a claim; each gets a run row, *lost*."""
        lists = {suspect.task_id: suspect for suspect in suspects}
        count = 0
        for ids in _portions(sorted(lists), RUNG_PORTION):
            count += len(self._twice(ids, lambda c, ids=ids: self._ring_again(c, ids, lists)))  # type: ignore[misc]
        return count

    def watched(self) -> list[WatchedWorker]:
        """All workers that have not signed off."""
        rows = self._rows(sql.WATCHED, {})
        return [WatchedWorker(r.worker_id, r.heartbeat_count, float(r.age_s), bool(r.lost)) for r in rows]

    def declare_dead(self, worker: WatchedWorker) -> bool:
        """Write down that a worker is dead; False when it has beaten meanwhile."""
        parameters = {"worker": worker.worker_id, "heartbeat_count": worker.heartbeat_count}
        return self.database.write(
            lambda c: bool(c.execute(self.database.text(sql.DECLARE_DEAD), parameters).rowcount)
        )

    def holders(self) -> list[Holder]:
        """Who holds running rows."""
        rows = self._rows(sql.HOLDERS, {"status": int(Status.RUNNING)})
        return [Holder(row.worker_id, row.held, int(row.orphaned)) for row in rows]

    def orphans(self, worker_id: str, but: Collection[int] = ()) -> dict[int, int]:
        """A portion of the rows that a worker which is gone has left behind, as id → attempt; without those of ``but``."""
        parameters = {"status": int(Status.RUNNING), "worker": worker_id, "n": PORTION + len(but)}
        rows = self._rows(sql.ORPHANS, parameters)
        return {row.id: row.attempt for row in rows if row.id not in but}

    def lose(
        self, worker_id: str, orphans: Mapping[int, int], judge: Callable[[Claimed], Finish]
    ) -> list[Finish]:
        """Take orphaned rows from a worker that is gone, in one transaction, and write what ``judge`` says of each.

        ``judge`` gets the attempt with its ``lost_count`` before this loss; it must decide alike when asked again.
        Raises StoreError when the database refuses one of the rows; none of them is written then.
        """
        try:
            return self._twice(sorted(orphans), lambda c: self._lose(c, orphans, worker_id, judge))
        except IntegrityError as error:
            raise StoreError(explain(error, self.database.url)) from error

    def overdue(self, margin: float, limit: int = 20) -> list[Overdue]:
        """Running tasks that are ``margin`` seconds past their time limit."""
        rows = self._rows(sql.OVERDUE, {"status": int(Status.RUNNING), "margin": margin, "n": limit})
        return [
            Overdue(r.id, r.task_code, r.attempt, r.worker_id, float(r.timeout), float(r.age_s)) for r in rows
        ]

    def _ring_again(self, connection: Connection, ids: list[int], lists: dict[int, Suspect]) -> list[Finish]:
        found = connection.execute(
            self.database.text(sql.LOCK_DISPATCHED), {"ids": ids, "statuses": RUNG_FOR}
        ).all()
        rows = [row for row in found if row.attempt == lists[row.id].attempt]
        if not rows:
            return []
        parameters = {
            "ids": [row.id for row in rows],
            "statuses": RUNG_FOR,
            "to": int(target(Move.RING_AGAIN)),
        }
        connection.execute(self.database.text(sql.RING_AGAIN), parameters)
        lost = [_message_gone(claimed(self.database.dialect, row), lists[row.id].list_name) for row in rows]
        write_run_rows(connection, self.database, lost, None, self.database.dialect.moment(rows[0].now))
        return lost

    def _lose(
        self,
        connection: Connection,
        orphans: Mapping[int, int],
        worker_id: str,
        judge: Callable[[Claimed], Finish],
    ) -> list[Finish]:
        parameters = {"ids": sorted(orphans), "status": int(Status.RUNNING), "worker": worker_id}
        found = connection.execute(self.database.text(sql.LOCK_ORPHANS), parameters).all()
        rows = [row for row in found if row.attempt == orphans[row.id]]
        ends = [_said(judge(claimed(self.database.dialect, row)), row) for row in rows]
        if ends:
            held = {(row.id, row.attempt): row for row in rows}
            write_endings(connection, self.database, endings(self.database, ends, held, self.default_zone))
            write_run_rows(
                connection, self.database, ends, worker_id, self.database.dialect.moment(rows[0].now)
            )
        return ends

    def _twice(self, ids: Sequence[int], work: Callable[[Connection], list[Finish]]) -> list[Finish]:
        """A COMMIT whose reply was lost is done again: what it moved is not there to be moved any more."""
        try:
            return self.database.write(work)
        except CommitUnknown as error:
            found = self.database.write(work)
            rest = "" if len(found) == len(ids) else ", the others were moved or wait for the next pass"
            told = "%s; done again: %s of %s lost tasks were still to be moved%s (%s)"
            log.warning(told, error, len(found), len(ids), rest, _some(ids))
            return found

    def _rows(self, template: str, parameters: dict[str, Any]) -> Sequence[Row[Any]]:
        return self.database.read(lambda c: c.execute(self.database.text(template), parameters).all())


def _said(end: Finish, row: Row[Any]) -> Finish:
    """With how far the handler had come, if it told: then it is known that it had begun, and perhaps had its effect."""
    if row.progress is None:
        return end
    text = cut(row.progress_text or "", 60)
    told = f"; its handler had said {row.progress:.0%}{f' ({text})' if text else ''}"
    return replace(end, error=f"{end.error}{told}")


def _message_gone(task: Claimed, name: ListName) -> Finish:
    error = f"lost before it was claimed: its message was no longer in the list {list_text(name)}"
    return Finish(task, Outcome.LOST, Move.RING_AGAIN, task.retry_count, error=error)


def _portions(ids: list[int], size: int) -> list[list[int]]:
    return [ids[start : start + size] for start in range(0, len(ids), size)]


def _some(ids: Sequence[int]) -> str:
    """The first ids, for a line in the log."""
    return ", ".join(map(str, ids[:NAMED])) + (" …" if len(ids) > NAMED else "")
