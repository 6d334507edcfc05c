"""The shapes that ``--json`` prints for tasks, runs and occurrences; scripts rely on these names."""

from __future__ import annotations

import dataclasses
from typing import Any

from taskkit.cli.options import strict_json
from taskkit.model import Occurrence, Run, Task


def task_shape(task: Task) -> dict[str, Any]:
    """A task: its columns, the status as number and as name, payload and result as values."""
    found = {item.name: getattr(task, item.name) for item in dataclasses.fields(task)}
    found |= {"status": int(task.status), "task_type": int(task.task_type), "payload": value_of(task.payload)}
    found["result"] = None if task.result is None else value_of(task.result)
    return _after(found, "status", {"status_name": task.status.label})


def run_shape(run: Run) -> dict[str, Any]:
    """A run: how one attempt ended; ``worker`` is the id of the worker that had it."""
    return {
        "attempt": run.attempt,
        "outcome": run.outcome.value,
        "worker": run.worker_id,
        "host": run.host,
        "pid": run.pid,
        "dispatched_at": run.dispatched_at,
        "started_at": run.started_at,
        "finished_at": run.finished_at,
        "runtime_ms": run.runtime_ms,
        "occurrence_at": run.occurrence_at,
        "result": None if run.result is None else value_of(run.result),
        "error": run.error,
        "traceback": run.traceback,
        "fingerprint": run.fingerprint,
    }


def occurrence_shape(found: Occurrence) -> dict[str, Any]:
    """A planned fire time and what became of it."""
    names = [item.name for item in dataclasses.fields(found) if item.name != "task_id"]
    return {name: getattr(found, name) for name in names}


def value_of(text: str) -> Any:
    """The value of JSON text; the text itself where somebody wrote something else into the column."""
    try:
        return strict_json(text)
    except (ValueError, RecursionError):
        return text


def _after(found: dict[str, Any], name: str, more: dict[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key, value in found.items():
        made[key] = value
        if key == name:
            made |= more
    return made
