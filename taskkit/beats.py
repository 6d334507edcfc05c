"""What nodes say of themselves every few seconds, and how long that counts: frozen records without behaviour."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

HOST_LETTERS = 100
"""So much of a host's name stands in the rows of nodes and runs."""
FRESH_S = 15.0
"""Seconds after which a node whose heartbeat was not renewed looks dead."""


@dataclass(frozen=True, slots=True)
class WorkerBeat:
    """What a worker says of itself every few seconds: one row of ``task_worker``."""

    worker_id: str
    host: str
    pid: int
    queues: str
    processes: int
    busy: int
    processed: int
    failed: int
    dropped: int
    last_progress_at: datetime | None
    rss_bytes: int
    cpu_percent: float
    children: list[dict[str, Any]]
    tasks: list[dict[str, Any]]
    stacks: str | None = None
    retries: int = 0
    min_processes: int | None = None
    max_processes: int | None = None


@dataclass(frozen=True, slots=True)
class SchedulerBeat:
    """What a scheduler says of itself every few seconds: one row of ``task_scheduler``."""

    scheduler_id: str
    host: str
    pid: int
    dispatched: int
    scans: int
    last_scan_at: datetime | None
    clock_offset_ms: float | None
    tzdata_version: str
    retries: int = 0
