"""What the processes say of themselves: workers, schedulers, their heartbeats and leases."""

from __future__ import annotations

import secrets
from typing import Any

import msgspec
from sqlalchemy.engine import Connection, Row

from taskkit.beats import FRESH_S, HOST_LETTERS, SchedulerBeat, WorkerBeat
from taskkit.center.database import Database
from taskkit.center.statements import nodes as sql

INSTANTS = {"started_at", "heartbeat_at", "lost_at", "last_progress_at", "last_scan_at", "stopped_at"}
DOCUMENTS = {"children", "tasks"}


class NodeDesk:
    """Rows of ``task_worker``, ``task_scheduler`` and ``task_lease``."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def installation_id(self) -> str:
        """The id of this installation: made once, kept in SQL; the default prefix of its keys in Redis."""
        name = {"name": "id"}

        def read_or_make(connection: Connection) -> str:
            value = connection.execute(self.database.text(sql.INSTALLATION), name).scalar()
            if value is None:
                made = {**name, "value": secrets.token_hex(4)}
                connection.execute(self.database.text(sql.INSTALLATION_IN), made)
                value = connection.execute(self.database.text(sql.INSTALLATION), name).scalar_one()
            return str(value)

        found = self.database.read(lambda c: c.execute(self.database.text(sql.INSTALLATION), name).scalar())
        return str(found) if found is not None else self.database.write(read_or_make)

    def enter_worker(self, beat: WorkerBeat) -> None:
        """A worker starts: its row is there before it takes its first message."""
        parameters = {
            "worker_id": beat.worker_id,
            "host": beat.host[:HOST_LETTERS],
            "pid": beat.pid,
            "serves": beat.queues,
            "processes": beat.processes,
            "min_processes": beat.min_processes,
            "max_processes": beat.max_processes,
        }
        self._write(sql.WORKER_IN, parameters)

    def beat_worker(self, beat: WorkerBeat) -> bool:
        """A worker's heartbeat; False when its row is gone."""
        parameters = {
            "worker_id": beat.worker_id,
            "processes": beat.processes,
            "busy": beat.busy,
            "processed": beat.processed,
            "failed": beat.failed,
            "dropped": beat.dropped,
            "retries": beat.retries,
            "last_progress_at": self.database.dialect.bind(beat.last_progress_at),
            "rss_bytes": beat.rss_bytes,
            "cpu_percent": beat.cpu_percent,
            "children": _document(beat.children),
            "tasks": _document(beat.tasks),
            "stacks": beat.stacks,
        }
        return self._write(sql.WORKER_BEAT, parameters) == 1

    def write_stacks(self, worker_id: str, stacks: str) -> None:
        """Where a worker's threads and children stood when it gave itself up."""
        self._write(sql.WORKER_STACKS, {"worker_id": worker_id, "stacks": stacks})

    def leave_worker(self, worker_id: str) -> None:
        """A worker has stopped in order."""
        self._write(sql.WORKER_OUT, {"worker_id": worker_id})

    def ask_to_restart(self, worker_id: str) -> bool:
        """Ask a worker to stop in order and be started anew by who started it; False when it is not there."""
        return self._write(sql.RESTART_ASK, {"worker_id": worker_id}) == 1

    def restart_wanted(self, worker_id: str) -> bool:
        """Whether somebody has asked for it since the worker started."""
        text = self.database.text(sql.RESTART_WANTED)
        found = self.database.read(lambda c: c.execute(text, {"worker_id": worker_id}).scalar())
        return found is not None

    def workers(self) -> list[dict[str, Any]]:
        """All workers that have not stopped in order, each with ``heartbeat_age_s``, and ``lost_at`` if it is declared dead."""
        return self._rows(sql.WORKERS)

    def serving(self) -> dict[str, str]:
        """The queues, comma separated, that each live worker serves, by its id."""
        text = self.database.text(sql.SERVING)
        rows = self.database.read(lambda c: c.execute(text, {"age": FRESH_S}).all())
        return {row.worker_id: row.queues for row in rows}

    def enter_scheduler(self, scheduler_id: str, host: str, pid: int) -> None:
        """A scheduler starts."""
        self._write(sql.SCHEDULER_IN, {"scheduler_id": scheduler_id, "host": host[:HOST_LETTERS], "pid": pid})

    def beat_scheduler(self, beat: SchedulerBeat) -> bool:
        """A scheduler's heartbeat; False when its row is gone."""
        parameters = {
            "scheduler_id": beat.scheduler_id,
            "last_scan_at": self.database.dialect.bind(beat.last_scan_at),
            "scans": beat.scans,
            "dispatched": beat.dispatched,
            "retries": beat.retries,
            "clock_offset_ms": beat.clock_offset_ms,
            "tzdata_version": beat.tzdata_version,
        }
        return self._write(sql.SCHEDULER_BEAT, parameters) == 1

    def touch_scheduler(self, scheduler_id: str) -> bool:
        """A scheduler shows that it can write, which is no heartbeat; False when its row is gone."""
        return self._write(sql.SCHEDULER_TOUCH, {"scheduler_id": scheduler_id}) == 1

    def leave_scheduler(self, scheduler_id: str) -> None:
        """A scheduler has stopped in order."""
        self._write(sql.SCHEDULER_OUT, {"scheduler_id": scheduler_id})

    def schedulers(self) -> list[dict[str, Any]]:
        """All schedulers that have not stopped in order, each with ``heartbeat_age_s`` and ``scan_age_s``."""
        return self._rows(sql.SCHEDULERS)

    def take_lease(self, name: str, holder: str, seconds: float) -> bool:
        """Hold or renew the lease ``name``. It only saves work: whatever it guards is safe without it."""
        parameters = {"name": name, "holder": holder, "seconds": seconds}

        def take(connection: Connection) -> bool:
            text = self.database.text(sql.LEASE_TAKE)
            if connection.execute(text, parameters).rowcount == 1:
                return True
            connection.execute(self.database.text(sql.LEASE_IN), {"name": name})
            return connection.execute(text, parameters).rowcount == 1

        return self.database.write(take)

    def lease_holder(self, name: str) -> str | None:
        """Who holds the lease ``name`` now."""
        text = self.database.text(sql.LEASE_HOLDER)
        found = self.database.read(lambda c: c.execute(text, {"name": name}).scalar())
        return str(found) if found else None

    def drop_lease(self, name: str, holder: str) -> None:
        """Give the lease back, so that another need not wait for its end."""
        self._write(sql.LEASE_DROP, {"name": name, "holder": holder})

    def _write(self, template: str, parameters: dict[str, Any]) -> int:
        return self.database.write(lambda c: c.execute(self.database.text(template), parameters).rowcount)

    def _rows(self, template: str) -> list[dict[str, Any]]:
        rows = self.database.read(lambda c: c.execute(self.database.text(template)).all())
        return [self._row(row) for row in rows]

    def _row(self, row: Row[Any]) -> dict[str, Any]:
        return {name: self._value(name, value) for name, value in row._mapping.items()}

    def _value(self, name: str, value: Any) -> Any:
        if name in INSTANTS:
            return self.database.dialect.instant(value)
        if name in DOCUMENTS:
            return msgspec.json.decode(value) if value else []
        return float(value) if name.endswith("_age_s") and value is not None else value


def _document(value: list[dict[str, Any]]) -> str:
    return msgspec.json.encode(value).decode()
