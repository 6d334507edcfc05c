"""How queues are split into shards, as persons set it and all processes see it within a second or two.

It stands in SQL and in no file, so that schedulers, producers and workers cannot disagree for longer than a look lasts.
A queue that gets more shards is looked into before anything goes there; one that gets fewer is looked into as before,
until SQL and the broker both say that nothing is left where nothing goes any more.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy.engine import Connection

from taskkit.center.database import Database
from taskkit.center.statements import shards as sql
from taskkit.center.statements.people import RECORD
from taskkit.model import ListName
from taskkit.shards import ShardBook, Split, list_text
from taskkit.states import Status
from taskkit.texts import encodable

SETTLED_S = 60.0
"""Whoever dispatches looks every second or two; so long after a change only one that was stopped goes by the old one."""


class ShardDesk:
    """Splits queues and knows how they are split; processes look every second, so that no dispatch has to."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._book: ShardBook | None = None

    @property
    def book(self) -> ShardBook:
        """How all queues were split at the last look."""
        return self.refresh() if self._book is None else self._book

    def refresh(self) -> ShardBook:
        """Look how they are split now."""
        rows = self.database.read(lambda c: c.execute(self.database.text(sql.SPLITS)).all())
        self._book = ShardBook({row.queue: Split(row.shards, row.lists) for row in rows})
        return self._book

    def use(self, other: ShardDesk) -> None:
        """Know what another desk has seen, over a connection of its own."""
        self._book = other.book

    def split(self, queue: str, shards: int, actor: str) -> Split:
        """Split a queue into so many shards from now on; 1 makes it whole again."""
        text = sql.SPLIT_SQLITE if self.database.sqlite else sql.SPLIT_MYSQL
        record = {"actor": encodable(actor)[:100], "action": "shards", "task_id": None}
        record["detail"] = f"queue {queue}: {shards}"

        def write(connection: Connection) -> None:
            connection.execute(self.database.text(text), {"queue": queue, "shards": shards})
            connection.execute(self.database.text(sql.WHOLE_AGAIN), {"queue": queue})
            connection.execute(self.database.text(RECORD), record)

        self.database.write(write)
        return self.refresh().of(queue)

    def widen(self, name: ListName) -> None:
        """Have this list looked into, since a dispatched row says that its message stands there."""
        text = sql.WIDEN_SQLITE if self.database.sqlite else sql.WIDEN_MYSQL
        parameters = {"queue": name.queue, "most": name.shard + 1}
        self.database.write(lambda c: c.execute(self.database.text(text), parameters))
        self.refresh()

    def settled(self, age: float = SETTLED_S) -> list[tuple[str, Split]]:
        """The queues that have had more lists than shards for so many seconds."""
        text = self.database.text(sql.SETTLED)
        rows = self.database.read(lambda c: c.execute(text, {"age": age}).all())
        return [(row.queue, Split(row.shards, row.lists)) for row in rows]

    def stands_in(self, lists: Sequence[ListName]) -> bool:
        """Whether a dispatched row says that its message stands in one of these lists, all of one queue."""
        parameters = {
            "status": int(Status.DISPATCHED),
            "queue": lists[0].queue,
            "names": [list_text(name) for name in lists],
        }
        text = self.database.text(sql.STANDS_IN)
        return self.database.read(lambda c: c.execute(text, parameters).first()) is not None

    def narrow(self, queue: str, split: Split) -> None:
        """Look no more into the lists beyond, unless somebody has split the queue otherwise meanwhile."""
        parameters = {"queue": queue, "shards": split.shards, "most": split.lists}

        def write(connection: Connection) -> None:
            connection.execute(self.database.text(sql.NARROW), parameters)
            connection.execute(self.database.text(sql.WHOLE_AGAIN), {"queue": queue})

        self.database.write(write)
        self.refresh()
