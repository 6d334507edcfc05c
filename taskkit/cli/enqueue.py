"""``taskkit enqueue``: one task into the task center."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

import click

from taskkit.cli.complete import codes, queues, zones
from taskkit.cli.conduct import say
from taskkit.cli.front import Front, pass_front
from taskkit.cli.options import INSTANT, PAYLOAD, SPAN, WHOLE_SPAN, json_option
from taskkit.clock import seconds
from taskkit.model import Task
from taskkit.states import Status, TaskType

LATER: list[str] = (
    "dispatched_at claimed_at granted_at worker_id list_name held_reason cancel_requested_at progress progress_text result "
    "last_run_at last_result"
).split()
"""What a row gets only after it was written."""


@click.command()
@click.argument("code", shell_complete=codes)
@click.option(
    "--payload",
    type=PAYLOAD,
    default=None,
    metavar="JSON",
    help="Arguments as a JSON object; - reads stdin, @FILE a file.",
)
@click.option("--delay", type=SPAN, metavar="S", help="Start in so many seconds, or 15m, 2h, 1d.")
@click.option("--at", type=INSTANT, metavar="ISO", help="Start at this instant: 2026-03-01T09:00:00+08:00.")
@click.option("--cron", metavar="EXPR", help="Run again and again: '0 2 * * *', '*/10 * * * * *', @daily.")
@click.option(
    "--tz",
    "timezone",
    metavar="ZONE",
    shell_complete=zones,
    help="Time zone of --cron, such as Asia/Shanghai.",
)
@click.option("--priority", type=click.IntRange(0, 9), metavar="N", help="0 is first, 9 last (default 5).")
@click.option("--timeout", type=WHOLE_SPAN, metavar="S", help="Ended after so many seconds (default 300).")
@click.option(
    "--max-retry", type=click.IntRange(0, 255), metavar="N", help="Tries again so often (default 3)."
)
@click.option(
    "--queue", metavar="Q", shell_complete=queues, help="Queue to wait in (default: the one of the code)."
)
@click.option("--unique-key", metavar="K", help="Adds nothing while a live task has this key.")
@click.option("--limit-key", metavar="K", help="Shares the limit of this key: see `taskkit limits`.")
@click.option(
    "--app", metavar="APP", help="module:kit that has the handler: checks code and payload against it."
)
@click.option("--unchecked", is_flag=True, help="Do not look at the application of the settings.")
@json_option
@pass_front
def command(
    front: Front, /, code: str, app: str | None, unchecked: bool, as_json: bool, **options: Any
) -> None:
    """Write a task with this CODE; a worker that has its handler runs it.

    Without --delay, --at or --cron it is due now. What is printed is the task as it was written; what became of it
    since, `taskkit tasks show` knows. The codes `shell` and `http` need no code of your own.

    \b
      taskkit enqueue send_email --payload '{"to": "a@example.com"}'
      taskkit enqueue shell --payload '{"command": "date"}' --delay 10m
      taskkit enqueue report --cron '0 2 * * *' --tz Asia/Shanghai --unique-key nightly
      echo '{"url": "https://example.com/ping"}' | taskkit enqueue http --payload -
    """
    payload = options.pop("payload") or {}
    producer = front.producer(code, app, checked=not unchecked)
    newest = front.newest_id()
    task_id = producer.enqueue(code, payload, **options)
    task = front.kit.center.read.task(task_id)
    added = task_id > newest
    _tell(as_written(task, options) if added else task, added=added, as_json=as_json)
    if not as_json:
        _warn(front, task)


def _tell(task: Task, *, added: bool, as_json: bool) -> None:
    from taskkit.cli.shapes import task_shape
    from taskkit.render import show, to_json

    if as_json:
        click.echo(to_json(task_shape(task) | {"added": added}))
        return
    if added:
        show(f"task {task.id} written: {task.task_code}, queue {task.queue}, {_when(task)}")
    else:
        show(f"task {task.id} has this key already and is {task.status.label}: nothing was added")
    show(f"follow it:  taskkit tasks show {task.id}")


def as_written(task: Task, options: dict[str, Any]) -> Task:
    """The row as it was written, although it may have been dispatched or run before it was read."""
    due, following = _due(task, options)
    written: dict[str, Any] = {
        "status": Status.PENDING,
        "plan_next_run_at": due,
        "occurrence_at": due if following else None,
        "next_fire_at": following,
        "updated_at": task.created_at,
    }
    written |= dict.fromkeys(("retry_count", "lost_count", "attempt"), 0) | dict.fromkeys(LATER)
    return replace(task, **written)


def _due(task: Task, options: dict[str, Any]) -> tuple[datetime, datetime | None]:
    """When the task was written to start, and the fire time after that of a periodic one."""
    if task.task_type is TaskType.PERIODIC:
        from taskkit.cron import parse

        schedule = parse(
            task.cron_expr or "", task.timezone or "UTC", gap=task.dst_gap, overlap=task.dst_overlap
        )
        first = schedule.next(task.created_at)
        return first, schedule.next(first)
    return options["at"] or task.created_at + seconds(task.delay), None


def _when(task: Task) -> str:
    from taskkit.render import duration, local_with_age

    due = task.plan_next_run_at
    if task.task_type is TaskType.PERIODIC:
        return f"{task.cron_expr} ({task.timezone}), next {local_with_age(due)}"
    if task.task_type is TaskType.TIMED:
        return f"due {local_with_age(due)}"
    return f"due in {duration(task.delay)}" if task.delay else "due now"


def _warn(front: Front, task: Task) -> None:
    """Say it when nothing will run this task as things are."""
    from taskkit.cli.life import nobody_runs

    if task.status in {Status.PENDING, Status.DISPATCHED} and (
        why := nobody_runs(front.kit.center, task.queue)
    ):
        say(f"note: {why}")
