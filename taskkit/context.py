"""The run that is under way: what a handler may ask about itself, and the trace that passes to follow-up tasks."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime

from taskkit.errors import TaskkitError


def _nowhere(_fraction: float, _text: str) -> None:
    """Progress of a run that nobody watches."""


@dataclass(frozen=True, slots=True)
class RunContext:
    """One attempt as its handler sees it; ``attempt`` is the fencing number to pass on to other systems."""

    task_id: int
    task_code: str
    attempt: int
    queue: str
    deadline: datetime
    trace_id: str
    occurrence_at: datetime | None = None
    report: Callable[[float, str], None] = field(default=_nowhere, repr=False)

    def progress(self, fraction: float, text: str = "") -> None:
        """Say how far the run is, from 0 to 1, with a few words; shown in ``taskkit tasks show``."""
        self.report(min(1.0, max(0.0, float(fraction))), str(text))

    @property
    def log(self) -> logging.Logger:
        """A logger; every line logged during a run carries the task's id anyway."""
        return logging.getLogger(f"task.{self.task_code}")


_current: ContextVar[RunContext | None] = ContextVar("taskkit_run", default=None)
_trace: ContextVar[str | None] = ContextVar("taskkit_trace", default=None)


def current_run() -> RunContext:
    """The run that calls this; raises TaskkitError outside of a handler."""
    run = _current.get()
    if run is None:
        raise TaskkitError("current_run() was called outside of a running task")
    return run


def trace_id() -> str | None:
    """The trace that a new task should carry on: that of the run under way, or one set by ``trace``."""
    run = _current.get()
    return run.trace_id if run is not None else _trace.get()


def enter(run: RunContext | None) -> None:
    """Make ``run`` the current one in this thread or async task."""
    _current.set(run)


def trace(value: str | None) -> None:
    """Let tasks that this thread or async task enqueues from now on carry this trace id."""
    _trace.set(value)
