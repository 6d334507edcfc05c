"""Reading the task center: tasks, their runs and occurrences, counts by status and by queue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy.engine import Row

from taskkit.center.database import Database
from taskkit.center.statements import reading as sql
from taskkit.errors import NotFound
from taskkit.model import Backlog, Occurrence, Run, Task
from taskkit.states import Outcome, Status, TaskType

TASK_INSTANTS = (
    "plan_next_run_at occurrence_at next_fire_at dispatched_at claimed_at granted_at expires_at cancel_requested_at last_run_at "
    "created_at updated_at"
).split()


@dataclass(frozen=True, slots=True)
class TaskFilter:
    """Which tasks to list, newest first; ``before`` is an id to page on from, ``since`` the oldest last change."""

    statuses: tuple[int, ...] = ()
    code: str | None = None
    queue: str | None = None
    periodic: bool | None = None
    since: datetime | None = None
    before: int = 0
    limit: int = 50


class ReadDesk:
    """Questions about tasks; nothing here changes a row."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def task(self, task_id: int) -> Task:
        """One task; raises NotFound."""
        found = self.tasks([task_id])
        if not found:
            raise NotFound(f"there is no task {task_id}; `taskkit tasks list` shows those there are")
        return found[0]

    def tasks(self, ids: Sequence[int]) -> list[Task]:
        """The tasks with these ids that exist, by id."""
        if not ids:
            return []
        return [self._task(row) for row in self._rows(sql.TASKS_BY_ID, ids=sorted(set(ids)))]

    def find(self, wanted: TaskFilter) -> list[Task]:
        """Tasks that match, newest first."""
        filters, parameters = "", {"before": wanted.before, "n": wanted.limit}
        for text, name, value in (
            ("AND status IN :statuses", "statuses", list(wanted.statuses)),
            ("AND task_code = :code", "code", wanted.code),
            ("AND queue = :queue", "queue", wanted.queue),
            ("AND updated_at >= :since", "since", self.database.dialect.bind(wanted.since)),
        ):
            if value:
                filters += f" {text}"
                parameters[name] = value  # type: ignore[assignment]
        if wanted.periodic is not None:
            filters += " AND task_type = 1" if wanted.periodic else " AND task_type <> 1"
        template = sql.TASKS.replace("{filters}", filters)
        return [self._task(row) for row in self._rows(template, **parameters)]

    def live(self, prefix: str, limit: int = 20_000) -> list[Task]:
        """The live tasks whose ``unique_key`` begins with ``prefix``, by key."""
        high = prefix[:-1] + chr(ord(prefix[-1]) + 1)
        return [self._task(row) for row in self._rows(sql.LIVE_BY_KEY, low=prefix, high=high, n=limit)]

    def runs(self, ids: Sequence[int]) -> list[Run]:
        """The runs of these tasks, by task and attempt."""
        if not ids:
            return []
        return [self._run(row) for row in self._rows(sql.RUNS, ids=sorted(set(ids)))]

    def occurrences(self, task_id: int, limit: int = 20) -> list[Occurrence]:
        """The latest planned fire times of a periodic task, newest first."""
        instant = self.database.dialect.instant
        found = []
        for row in self._rows(sql.OCCURRENCES, id=task_id, n=limit):
            values = dict(row._mapping)
            values |= {"planned_at": instant(row.planned_at), "fired_at": instant(row.fired_at)}
            found.append(Occurrence(**values))
        return found

    def statuses(self, ids: Sequence[int]) -> dict[int, tuple[Status, str | None, str | None]]:
        """Status, result and last result of these tasks, by id."""
        rows = self._rows(sql.STATUS_OF, ids=sorted(set(ids)))
        return {row.id: (Status(row.status), row.result, row.last_result) for row in rows}

    def recent(self, count: int) -> list[dict[str, Any]]:
        """``id task_code queue status`` of the newest tasks, newest first."""
        return [dict(row._mapping) for row in self._rows(sql.RECENT, n=count)]

    def counts(self) -> dict[Status, int]:
        """How many tasks are in each status."""
        found = {Status(row.status): row.n for row in self._rows(sql.COUNTS)}
        return {status: found.get(status, 0) for status in Status}

    def backlogs(self) -> dict[str, Backlog]:
        """What waits and runs in each queue, as SQL knows it; ``queued`` counts dispatched rows."""
        found: dict[str, Backlog] = {}
        for row in self._rows(sql.WAITING_BY_LIST):
            known = found.get(row.queue, Backlog(row.queue, 0, 0, 0, None))
            found[row.queue] = _added(known, row, self._age(row))
        return found

    def ping(self) -> None:
        """Raises DatabaseUnavailable when the database does not answer."""
        self._rows(sql.PING)

    def _age(self, row: Row[Any]) -> float | None:
        instant = self.database.dialect.instant
        earliest, now = instant(row.earliest), instant(row.now)
        if earliest is None or now is None or earliest > now:
            return None
        return (now - earliest).total_seconds()

    def _rows(self, template: str, **parameters: Any) -> Sequence[Row[Any]]:
        text = self.database.text(template)
        return self.database.read(lambda c: c.execute(text, parameters).all())

    def _task(self, row: Row[Any]) -> Task:
        values = self._instants(row._mapping, TASK_INSTANTS)
        values["status"] = Status(row.status)
        values["task_type"] = TaskType(row.task_type)
        return Task(**values)

    def _run(self, row: Row[Any]) -> Run:
        values = self._instants(row._mapping, ("dispatched_at", "started_at", "finished_at", "occurrence_at"))
        values["outcome"] = Outcome(row.outcome)
        return Run(**values)

    def _instants(self, row: Mapping[Any, Any], names: Sequence[str]) -> dict[str, Any]:
        values: dict[str, Any] = {str(key): value for key, value in row.items()}
        read: dict[str, datetime | None] = {n: self.database.dialect.instant(values[n]) for n in names}
        return values | read


def _added(known: Backlog, row: Row[Any], age: float | None) -> Backlog:
    due = int(row.due or 0)
    if row.status in {Status.PENDING, Status.FAILED}:
        oldest = max(filter(None, (known.oldest_age_s, age)), default=known.oldest_age_s)
        retrying = row.n if row.status == Status.FAILED else 0
        return replace(known, due=known.due + due, oldest_age_s=oldest, retrying=known.retrying + retrying)
    if row.status == Status.DISPATCHED:
        oldest = max(filter(None, (known.oldest_age_s, age)), default=known.oldest_age_s)
        return replace(known, queued=known.queued + row.n, oldest_age_s=oldest)
    if row.status == Status.RUNNING:
        return replace(known, running=known.running + row.n)
    return replace(known, held=known.held + row.n)
