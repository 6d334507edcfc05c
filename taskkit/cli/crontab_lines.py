"""What becomes of each line of a crontab: read, imported or refused, with the reason and its next fire times."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from taskkit.cli.cron import zulu
from taskkit.cli.crontab_live import look, told_of
from taskkit.errors import InputError, TaskkitError

if TYPE_CHECKING:
    from taskkit.cli.front import Front
    from taskkit.crontab import Crontab, Job, Line
    from taskkit.model import Task

NEXT = 5
LARGEST = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class TaskOptions:
    """What all tasks of an import get."""

    queue: str | None
    timeout: int
    max_retry: int
    misfire: str


@dataclass(frozen=True, slots=True)
class Accounted:
    """One line of a file and what became of it."""

    line: int
    kind: str
    status: str
    text: str
    reason: str | None = None
    expression: str | None = None
    timezone: str | None = None
    user: str | None = None
    command: str | None = None
    stdin: str | None = None
    task_id: int | None = None
    next: tuple[datetime, ...] = ()
    notes: tuple[str, ...] = ()

    def shape(self) -> dict[str, Any]:
        """For ``--json``."""
        names = "line kind status reason expression timezone user command stdin task_id text".split()
        found = {name: getattr(self, name) for name in names}
        return found | {"next": [zulu(at) for at in self.next], "notes": list(self.notes)}

    def outcome(self) -> str:
        """In the table: what became of it, and as which task."""
        words = "already there" if self.status == "exists" else self.status
        return f"{words}: task {self.task_id}" if self.task_id is not None else words

    def command_shown(self, limit: int) -> str:
        """The command on one line, with how much input it gets."""
        from taskkit.render import counted, one_line

        if self.stdin is None:
            return one_line(self.command or self.text, limit)
        count = self.stdin.count("\n") or 1
        return f"{one_line(self.command, limit)} < {counted(count, 'line')} of input"

    def next_shown(self) -> str:
        """The next fire times in the line's own zone, one below the other."""
        from zoneinfo import ZoneInfo

        zone = ZoneInfo(self.timezone or "UTC")
        return "\n".join(f"{at.astimezone(zone):%Y-%m-%d %H:%M}" for at in self.next)


@dataclass(frozen=True, slots=True)
class Accounts:
    """All lines of one file."""

    file: str
    system: bool
    reason: str
    lines: list[Accounted]
    notes: list[str] = field(default_factory=list)

    def shape(self) -> dict[str, Any]:
        """For ``--json``."""
        return {
            "file": self.file,
            "format": "system" if self.system else "user",
            "detected": self.reason,
            "notes": self.notes,
            "lines": [line.shape() for line in self.lines],
        }


class Importer:
    """Writes the tasks of job lines, or with ``dry_run`` only says what it would do."""

    def __init__(self, front: Front, options: TaskOptions, *, dry_run: bool) -> None:
        self.front, self.options, self.dry_run = front, options, dry_run
        self.now = datetime.now(UTC)
        self.live = look(front)

    def take(self, line: Line, job: Job) -> Accounted:
        """What becomes of one job line."""
        told: dict[str, Any] = {
            "line": line.number,
            "kind": line.kind,
            "text": line.text,
            "expression": job.expression,
            "timezone": job.timezone,
            "user": job.user,
            "command": job.command,
            "stdin": job.stdin,
            "notes": (*job.notes, *filter(None, [self.live.twin(job)])),
        }
        try:
            told["next"] = tuple(job.upcoming(self.now, NEXT))
            status, task = self._written(job)
        except InputError as problem:
            return Accounted(**told, status="refused", reason=str(problem))
        if status == "exists" and task is not None:
            told |= told_of(task, replace(job, notes=told["notes"]), self.options, self.now, NEXT)
        return Accounted(**told, status=status, task_id=None if task is None else task.id)

    def _written(self, job: Job) -> tuple[str, Task | None]:
        """What became of a job, or would become of it, and its task."""
        if known := self.live.by_key.get(job.unique_key):
            return "exists", known
        if self.dry_run:
            return "would import", None
        status, task_id = self._write(job)
        task = self.front.kit.center.read.task(task_id)
        self.live.take(task)
        return status, task

    def _write(self, job: Job) -> tuple[str, int]:
        newest = self.front.newest_id()
        task_id = self.front.kit.producer.enqueue(
            **job.task(),
            queue=self.options.queue,
            timeout=self.options.timeout,
            max_retry=self.options.max_retry,
            misfire=self.options.misfire,
        )
        return ("imported" if task_id > newest else "exists"), task_id


def account_for(name: str, system: bool | None, zone: str, importer: Importer) -> Accounts:
    """Read one file and take its job lines."""
    from taskkit.crontab import decode, read
    from taskkit.render import progress

    tab = read(decode(_bytes(name)), name="stdin" if name == "-" else name, system=system, timezone=zone)
    importer.live.own = {job.unique_key for job in tab.jobs}
    lines = []
    with progress(name, len(tab)) as bar:
        for line in tab:
            lines.append(_account(line, importer))
            bar.step()
    return Accounts(name, tab.detected.system, _reason(tab), lines, list(tab.notes))


def _account(line: Line, importer: Importer) -> Accounted:
    if line.job is not None:
        return importer.take(line, line.job)
    return Accounted(line.number, line.kind, line.kind, line.text, reason=line.reason or None)


def _reason(tab: Crontab) -> str:
    sure = "" if tab.detected.sure else " (not certain: --system or --user says which it is)"
    return f"{tab.detected.reason}{sure}"


def _bytes(name: str) -> bytes:
    if name == "-":
        return sys.stdin.buffer.read(LARGEST)
    path = Path(name)
    if path.is_dir():
        raise TaskkitError(f"{name}: is a folder; name its files, for example {name.rstrip('/')}/*")
    data = path.read_bytes()
    if len(data) > LARGEST:
        raise TaskkitError(f"{name}: has {len(data)} bytes; no crontab is larger than {LARGEST}")
    return data
