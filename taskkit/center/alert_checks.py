"""What the watchdog's checks ask every few seconds: cheap questions whose answers are small."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from taskkit.center.database import Database
from taskkit.center.reading import ReadDesk
from taskkit.center.statements import alert_checks as sql
from taskkit.clock import seconds
from taskkit.model import DueList

FRESH_SAMPLE_S = 17.0
"""A sample is written every 15 s, but none while nothing waits anywhere: one that is older than this does not count."""
MOST_DEAD = 500
BAD = ("failed", "timeout", "given_up")
Rows = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class RunCounts:
    """How runs ended; what was cancelled, handed back or superseded counts neither way."""

    succeeded: int = 0
    failed: int = 0
    """Failed, timed out, given up, or lost with their worker."""
    lost_running: int = 0
    lost_messages: int = 0

    @property
    def judged(self) -> int:
        """How many tell something about success."""
        return self.succeeded + self.failed


@dataclass(frozen=True, slots=True)
class QueueDepth:
    """What waits in a queue: due in SQL, and dispatched; since when, in seconds."""

    queue: str
    due: int
    queued: int
    oldest_age_s: float | None = None

    @property
    def waiting(self) -> int:
        """Both."""
        return self.due + self.queued


@dataclass(frozen=True, slots=True)
class NodeSign:
    """A worker's or scheduler's last signs of life; ages in seconds by the database's clock."""

    id: str
    host: str
    pid: int
    started_at: datetime
    heartbeat_at: datetime
    heartbeat_age_s: float
    stopped_at: datetime | None = None
    lost_at: datetime | None = None
    queues: frozenset[str] = frozenset()
    busy: int = 0
    progress_age_s: float | None = None
    """Of a worker: since it last claimed or ended something, or else since it started."""
    scan_age_s: float | None = None
    last_scan_at: datetime | None = None
    clock_offset_ms: float | None = None

    def beats(self, within_s: float) -> bool:
        """Whether it has not signed off and has beaten within so many seconds."""
        return self.stopped_at is None and self.heartbeat_age_s <= within_s

    def serves(self, queues: frozenset[str]) -> bool:
        """Whether it serves all of these."""
        return "*" in self.queues or queues <= self.queues


@dataclass(frozen=True, slots=True)
class Orphans:
    """Running tasks whose worker is gone and which nobody took back: how many, one of them, and its worker."""

    tasks: int
    oldest_at: datetime | None
    worker_id: str
    sample_id: int


@dataclass(frozen=True, slots=True)
class LateList:
    """A list with due tasks that stand undispatched for too long, how many, and what is dispatched beside them."""

    queue: str
    priority: int
    tasks: int
    since: datetime
    dispatched_list: int
    dispatched_queue: int


@dataclass(frozen=True, slots=True)
class NewDead:
    """New dead letters of one code and cause."""

    task_code: str
    queue: str
    fingerprint: str
    tasks: int
    first_at: datetime
    sample_id: int
    error: str


@dataclass(frozen=True, slots=True)
class NotFired:
    """Planned times of a code that did not fire, and why; ``held``: its task is held."""

    task_code: str
    state: str
    reason: str
    held: bool
    occurrences: int
    first_at: datetime
    sample_id: int


class CheckDesk:
    """Questions of the watchdog; nothing here changes a row."""

    def __init__(self, database: Database, read: ReadDesk) -> None:
        self.database, self._read = database, read

    def depths(self) -> list[QueueDepth]:
        """What waits in each queue: as the newest sample says, or counted where there is no fresh one."""
        rows = self._ask(sql.SAMPLED, age=FRESH_SAMPLE_S)
        if rows and all(row["queued"] is not None for row in rows):
            return [QueueDepth(r["queue"], int(r["due"]), int(r["queued"]), r["oldest_age_s"]) for r in rows]
        found = self._read.backlogs().values()
        return [QueueDepth(one.queue, one.due, one.queued, one.oldest_age_s) for one in found if one.queue]

    def outcomes(self, since: datetime, until: datetime) -> RunCounts:
        """How the runs of a window ended."""
        counts = {
            (r["outcome"], bool(r["claimed"])): int(r["runs"])
            for r in self._window(sql.OUTCOMES, since, until)
        }

        def sum_of(*names: str) -> int:
            return sum(runs for (name, _), runs in counts.items() if name in names)

        lost = counts.get(("lost", True), 0)
        return RunCounts(sum_of("success"), sum_of(*BAD) + lost, lost, counts.get(("lost", False), 0))

    def runs_by_code(self, since: datetime, until: datetime) -> dict[str, int]:
        """How many runs of each code ended in a window, of those that took some time."""
        return {r["task_code"]: int(r["runs"]) for r in self._window(sql.RUNS_BY_CODE, since, until)}

    def workers(self) -> list[NodeSign]:
        """All workers of which there are rows, those that have signed off, too."""
        return [_worker(row) for row in self._ask(sql.WORKERS)]

    def schedulers(self) -> list[NodeSign]:
        """All schedulers of which there are rows, those that have signed off, too."""
        return [_scheduler(row) for row in self._ask(sql.SCHEDULERS)]

    def held_by_worker(self) -> dict[str, int]:
        """How many running tasks each worker holds."""
        return {row["worker_id"]: int(row["held"]) for row in self._ask(sql.HELD_BY)}

    def orphans(self, age: float) -> Orphans | None:
        """What nobody has taken back though its worker has shown no sign of life for ``age`` seconds; None: nothing."""
        row = self._ask(sql.ORPHANED, age=age)[0]
        if not row["tasks"]:
            return None
        return Orphans(int(row["tasks"]), row["oldest_at"], str(row["worker_id"]), int(row["sample_id"]))

    def late(self, lists: list[DueList], now: datetime, age: float) -> list[LateList]:
        """Of these lists, those with tasks that have been due for ``age`` seconds; counted up to a hundred thousand."""
        found = []
        for one in lists:
            if not one.queue or one.earliest is None or one.earliest > now - seconds(age):
                continue
            late = self._ask(sql.DUE_BEFORE, queue=one.queue, priority=one.priority, age=age)[0]
            beside = {int(r["priority"]): int(r["tasks"]) for r in self._ask(sql.DISPATCHED, queue=one.queue)}
            if late["tasks"]:
                own, total = beside.get(one.priority, 0), sum(beside.values())
                found.append(LateList(one.queue, one.priority, int(late["tasks"]), one.earliest, own, total))
        return found

    def new_dead(self, since: datetime) -> list[NewDead]:
        """What gave up since then, by code and cause, ``MOST_DEAD`` at most; what a person gave up is not among it."""
        rows = self._ask(sql.NEW_DEAD, since=self._bind(since), most=MOST_DEAD)
        return [NewDead(**(row | {"error": row["error"] or "", "tasks": int(row["tasks"])})) for row in rows]

    def dead(self, code: str) -> int:
        """How many given up tasks of a code there are."""
        return int(self._ask(sql.DEAD, code=code)[0]["tasks"])

    def not_fired(self, since: datetime, until: datetime) -> list[NotFired]:
        """Planned times between these instants that did not fire, and older ones nobody decided on, by code and reason."""
        rows = self._window(sql.NOT_FIRED, since, until)
        return [
            NotFired(**(row | {"held": bool(row["held"]), "occurrences": int(row["occurrences"])}))
            for row in rows
        ]

    def _window(self, template: str, since: datetime, until: datetime) -> Rows:
        return self._ask(template, since=self._bind(since), until=self._bind(until))

    def _bind(self, value: datetime) -> str | None:
        return self.database.dialect.bind(value)

    def _ask(self, template: str, **parameters: Any) -> Rows:
        text = self.database.text(template)
        rows = self.database.read(lambda c: c.execute(text, parameters).all())
        return [{name: self._value(name, value) for name, value in row._mapping.items()} for row in rows]

    def _value(self, name: str, value: Any) -> Any:
        if name.endswith("_at"):
            return self.database.dialect.instant(value)
        return float(value) if name.endswith("_age_s") and value is not None else value


def _worker(row: Mapping[str, Any]) -> NodeSign:
    progress = row["started_age_s"] if row["progress_age_s"] is None else row["progress_age_s"]
    return NodeSign(
        **_sign(row, "worker_id"),
        lost_at=row["lost_at"],
        queues=frozenset(name.strip() for name in str(row["queues"] or "").split(",") if name.strip()),
        busy=int(row["busy"]),
        progress_age_s=progress,
    )


def _scheduler(row: Mapping[str, Any]) -> NodeSign:
    more = {name: row[name] for name in ("scan_age_s", "last_scan_at", "clock_offset_ms")}
    return NodeSign(**_sign(row, "scheduler_id"), **more)


def _sign(row: Mapping[str, Any], key: str) -> dict[str, Any]:
    names = ("host", "pid", "started_at", "heartbeat_at", "heartbeat_age_s", "stopped_at")
    return {"id": row[key]} | {name: row[name] for name in names}
