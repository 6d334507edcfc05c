"""Tests of an application without servers: tasks run in this process, by a clock that the test moves.

    def test_reminder():
        with Sandbox(kit) as box:
            task_id = remind.options(delay=3600).enqueue(user=7)
            box.advance(3599)
            assert box.task(task_id).status.label == "pending"
            box.advance(1)
            assert box.result(task_id) == "sent"

Everything but the processes is real: the same statements on a SQLite file of the test's own, the same dispatch,
claim, retry and cron rules. Not so: time limits are not enforced, and a handler that ends the process ends the test.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from taskkit.app import add_builtins
from taskkit.center import PlanRules, TaskCenter
from taskkit.clock import as_utc
from taskkit.context import RunContext
from taskkit.errors import InputError
from taskkit.kit import Taskkit
from taskkit.model import Claimed, Finish, Message, Occurrence, Run, Task
from taskkit.queues import MemoryQueue, Order
from taskkit.scheduler.dispatcher import Dispatcher
from taskkit.shards import portions
from taskkit.states import Outcome
from taskkit.worker.nursery import hello
from taskkit.worker.perform import Ended, perform, perform_async
from taskkit.worker.verdicts import UNKNOWN, Judge

START = datetime(2026, 1, 1, tzinfo=UTC)
MOST_STEPS = 100_000


class _NoJitter(random.Random):
    def random(self) -> float:
        return 0.0


class Sandbox:
    """A private installation for one test; while it is open, the kit's handlers enqueue into it."""

    def __init__(self, kit: Taskkit, start: datetime = START) -> None:
        if start.tzinfo is None:
            raise InputError("start", "must have a time zone, such as datetime(2026, 1, 1, tzinfo=UTC)")
        self.kit = kit
        self.now = as_utc(start)
        self._folder = tempfile.TemporaryDirectory(prefix="taskkit-sandbox-")

    def __enter__(self) -> Self:
        settings = self.kit.settings
        rules = PlanRules(settings.timezone, settings.default_queue, settings.scheduler.misfire_grace_s)
        url = f"sqlite:///{Path(self._folder.name) / 'sandbox.db'}"
        self.center = TaskCenter(url, rules=rules, clock=lambda: self.now)
        self.center.upgrade_schema()
        self._order = Order()
        self.queue = MemoryQueue(order=self._order)
        add_builtins(self.kit)
        self._doors = self.kit.replace_doors(self.center, self.queue)
        self._dispatcher = Dispatcher(self.center, self.queue, settings.scheduler)
        self._desk = self.center.worker_desk("sandbox:0:0")
        self._judge = Judge({info.code: info for info in hello(self.kit).handlers}, _NoJitter())
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.kit.replace_doors(*self._doors)
        self.center.close()
        self._folder.cleanup()

    def run(self) -> int:
        """Run everything that is due now, and what that enqueues; returns how many attempts ran."""
        ran = 0
        for _ in range(MOST_STEPS):
            batch = self._step()
            ran += batch
            if not batch:
                return ran
        raise RuntimeError(
            f"still something to run after {MOST_STEPS} rounds: does a task enqueue itself for ever?"
        )

    def advance(self, seconds: float) -> int:
        """Move the clock, stopping at every instant at which something is due; returns how many attempts ran."""
        return self.advance_to(self.now + timedelta(seconds=seconds))

    def advance_to(self, instant: datetime) -> int:
        """Move the clock to an aware instant, as :meth:`advance` does."""
        until = as_utc(instant)
        if until < self.now:
            raise InputError(
                "instant", f"{until.isoformat()} is before the sandbox's now, {self.now.isoformat()}"
            )
        ran = self.run()
        while (due := self._next_due()) is not None and due <= until:
            self.now = max(due, self.now)
            ran += self.run()
        self.now = until
        return ran

    def task(self, task_id: int) -> Task:
        """The task's row as it is now."""
        return self.center.read.task(task_id)

    def runs(self, task_id: int) -> list[Run]:
        """The attempts of a task that have ended, in order."""
        return self.center.read.runs([task_id])

    def occurrences(self, task_id: int) -> list[Occurrence]:
        """The planned fire times of a periodic task, in order."""
        return sorted(self.center.read.occurrences(task_id, 1000), key=lambda o: o.planned_at)

    def result(self, task_id: int) -> Any:
        """What the handler returned; raises TaskFailed, TaskCancelled, or ResultTimeout when it has not ended."""
        return self.kit.result(task_id, timeout=0)

    def _step(self) -> int:
        self.center.plan.sweep()
        self._dispatcher.scan()
        lists, _ = self.center.dispatch.due_lists()
        queues = sorted({one.queue for one in lists} | set(self.center.read.backlogs()))
        self._order.share(portions(self.center.shards.refresh(), queues, "", {}))
        pulled = self.queue.pull(queues, 100, 0) if queues else None
        if pulled is None or not pulled.messages:
            return 0
        return self._work([message for _, message in pulled.messages])

    def _work(self, messages: Sequence[Message]) -> int:
        claims = self._desk.claim(messages)
        for task in claims.won:
            self._desk.finish([self._finish(task)])
        return len(claims.won)

    def _finish(self, task: Claimed) -> Finish:
        started = self.now
        ended = self._perform(task)
        return self._judge.finish(
            task,
            ended.outcome,
            error=ended.error,
            traceback=ended.traceback,
            result=ended.result,
            line=ended.line,
            delay=ended.delay,
            started_at=started,
            finished_at=self.now,
            runtime=(self.now - started).total_seconds(),
        )

    def _perform(self, task: Claimed) -> Ended:
        handler = self.kit.registry.get(task.task_code)
        if handler is None:
            return Ended(Outcome.FAILED, error=UNKNOWN.format(code=task.task_code))
        run = RunContext(
            task_id=task.id,
            task_code=task.task_code,
            attempt=task.attempt,
            queue=task.queue,
            deadline=self.now + timedelta(seconds=task.timeout),
            trace_id=task.trace_id or f"task-{task.id}",
            occurrence_at=task.occurrence_at,
            report=lambda fraction, text: self._desk.progress([(task.id, task.attempt, fraction, text)]),
        )
        hooks, most = self.kit.registry.hooks, self.kit.settings.max_result_bytes
        if handler.is_async:
            return asyncio.run(perform_async(handler, run, task.payload, hooks, most))
        return perform(handler, run, task.payload, hooks, most)

    def _next_due(self) -> datetime | None:
        lists, _ = self.center.dispatch.due_lists()
        coming = [one.earliest for one in lists if one.earliest and one.earliest > self.now]
        if self.center.limits.active and (rest := self.center.granting.look().rest) is not None:
            coming.append(self.now + timedelta(seconds=rest))
        return min(coming, default=None)
