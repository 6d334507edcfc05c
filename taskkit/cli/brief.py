"""A task in a few words, for lists: what it does, and what it said last."""

from __future__ import annotations

from typing import Any

from taskkit.cli.shapes import value_of
from taskkit.model import Task
from taskkit.render import one_line
from taskkit.states import ENDED, Status, TaskType

BEGINNING = 40


def doing(task: Task) -> str:
    """The code, and for `shell` and `http` the beginning of the command or address."""
    payload = value_of(task.payload) if task.task_code in {"shell", "http"} else None
    if not isinstance(payload, dict):
        return task.task_code
    subject = payload.get("command") or payload.get("argv") or payload.get("url")
    if isinstance(subject, list):
        subject = " ".join(map(str, subject))
    return f"{task.task_code} {one_line(subject, BEGINNING)}" if subject else task.task_code


def last_words(task: Task) -> str:
    """The reason of a held task, the progress of a running one, else what came of the last run."""
    if task.status is Status.HELD and task.held_reason:
        return task.held_reason
    if task.status is Status.RUNNING and task.progress is not None:
        return f"{task.progress:.0%} {task.progress_text or ''}"
    return said(task) or task.last_result or "-"


def said(task: Task) -> str | None:
    """What a good run of `shell` printed or `http` was answered; None where the result is no such thing."""
    if task.task_code not in {"shell", "http"} or not task.result:
        return None
    value: Any = value_of(task.result)
    if not isinstance(value, dict):
        return None
    text = value.get("output", value.get("body"))
    if not isinstance(text, str):
        return None
    return text.strip() or ("ok, no output" if "output" in value else "ok, an empty answer")


def fires(task: Task) -> bool:
    """Whether a periodic task has a next time: one that is cancelled or held has none."""
    return task.task_type is TaskType.PERIODIC and task.status not in ENDED | {Status.HELD}
