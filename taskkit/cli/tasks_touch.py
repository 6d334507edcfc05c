"""What a command is about to touch, shown before it is done; and what became of it for each task."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from taskkit.model import Task
from taskkit.states import Status

if TYPE_CHECKING:
    from taskkit.center import TaskCenter

SHOWN = 20


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a move for one task; ``note`` says what does not follow from the status."""

    id: int
    status: Status | None
    error: str = ""
    note: str = ""

    def shape(self) -> dict[str, Any]:
        """For ``--json``."""
        known = self.status is not None
        return {
            "id": self.id,
            "ok": known,
            "status": int(self.status) if self.status is not None else None,
            "status_name": self.status.label if self.status is not None else None,
            "error": self.error or None,
            "note": self.note or None,
        }


def touched(tasks: Sequence[Task]) -> object:
    """A table of the tasks that a command means."""
    from taskkit.cli.brief import doing, last_words
    from taskkit.render import one_line, table

    rows = [(task.id, doing(task), task.status.label, one_line(last_words(task), 80)) for task in tasks]
    columns = (">id", "code", "status", "last result")
    return table(columns, rows, keep=("id", "status"), excerpts=("code", "last result"))


def show_before(tasks: Sequence[Task], count: int | None = None) -> None:
    """On stderr, before a person is asked: the first of the tasks, and how many more of ``count`` there are."""
    from taskkit.render import show

    show(touched(tasks[:SHOWN]), stream=sys.stderr)
    more = (len(tasks) if count is None else count) - SHOWN
    if more > 0:
        show(f"and {more} more", stream=sys.stderr)


def ending_of(center: TaskCenter, task_id: int) -> str:
    """What follows from asking a running task to end: its worker does it, if it lives."""
    from taskkit.cli.life import pulse

    task = center.read.task(task_id)
    if task.status is not Status.RUNNING:
        return f"is {task.status.label} meanwhile"
    heard, alive = pulse(center, task)
    if alive:
        return "is running: its worker was told to end it"
    return (
        f"is marked to be cancelled, but nobody ends it: its worker {task.worker_id} is {heard}"
        if heard.startswith("gone")
        else f"is marked to be cancelled, but its worker {task.worker_id} was {heard} and will hardly end it"
    )
