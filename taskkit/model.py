"""The nouns that travel between rooms: frozen records without behaviour."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from msgspec import Struct

from taskkit.showing import Shows
from taskkit.states import Move, Outcome, Status, TaskType

PRIORITIES = range(10)
"""0 is the highest, 9 the lowest, 5 the usual one."""


class Message(Struct, frozen=True, gc=False):
    """The doorbell: which task, which attempt. ``attempt`` is None for one that a person pushed."""

    task_id: int
    task_code: str = ""
    attempt: int | None = None
    dispatched_at: str = ""


class Ring(Struct, frozen=True, gc=False):
    """A ring of the bell that wakes a scheduler. It may name the task it is for, which was due then, and its list."""

    task_id: int = 0
    queue: str = ""
    priority: int = 5


NO_TASK = Ring()
"""A ring that names no task."""


@dataclass(frozen=True, slots=True)
class ListName:
    """One waiting list of a broker: a queue, a priority (0 highest … 9 lowest) and a shard."""

    queue: str
    priority: int = 5
    shard: int = 0


@dataclass(frozen=True, slots=True)
class DeadMessage:
    """A message that could not be read or has no task; kept with the reason."""

    raw: bytes
    reason: str
    queue: str


class NewTask(Struct, frozen=True, gc=False):
    """A task to be written: already validated; ``payload`` is JSON text, instants are UTC."""

    task_code: str
    payload: str
    queue: str
    task_type: TaskType = TaskType.ONE_OFF
    cron_expr: str | None = None
    timezone: str | None = None
    misfire: str = "once"
    dst_gap: str = "after"
    dst_overlap: str = "first"
    priority: int = 5
    delay: float = 0
    plan_next_run_at: datetime | None = None
    next_fire_at: datetime | None = None
    timeout: float = 300
    max_retry: int = 3
    retry_delays: str | None = None
    unique_key: str | None = None
    expires_at: datetime | None = None
    trace_id: str | None = None
    limit_key: str | None = None


@dataclass(frozen=True, slots=True)
class Task(Shows):
    """One row of ``task_center`` as people and programs read it."""

    id: int
    task_code: str
    task_type: TaskType
    queue: str
    status: Status
    priority: int
    payload: str
    cron_expr: str | None
    timezone: str | None
    misfire: str
    dst_gap: str
    dst_overlap: str
    delay: float
    timeout: float
    max_retry: int
    retry_count: int
    lost_count: int
    attempt: int
    plan_next_run_at: datetime | None
    occurrence_at: datetime | None
    next_fire_at: datetime | None
    dispatched_at: datetime | None
    claimed_at: datetime | None
    worker_id: str | None
    list_name: str | None
    unique_key: str | None
    held_reason: str | None
    limit_key: str | None
    granted_at: datetime | None
    expires_at: datetime | None
    cancel_requested_at: datetime | None
    trace_id: str | None
    progress: float | None
    progress_text: str | None
    result: str | None
    last_run_at: datetime | None
    last_result: str | None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class Run(Shows):
    """One row of ``task_run``: how one attempt ended."""

    task_id: int
    attempt: int
    task_code: str
    queue: str
    outcome: Outcome
    worker_id: str | None
    host: str | None
    pid: int | None
    dispatched_at: datetime | None
    started_at: datetime | None
    finished_at: datetime
    runtime_ms: int | None
    occurrence_at: datetime | None
    result: str | None
    error: str | None
    traceback: str | None
    fingerprint: str | None


class Claimed(Struct, frozen=True, gc=False, array_like=True):
    """A task that this worker won: what it needs to run it and to write its end."""

    id: int
    task_code: str
    attempt: int
    queue: str
    payload: str
    task_type: int
    timeout: float
    max_retry: int
    retry_count: int
    retry_delays: str | None
    dispatched_at: datetime
    claimed_at: datetime
    occurrence_at: datetime | None
    cron_expr: str | None
    timezone: str | None
    misfire: str
    dst_gap: str
    dst_overlap: str
    trace_id: str | None
    suspect: bool = False
    lost_count: int = 0


@dataclass(frozen=True, slots=True)
class Claims:
    """The answer to one batch of messages: what was won, what was dropped and why; ``held`` waits for a limit now."""

    won: list[Claimed] = field(default_factory=list)
    duplicates: list[Message] = field(default_factory=list)
    expired: list[Message] = field(default_factory=list)
    missing: list[Message] = field(default_factory=list)
    held: list[Message] = field(default_factory=list)


class Finish(Struct, frozen=True, gc=False):
    """The end of one attempt, judged: everything that its write-back needs."""

    task: Claimed
    outcome: Outcome
    move: Move
    retry_count: int
    delay: float | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    runtime_ms: int | None = None
    pid: int | None = None
    result: str | None = None
    last_result: str | None = None
    error: str | None = None
    traceback: str | None = None
    suspect: bool = False


@dataclass(frozen=True, slots=True)
class DueList:
    """A list that has waiting rows in SQL: its earliest time, whether that is due now, and the statuses of its rows."""

    queue: str
    priority: int
    earliest: datetime | None
    due: bool
    statuses: tuple[int, ...] = (0, 4)


class Waiting(NamedTuple):
    """Whether due rows of a list wait for a scheduler, or new ones would for a limit; the database's clock; the shards."""

    waits: bool
    now: datetime
    shards: int
    lists: int


class Won(Struct, frozen=True, gc=False):
    """A row that this dispatch batch moved to status 1: what its message needs."""

    id: int
    task_code: str
    attempt: int
    queue: str
    priority: int
    dispatched_at: datetime
    shard: int = 0

    @property
    def list_name(self) -> ListName:
        """Where its message goes."""
        return ListName(self.queue, self.priority, self.shard)


@dataclass(frozen=True, slots=True)
class Occurrence(Shows):
    """One planned fire time of a periodic task and what became of it."""

    task_id: int
    planned_at: datetime
    state: str
    reason: str | None
    fired_at: datetime | None
    late_s: float | None
    attempt: int | None
    outcome: str | None


@dataclass(frozen=True, slots=True)
class Backlog(Shows):
    """What waits in one queue: due in SQL, queued in the broker, running; the oldest wait in seconds."""

    queue: str
    due: int
    queued: int
    running: int
    oldest_age_s: float | None
    held: int = 0
    retrying: int = 0


@dataclass(frozen=True, slots=True)
class DeadGroup(Shows):
    """What gave up for one cause: given up tasks, or occurrences of periodic tasks, with one fingerprint.

    ``fingerprint`` is None where no run tells one. ``message`` has its values taken out; ``sample_id`` is one of the
    tasks.
    """

    fingerprint: str | None
    count: int
    codes: tuple[str, ...]
    queues: tuple[str, ...]
    first_at: datetime
    last_at: datetime
    sample_id: int
    message: str = ""


@dataclass(frozen=True, slots=True)
class Afterwards:
    """What is known of a task since a person retried it: its status, and its runs as (attempt, outcome, fingerprint)."""

    task_id: int
    status: Status
    runs: tuple[tuple[int, Outcome, str | None], ...] = ()
