"""Dispatches whose COMMIT got no reply: what they have won is known by their token, as soon as SQL answers again."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy.engine import Connection, Row
from sqlalchemy.exc import DBAPIError

from taskkit.center.database import Database
from taskkit.center.faults import refuses_to_wait
from taskkit.center.statements import dispatch as sql
from taskkit.clock import monotonic
from taskkit.errors import CommitUnknown, DatabaseUnavailable, SchemaError, StoreError
from taskkit.model import ListName, Won
from taskkit.shards import read_list
from taskkit.states import Status

PAUSES = (0.0, 0.01, 0.05, 0.2, 0.7)
"""Seconds before each look at a COMMIT that is probably over in no time; whoever asks does nothing else meanwhile."""
PATIENCE_S = 1.0
"""A look may itself wait, for the definition of a table that is being changed; then it is the last one."""
LONGEST_S = 60.0
"""After so long it is left to recovery: its client is gone, and what its server still locks will be rolled back."""


class Doubts:
    """Remembers them until it has been told: else their rows would wait for recovery, which takes them for lost."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._open: dict[str, tuple[list[int], float]] = {}
        """By token: the rows that were asked for, and the monotonic second until which somebody's lock is no answer."""

    def won(self, ids: Sequence[int], token: str) -> list[Won]:
        """What carries this token is ours. Nothing yet, when that COMMIT takes its time; raises while SQL is away."""
        began = monotonic()
        self.remember(ids, token)
        for pause in PAUSES:
            time.sleep(pause)
            if (won := self._told(token)) is not None:
                return won
            if monotonic() - began > PATIENCE_S:
                break
        return []

    def remember(self, ids: Sequence[int], token: str) -> None:
        """Nobody knows yet what this token has won."""
        self._open[token] = sorted(ids), monotonic() + LONGEST_S

    @property
    def unsettled(self) -> bool:
        """Whether there are any."""
        return bool(self._open)

    def settle(self) -> Iterator[tuple[str, list[Won]]]:
        """Each token that is still open and can be told of, and what it has won. Raises while SQL is away."""
        for token, (_, until) in list(self._open.items()):
            if (won := self._told(token)) is not None:
                yield token, won
            elif monotonic() > until:
                del self._open[token]

    def _told(self, token: str) -> list[Won] | None:
        """What this token has won, which is settled by it; None while somebody holds a lock on one of its rows."""
        parameters = {"ids": self._open[token][0], "status": int(Status.DISPATCHED), "token": token}
        text = self.database.text(sql.WON_IN_BATCH)

        def look(connection: Connection) -> Sequence[Row[Any]] | None:
            try:
                return connection.execute(text, parameters).all()
            except DBAPIError as error:
                if not refuses_to_wait(error):
                    raise
                return None

        try:
            rows = self.database.write(look)
        except (DatabaseUnavailable, CommitUnknown, SchemaError):
            raise
        except StoreError as error:  # of the look, and not of a row that it looked for
            del self._open[token]
            raise CommitUnknown(f"nobody can tell what a dispatch has won: {error}") from error
        if rows is None:
            return None
        del self._open[token]
        return [self._won(row) for row in rows]

    def _won(self, row: Row[Any]) -> Won:
        at, otherwise = self.database.dialect.moment(row.dispatched_at), ListName(row.queue, row.priority)
        shard = read_list(row.list_name, otherwise).shard
        return Won(row.id, row.task_code, row.attempt, row.queue, row.priority, at, shard)
