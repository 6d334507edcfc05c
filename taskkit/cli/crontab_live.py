"""The live tasks that earlier imports of crontabs wrote: which of them a job is, or is the twin of."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any

from taskkit.cli.conduct import say
from taskkit.errors import CronError, NotFound, TaskkitError
from taskkit.model import Task
from taskkit.states import Status

if TYPE_CHECKING:
    from taskkit.cli.crontab_lines import TaskOptions
    from taskkit.cli.front import Front
    from taskkit.crontab import Job

PREFIX = "crontab:"


class Live:
    """Imported tasks by their key; ``own`` are the keys of the file that is read now."""

    def __init__(self, tasks: list[Task]) -> None:
        self.by_key: dict[str | None, Task] = {}
        self.alike: dict[tuple[object, ...], list[Task]] = {}
        self.own: set[str] = set()
        for task in tasks:
            self.take(task)

    def take(self, task: Task) -> None:
        """One more is live now."""
        self.by_key[task.unique_key] = task
        self.alike.setdefault(_sameness(task.cron_expr, _payload(task)), []).append(task)

    def twin(self, job: Job) -> str | None:
        """A note when a task of another source does the same at the same times."""
        for task in self.alike.get(_sameness(_normal(job), job.payload), []):
            if task.unique_key not in self.own:
                return (
                    f"task {task.id}, imported from another source ({_source(task)}), has the same schedule, user and "
                    f"command: with both the job runs twice; `taskkit tasks cancel {task.id}` ends that one"
                )
        return None


def look(front: Front) -> Live:
    """What earlier imports left; nothing where there is no installation yet."""
    try:
        return Live(front.center.read.live(PREFIX))
    except NotFound:
        return Live([])
    except TaskkitError as error:
        say(f"note: which lines were imported already is not known: {error}")
        return Live([])


def told_of(task: Task, job: Job, options: TaskOptions, now: datetime, count: int) -> dict[str, Any]:
    """Schedule, zone, times and notes of a job that is a task already: those of the task, not what was asked for."""
    notes = [note for note in (_held(task), _differs(task, job, options)) if note]
    return {
        "expression": job.expression if task.cron_expr == _normal(job) else task.cron_expr,
        "timezone": task.timezone,
        "next": () if task.status is Status.HELD else _times(task, now, count),
        "notes": (*job.notes, *notes),
    }


def _times(task: Task, now: datetime, count: int) -> tuple[datetime, ...]:
    from taskkit.cron import parse

    try:
        schedule = parse(
            task.cron_expr or "", task.timezone or "UTC", gap=task.dst_gap, overlap=task.dst_overlap
        )
        return tuple(schedule.upcoming(now, count))
    except CronError:  # edited by hand; the planner holds it and says so
        return ()


def _held(task: Task) -> str:
    if task.status is not Status.HELD:
        return ""
    return f"task {task.id} is held ({task.held_reason}): `taskkit tasks resume {task.id}` releases it"


def _differs(task: Task, job: Job, options: TaskOptions) -> str:
    asked = {
        "schedule": (task.cron_expr, _normal(job)),
        "zone": (task.timezone, job.timezone),
        "queue": (task.queue, options.queue or task.queue),
        "time limit": (f"{task.timeout:g} s", f"{options.timeout:g} s"),
        "max-retry": (task.max_retry, options.max_retry),
        "misfire": (task.misfire, options.misfire),
    }
    found = [f"{name} {has}, not {wanted}" for name, (has, wanted) in asked.items() if has != wanted]
    if not found:
        return ""
    return (
        f"task {task.id} was left as it is ({', '.join(found)}); to change that, "
        f"`taskkit tasks cancel {task.id}` and import again"
    )


def _normal(job: Job) -> str:
    from taskkit.cron import parse

    return parse(job.expression, job.timezone).expression


def _sameness(expression: str | None, payload: dict[str, Any]) -> tuple[object, ...]:
    return (expression, *(str(payload.get(name)) for name in ("user", "command", "stdin")))


def _payload(task: Task) -> dict[str, Any]:
    try:
        found = json.loads(task.payload)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _source(task: Task) -> str:
    return (task.unique_key or "").split(":")[1]
