"""Dispatches whose COMMIT got no reply: what they have won is known by their token, as soon as SQL answers again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy.engine import Row

from taskkit.center.database import Database
from taskkit.center.statements import dispatch as sql
from taskkit.model import ListName, Won
from taskkit.shards import read_list
from taskkit.states import Status


class Doubts:
    """Remembers them until it has been told: else their rows would wait for recovery, which takes them for lost."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._open: dict[str, list[int]] = {}

    def won(self, ids: Sequence[int], token: str) -> list[Won]:
        """What carries this token is ours; the lock waits for that COMMIT. Raises while SQL is away."""
        self._open[token] = sorted(ids)
        found = self.by_token(ids, token)
        del self._open[token]
        return found

    def settle(self) -> Iterator[tuple[str, list[Won]]]:
        """Each token that is still open, and what it has won. Raises while SQL is away; what fails later is recovery's."""
        if self._open:
            self.database.now()
        while self._open:
            token, ids = self._open.popitem()
            yield token, self.by_token(ids, token)

    def by_token(self, ids: Sequence[int], token: str) -> list[Won]:
        """Those of the rows that are dispatched under this token."""
        parameters = {"ids": sorted(ids), "status": int(Status.DISPATCHED), "token": token}
        text = self.database.text(sql.WON_IN_BATCH)
        return [self._won(row) for row in self.database.write(lambda c: c.execute(text, parameters).all())]

    def _won(self, row: Row[Any]) -> Won:
        at, otherwise = self.database.dialect.moment(row.dispatched_at), ListName(row.queue, row.priority)
        shard = read_list(row.list_name, otherwise).shard
        return Won(row.id, row.task_code, row.attempt, row.queue, row.priority, at, shard)
