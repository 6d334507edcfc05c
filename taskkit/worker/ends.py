"""The ends of attempts: each is judged, counted, logged and handed to the writer, once."""

from __future__ import annotations

import logging
from typing import Any

from taskkit.clock import monotonic
from taskkit.model import Claimed, Finish
from taskkit.states import Move, Outcome
from taskkit.worker.frames import Done
from taskkit.worker.slots import Given, ParentVerdict, Slot
from taskkit.worker.tally import Tally
from taskkit.worker.verdicts import Judge
from taskkit.worker.writer import Writer

log = logging.getLogger("taskkit.worker")
CALM = frozenset({Outcome.SUCCESS, Outcome.HANDED_BACK, Outcome.CANCELLED})


class Ends:
    """What the hub says of attempts that have ended, on the database's clock."""

    def __init__(self, writer: Writer, judge: Judge, tally: Tally) -> None:
        self.writer, self.judge, self.tally = writer, judge, tally

    def write(self, task: Claimed, outcome: Outcome, **facts: Any) -> None:
        """An attempt has ended with ``outcome``; ``facts`` as :meth:`Judge.finish` takes them."""
        end = self.judge.finish(task, outcome, **facts)
        if outcome is not Outcome.HANDED_BACK:
            self.tally.processed += 1
            self.tally.failed += outcome not in CALM
            self.tally.last_progress = monotonic()
        level = logging.INFO if outcome in CALM else logging.WARNING
        if log.isEnabledFor(level):
            extra = {**log_fields(task), "outcome": outcome.value, "runtime_ms": end.runtime_ms}
            log.log(level, "%s", _told(end), extra=extra)
        self.writer.put(end)

    def unstarted(self, task: Claimed, verdict: ParentVerdict) -> None:
        """No handler has begun this task."""
        self.write(task, verdict.outcome, error=verdict.text)

    def by_verdict(self, slot: Slot, given: Given, verdict: ParentVerdict, *, suspect: bool = False) -> None:
        """A job's child was ended, or died of itself."""
        started = slot.began(given) if slot.has_begun(given) else None
        now = monotonic()
        self.write(
            given.task,
            verdict.outcome,
            error=verdict.text,
            started_at=None if started is None else self.tally.instant(started),
            finished_at=self.tally.instant(now),
            runtime=None if started is None else now - started,
            pid=slot.pid,
            suspect=suspect,
        )
        slot.settle(given.job.seq)

    def by_child(self, slot: Slot, given: Given, done: Done) -> None:
        """The child tells how a job ended; where it was told to stop, we know better why."""
        outcome, error = Outcome(done.outcome), done.error
        if given.verdict is not None and given.verdict.outcome is outcome:
            error = given.verdict.text
        self.write(
            given.task,
            outcome,
            error=error,
            traceback=done.traceback,
            result=done.result,
            line=done.line,
            delay=done.delay,
            started_at=self.tally.instant(done.started),
            finished_at=self.tally.instant(done.ended),
            runtime=done.ended - done.started,
            pid=slot.pid,
        )


def _told(end: Finish) -> str:
    """How an attempt ended, in one line; the last of a task says so."""
    said = end.outcome.value if end.move is not Move.EXHAUST else f"{end.outcome.value}, and given up"
    error = (end.error or "").removeprefix(f"{end.outcome.value.replace('_', ' ')}: ")
    return f"{said}: {error}" if error else said


def log_fields(task: Claimed) -> dict[str, Any]:
    """What every line about a task carries."""
    return {
        "task_id": task.id,
        "task_code": task.task_code,
        "attempt": task.attempt,
        "trace_id": task.trace_id,
    }
