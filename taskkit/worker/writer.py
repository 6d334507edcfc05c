"""The writer: ends of attempts into SQL, many in one transaction; holds them while SQL is away."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from taskkit.center import TaskCenter, WorkDesk
from taskkit.clock import monotonic
from taskkit.errors import CommitUnknown, DatabaseUnavailable, SchemaError
from taskkit.model import NO_TASK, Finish, Ring
from taskkit.service import Troubles
from taskkit.worker.enqueues import EnqueueRequest, Enqueues
from taskkit.worker.progress import LatestProgress, ProgressReport
from taskkit.worker.tally import Tally
from taskkit.worker.watch import Call

log = logging.getLogger("taskkit.worker")
GATHER_SECONDS = 0.002
PACE_SECONDS = 0.02
"""From the beginning of one commit to that of the next, unless ENOUGH has ended meanwhile: each costs the same."""
ENOUGH = 32
MOST = 500


@dataclass(frozen=True, slots=True)
class LookAround:
    """There is progress to be written, which waits apart: a flood of it must not fill the queue of the ends."""


Item = Finish | LookAround


class Writer:
    """One thread for ends: group commit of a few milliseconds or a few hundred; beside it one for ``enqueues``."""

    def __init__(
        self, center: TaskCenter, desk: WorkDesk, ring: Callable[[Ring], None], tally: Tally
    ) -> None:
        self.desk, self.ring, self.tally = desk, ring, tally
        self.enqueues = Enqueues(center, ring)
        self._items: queue.SimpleQueue[Item | None] = queue.SimpleQueue()
        self.call = Call()
        self.unwritten: set[tuple[int, int]] = set()
        self._refused: set[tuple[int, int]] = set()
        self._troubles, self._next_at = Troubles("writing ends of tasks"), 0.0
        self._enough = threading.Event()
        self._progress = LatestProgress(desk)
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def put(self, item: Finish | EnqueueRequest | ProgressReport) -> None:
        """Something to write, soon; an end counts as ``unwritten`` until SQL has taken it."""
        if isinstance(item, ProgressReport):
            if self._progress.note(item):
                self._items.put(LookAround())
            return
        if isinstance(item, EnqueueRequest):
            self.enqueues.put(item)
            return
        if isinstance(item, Finish):
            self.unwritten.add((item.task.id, item.task.attempt))
        self._items.put(item)
        if self._items.qsize() >= ENOUGH:
            self._enough.set()

    @property
    def ended(self) -> bool:
        """Whether it writes no more, after :meth:`start`."""
        return not self._thread.is_alive()

    def finish(self, seconds: float | None = None) -> bool:
        """Write what is left and end; False when that took longer than ``seconds``, twice."""
        self.enqueues.finish(seconds)
        self._items.put(None)
        self._enough.set()
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while True:
            batch, more = self._gather()
            self._write(batch)
            if not more:
                return

    def _gather(self) -> tuple[list[Item], bool]:
        try:
            first = self._items.get(timeout=self._progress.wait)
        except queue.Empty:
            return [], True
        if first is None:
            return [], False
        batch = [first]
        self._rest()
        while len(batch) < MOST:
            try:
                item = self._items.get_nowait()
            except queue.Empty:
                break
            if item is None:
                return batch, False
            batch.append(item)
        if self._items.qsize() < ENOUGH:
            self._enough.clear()
        return batch, True

    def _rest(self) -> None:
        """Let more come: a moment after a pause, and in a flow of ends until it is time again."""
        time.sleep(GATHER_SECONDS)
        self._enough.wait(max(0.0, self._next_at - monotonic()))
        self._next_at = monotonic() + PACE_SECONDS

    def _write(self, batch: Sequence[Item]) -> None:
        ends = [item for item in batch if isinstance(item, Finish)]
        if ends:
            with self.call("writing progress to SQL"):
                self._progress.write_last(ends)
            self._finish(ends)
            written = {(end.task.id, end.task.attempt) for end in ends}
            self.unwritten.difference_update(written - self._refused)
        with self.call("writing progress to SQL"):
            self._progress.write_if_due()

    def _finish(self, ends: Sequence[Finish], *, bare: bool = False) -> None:
        """Write until SQL has taken it: the row stays in status 2 till then, and nothing is lost."""
        given_back = self.desk.given_back
        while True:
            try:
                with self.call("writing ends of tasks to SQL"):
                    late = self.desk.finish(ends)
                break
            except (DatabaseUnavailable, CommitUnknown, SchemaError) as error:
                time.sleep(self._troubles.met(error))
            except Exception as error:  # noqa: BLE001 - an end that no database takes must not keep the others waiting
                self._one_by_one(ends, error, bare=bare)
                return
        self._troubles.over()
        if self.desk.given_back != given_back:
            self.ring(NO_TASK)
            self._next_at = (
                0.0  # an end of a task under a limit makes way for a start: the next is not kept waiting
            )
        self.tally.superseded += len(late)
        for end in late:
            log.warning("result discarded: superseded, the task is another attempt's now", extra=_fields(end))

    def _one_by_one(self, ends: Sequence[Finish], error: Exception, *, bare: bool) -> None:
        """Something in these ends cannot be written: find it, and write of it what can be."""
        if len(ends) > 1:
            for end in ends:
                self._finish([end])
        elif not bare:
            log.error("this end is written without its words: %s", error, extra=_fields(ends[0]))
            self._finish([_without_words(ends[0], error)], bare=True)
        else:
            told = "this end cannot be written, and its row stays in status 2: a person must mend it: %s"
            log.error(told, error, extra=_fields(ends[0]))
            self._refused.add((ends[0].task.id, ends[0].task.attempt))


def _without_words(end: Finish, error: Exception) -> Finish:
    note = f"{end.outcome.value}; what was said of it could not be written: {type(error).__name__}"
    failed = end.error is not None
    return replace(end, result=None, traceback=None, last_result=note, error=note if failed else None)


def _fields(end: Finish) -> dict[str, Any]:
    return {"task_id": end.task.id, "task_code": end.task.task_code, "attempt": end.task.attempt}
