"""Dead letters: the given up tasks and occurrences by fingerprint, and what became of those that are tried again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby
from typing import Any

from sqlalchemy.engine import Row

from taskkit.center.database import Database
from taskkit.center.statements import deadletters as sql
from taskkit.fingerprints import normalised, place
from taskkit.model import Afterwards, DeadGroup
from taskkit.states import Outcome, Status

MOST_ROWS = 10_000
"""Rows of (fingerprint, code, queue) that are read, the most frequent or the newest; so memory is bounded."""
IDS_PER_STATEMENT = 1_000


@dataclass(frozen=True, slots=True)
class DeadFilter:
    """Which dead letters are meant; ``since`` is the earliest instant at which they gave up."""

    code: str | None = None
    queue: str | None = None
    since: datetime | None = None


EVERY = DeadFilter()


class DeadLetterDesk:
    """Reads what gave up; the moves of persons are elsewhere."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def groups(self, wanted: DeadFilter = EVERY, limit: int = 50, *, newest: bool = False) -> list[DeadGroup]:
        """Given up tasks by the fingerprint of their last run, the most frequent or the newest first."""
        filters, parameters = self._filters(wanted, "c")
        return self._groups(sql.GROUPS, filters, parameters, limit, newest)

    def occurrence_groups(
        self, since: datetime, wanted: DeadFilter = EVERY, limit: int = 50, *, newest: bool = False
    ) -> list[DeadGroup]:
        """Given up occurrences of periodic tasks, whose rows go on, that were planned since then."""
        filters, parameters = self._filters(replace(wanted, since=None), "r")
        parameters["since"] = self.database.dialect.bind(since)
        return self._groups(sql.OCCURRENCE_GROUPS, filters, parameters, limit, newest)

    def members(
        self, fingerprint: str, wanted: DeadFilter = EVERY, limit: int = 1_000_000
    ) -> list[tuple[int, int]]:
        """``(id, last attempt)`` of the given up tasks with this fingerprint, oldest first."""
        filters, parameters = self._filters(wanted, "c")
        rows = self._rows(sql.MEMBERS, filters, **parameters, fingerprint=fingerprint, n=limit)
        return [(row.id, row.attempt) for row in rows]

    def afterwards(self, ids: Sequence[int]) -> list[Afterwards]:
        """What is known now of these tasks, by id; those that are gone are left out."""
        wanted = sorted(set(ids))
        parts = [wanted[at : at + IDS_PER_STATEMENT] for at in range(0, len(wanted), IDS_PER_STATEMENT)]
        rows = [row for part in parts for row in self._rows(sql.AFTERWARDS, "", ids=part)]
        return [_afterwards(task_id, list(some)) for task_id, some in groupby(rows, lambda row: row.id)]

    def _groups(
        self, template: str, filters: str, parameters: dict[str, Any], limit: int, newest: bool
    ) -> list[DeadGroup]:
        ordered = template.replace("{order}", "last_at DESC, n DESC" if newest else "n DESC, last_at DESC")
        rows = self._rows(ordered, filters, **parameters, n=MOST_ROWS)
        order: Callable[[DeadGroup], Any] = (
            (lambda g: (g.last_at, g.count)) if newest else lambda g: (g.count, g.last_at)
        )
        found = sorted(self._folded(rows), key=order, reverse=True)[:limit]
        return [replace(group, message=self._message(group)) for group in found]

    def _folded(self, rows: Iterable[Row[Any]]) -> list[DeadGroup]:
        """One group for each fingerprint, from rows that tell code and queue apart."""
        known: dict[str | None, DeadGroup] = {}
        for row in rows:
            first, last = (
                self.database.dialect.moment(row.first_at),
                self.database.dialect.moment(row.last_at),
            )
            one = DeadGroup(
                row.fingerprint, row.n, (row.task_code,), (row.queue,), first, last, row.sample_id
            )
            found = known.get(row.fingerprint)
            known[row.fingerprint] = one if found is None else _together(found, one)
        return list(known.values())

    def _message(self, group: DeadGroup) -> str:
        """The message of a group, from one of its runs; what the task says itself where there is no run."""
        if group.fingerprint is None:
            rows = self._rows(sql.LAST_RESULT, "", id=group.sample_id)
            return normalised("".join(row.last_result or "" for row in rows))
        found = {"id": group.sample_id, "fingerprint": group.fingerprint}
        runs = self._rows(sql.ERROR_OF_FINGERPRINT, "", **found)
        return " ".join(_told(run.error or run.outcome, run.traceback) for run in runs)

    def _filters(self, wanted: DeadFilter, table: str) -> tuple[str, dict[str, Any]]:
        filters, parameters = "", {}
        for text, name, value in (
            (f" AND {table}.task_code = :code", "code", wanted.code),
            (f" AND {table}.queue = :queue", "queue", wanted.queue),
            (f" AND {table}.updated_at >= :since", "since", self.database.dialect.bind(wanted.since)),
        ):
            if value is not None:
                filters += text
                parameters[name] = value
        return filters, parameters

    def _rows(self, template: str, filters: str, **parameters: Any) -> Sequence[Row[Any]]:
        text = self.database.text(template.replace("{filters}", filters))
        return self.database.read(lambda c: c.execute(text, parameters).all())


def _told(error: str, traceback: str | None) -> str:
    """An error without its values, and where it came from."""
    where = place(traceback)
    return normalised(error, traceback) + (f" [{where}]" if where else "")


def _together(one: DeadGroup, other: DeadGroup) -> DeadGroup:
    return replace(
        one,
        count=one.count + other.count,
        codes=tuple(sorted({*one.codes, *other.codes})),
        queues=tuple(sorted({*one.queues, *other.queues})),
        first_at=min(one.first_at, other.first_at),
        last_at=max(one.last_at, other.last_at),
        sample_id=max(one.sample_id, other.sample_id),
    )


def _afterwards(task_id: int, rows: Sequence[Row[Any]]) -> Afterwards:
    runs = tuple(
        (row.attempt, Outcome(row.outcome), row.fingerprint) for row in rows if row.attempt is not None
    )
    return Afterwards(task_id, Status(rows[0].status), runs)
