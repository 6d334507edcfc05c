"""Successes that leave nothing to decide: one guarded UPDATE writes them, without a look at their rows first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy.engine import Connection

from taskkit.center.database import Database
from taskkit.center.ends import SUCCEEDED, words_of, write_run_rows
from taskkit.center.packed import commit_with_next, run
from taskkit.center.statements import work as sql
from taskkit.model import Finish
from taskkit.states import Move, Status, TaskType

FEW = 8
"""Fewer than this are not worth a transaction of their own, when there are others to be written with care."""


class NotAsThought(Exception):
    """A row among them is not this worker's any more, or has become something to decide about."""


def plain(ends: Sequence[Finish]) -> list[Finish]:
    """The largest group of these whose UPDATE differs in nothing but the row; empty when that is not worth while."""
    groups: dict[tuple[Any, ...], list[Finish]] = {}
    for end in ends:
        if (
            end.move is Move.SUCCEED
            and end.task.task_type != TaskType.PERIODIC
            and end.finished_at is not None
        ):
            groups.setdefault((end.task.attempt, end.retry_count, *words_of(end)), []).append(end)
    largest = max(groups.values(), key=len, default=[])
    distinct = {end.task.id for end in largest}
    enough = len(largest) >= FEW or len(largest) == len(ends)
    return largest if enough and len(distinct) == len(largest) else []


def write_plain(connection: Connection, database: Database, ends: Sequence[Finish], worker_id: str) -> None:
    """Write the ends of one group and their runs; raises NotAsThought unless every row was as they say."""
    first = ends[0]
    last_result, result, suspect = words_of(first)
    parameters = {
        "ids": sorted(end.task.id for end in ends),
        "status": SUCCEEDED,
        "retry_count": first.retry_count,
        "last_result": last_result,
        "result": result,
        "suspect": suspect,
        "running": int(Status.RUNNING),
        "worker": worker_id,
        "attempt": first.task.attempt,
    }
    written = run(connection, database, sql.END_ALIKE + sql.AS_THOUGHT, parameters).rowcount
    if written != len(ends):
        raise NotAsThought
    commit_with_next(connection, database)
    write_run_rows(connection, database, ends, worker_id, None)
