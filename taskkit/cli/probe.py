"""``taskkit probe``: a no-op goes the whole way, and every step says when it happened or why it did not."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from taskkit.cli.complete import queues
from taskkit.cli.conduct import Failed
from taskkit.cli.front import Front, pass_front
from taskkit.cli.options import SPAN, json_option
from taskkit.clock import monotonic, seconds
from taskkit.errors import TaskkitError
from taskkit.model import Run, Task
from taskkit.states import ENDED, Status

if TYPE_CHECKING:
    from taskkit.center import TaskCenter

STEPS = ("enqueue", "dispatch", "claim", "start", "finish")
CODE = "taskkit.noop"
LOOK_S = 0.02


@dataclass(frozen=True, slots=True)
class Journey:
    """How far the no-op came: the instant of each step, and why there is none of the next."""

    task: Task
    instants: dict[str, datetime | None]
    why: str = ""

    @property
    def missing(self) -> str | None:
        """The first step that did not happen; None when the no-op arrived."""
        if self.task.status is Status.SUCCESS:
            return None
        return next((step for step in STEPS if self.instants[step] is None), "finish")

    def steps(self) -> Iterator[tuple[str, datetime | None, float | None]]:
        """Each step, its instant, and the milliseconds since the one before."""
        before = None
        for step in STEPS:
            at = self.instants[step]
            yield step, at, None if at is None or before is None else (at - before).total_seconds() * 1000
            before = at or before

    def shape(self) -> dict[str, Any]:
        """For ``--json``."""
        return {
            "queue": self.task.queue,
            "task_id": self.task.id,
            "arrived": self.missing is None,
            "steps": [{"step": step, "at": at, "after_ms": after} for step, at, after in self.steps()],
            "stopped_before": self.missing,
            "why": self.why or None,
            "worker": self.task.worker_id,
        }


@click.command()
@click.argument("queue", shell_complete=queues)
@click.option("--deadline", type=SPAN, default=30, metavar="S", help="Wait at most so long (default 30 s).")
@click.option(
    "--priority", type=click.IntRange(0, 9), default=5, metavar="N", help="Priority of the no-op (default 5)."
)
@json_option
@pass_front
def command(front: Front, queue: str, deadline: float, priority: int, as_json: bool) -> None:
    """Send a built-in no-op through QUEUE, and print the time of each step and where it stopped.

    The first thing to try on a queue that grows. Exit code 1 when the no-op did not arrive; it is cancelled then.

    \b
      taskkit probe send_email
      taskkit probe send_email --deadline 5 --json
    """
    from taskkit.render import to_json

    journey = travel(front, queue, deadline, priority)
    if as_json:
        click.echo(to_json(journey.shape()))
    else:
        _show(journey, deadline)
    if journey.missing is not None:
        raise Failed


def travel(front: Front, queue: str, deadline: float, priority: int = 5) -> Journey:
    """Send the no-op and follow it until it arrived or the time is over."""
    center = front.center
    _ = front.kit.queue  # connected beforehand, so that the bell rings as soon as the task is written
    task_id = front.kit.producer.enqueue(
        CODE,
        {},
        queue=queue,
        priority=priority,
        max_retry=0,
        timeout=10,
        expires_at=center.now() + seconds(min(deadline, 86_400) + 1),
    )
    try:
        task = _followed(center, task_id, deadline)
        instants = _instants(task, center.read.runs([task_id]))
        why = "" if task.status is Status.SUCCESS else explain(front, task)
        return Journey(task, instants, why)
    finally:
        with contextlib.suppress(TaskkitError):  # it has ended, or cannot be told so; it expires by itself
            if center.read.task(task_id).status not in ENDED:
                front.kit.operations.cancel(task_id)


def _followed(center: TaskCenter, task_id: int, deadline: float) -> Task:
    end = monotonic() + deadline
    while True:
        task = center.read.task(task_id)
        if task.status in ENDED or monotonic() >= end:
            return task
        time.sleep(LOOK_S)


def _instants(task: Task, runs: list[Run]) -> dict[str, datetime | None]:
    run = runs[-1] if runs else None
    reached = task.attempt > 0
    return {
        "enqueue": task.created_at,
        "dispatch": (run.dispatched_at if run else None) or (task.dispatched_at if reached else None),
        "claim": task.claimed_at if run or task.status is Status.RUNNING else None,
        "start": run.started_at if run else None,
        "finish": run.finished_at if run else None,
    }


def explain(front: Front, task: Task) -> str:
    """Why a task stands where it stands, and what to look at."""
    if task.status in {Status.PENDING, Status.HELD}:
        return _not_dispatched(front, task)
    if task.status is Status.DISPATCHED:
        return _not_claimed(front, task)
    if task.status is Status.RUNNING:
        return f"worker {task.worker_id} has taken it and not finished it: look at that worker's log and load"
    return f"it ended as {task.status.label}: {task.last_result}"


def _not_dispatched(front: Front, task: Task) -> str:
    from taskkit.cli.life import START_ALL, live_schedulers
    from taskkit.render import counted

    if task.status is Status.HELD:
        return f"it is held: {task.held_reason}"
    alive = live_schedulers(front.center)
    if not alive:
        return f"no scheduler is alive: {START_ALL}, or `python -m taskkit.scheduler`"
    if trouble := _broker_trouble(front):
        return trouble
    waiting = front.center.read.backlogs().get(task.queue)
    window = front.settings.scheduler.window
    if waiting is not None and waiting.queued >= window:
        return f"its list is full ({waiting.queued} wait in it, the window is {window}): the queue {task.queue} needs more workers"
    youngest = min((node["scan_age_s"] or 0.0) for node in alive)
    return f"{counted(len(alive), 'scheduler')} alive, the last scan {youngest:.1f} s ago: look at the scheduler's log"


def _not_claimed(front: Front, task: Task) -> str:
    from taskkit.cli.life import live_workers, nobody_runs

    if trouble := _broker_trouble(front):
        return trouble
    if why := nobody_runs(front.center, task.queue):
        return why
    serving = live_workers(front.center, task.queue)
    busy, slots = sum(node["busy"] for node in serving), sum(node["processes"] for node in serving)
    waiting = _depth(front, task.queue)
    state = f"{busy} of {slots} processes of its {len(serving)} worker{'s' * (len(serving) > 1)} are busy"
    if waiting == 0:
        return f"its message is in no list although {state}: the broker lost it, and a scheduler rings again for it within some {front.settings.scheduler.lost_after_s + 5:.0f} s"
    return f"{waiting} messages wait in its queue and {state}: see `taskkit tasks list --status running`"


def _depth(front: Front, name: str) -> int:
    queue = front.kit.queue
    if queue is None:
        return 0
    return sum(queue.depth(front.center.shards.refresh().all_lists([name])).values())


def _broker_trouble(front: Front) -> str:
    """What is wrong with the broker; empty when it answers."""
    queue = front.kit.queue
    if queue is None:
        return (
            f"the embedded broker in {front.settings.home} is not running: start a scheduler or worker there"
        )
    try:
        queue.ping()
    except TaskkitError as error:
        return f"the broker does not answer: {error}"
    return ""


def _show(journey: Journey, deadline: float) -> None:
    from taskkit.render import duration, milliseconds, show, table

    rows = [
        (step, "-" if at is None else f"{at.astimezone():%H:%M:%S.%f}"[:-3], milliseconds(after))
        for step, at, after in journey.steps()
    ]
    show(table(("step", "at", ">after"), rows), "")
    if journey.missing is None:
        total = (journey.task.updated_at - journey.task.created_at).total_seconds()
        show(
            f"arrived: task {journey.task.id} went through {journey.task.queue} in {milliseconds(total * 1000)}, on {journey.task.worker_id}"
        )
        return
    show(f"it stopped before {journey.missing}, {duration(deadline)} were not enough: {journey.why}")
