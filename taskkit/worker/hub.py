"""The hub: the parent's main loop. Feeds children, collects ends, keeps time limits, judges deaths."""

from __future__ import annotations

import logging
import os
import selectors
import signal
import socket
from collections import deque
from typing import Any

from taskkit.clock import monotonic
from taskkit.errors import AppError
from taskkit.model import Claimed
from taskkit.settings import Worker
from taskkit.states import Outcome
from taskkit.worker import frames
from taskkit.worker.feeding import Feeder
from taskkit.worker.frames import Answer, Born, Cancel, Died, Done, Enqueue, Progress
from taskkit.worker.frames import Finish as FinishChild
from taskkit.worker.nursery_link import NurseryLink
from taskkit.worker.pool import Pool
from taskkit.worker.slots import Given, Slot, Verdict
from taskkit.worker.tally import Tally
from taskkit.worker.verdicts import UNKNOWN, Judge, death
from taskkit.worker.writer import EnqueueRequest, ProgressReport, Writer

log = logging.getLogger("taskkit.worker")
TICK = 0.05
REBIRTH_PAUSE = 0.5
STOP_KILL_GRACE = 0.5
HANDED_BACK = "handed back: the worker is stopping"


class Hub:
    """Owns the children. Everything here runs in one thread; others talk to it through ``wake`` and queues."""

    def __init__(
        self, nursery: NurseryLink, pool: Pool, writer: Writer, judge: Judge, tally: Tally, settings: Worker
    ) -> None:
        self.nursery, self.pool, self.writer, self.judge, self.tally = nursery, pool, writer, judge, tally
        self.settings = settings
        self.slots: dict[int, Slot] = {}
        self.feeder = Feeder(settings, judge.handlers)
        self._selector = selectors.DefaultSelector()
        self._wake_in, self._wake_out = socket.socketpair()
        self._wake_in.setblocking(False)
        self._wake_out.setblocking(False)
        self._answers: deque[tuple[int, Answer]] = deque()
        self._cancels: deque[tuple[int, int]] = deque()
        self._next_number = 1
        self._births: list[float] = []
        self._selector.register(self._wake_out, selectors.EVENT_READ, self._on_wake)
        self._watch_nursery()

    def wake(self) -> None:
        """Let the loop look around now; from any thread, and in a signal handler."""
        try:
            self._wake_in.send(b"\0")
        except (BlockingIOError, OSError):
            return

    def cancel(self, task_id: int, attempt: int) -> None:
        """A person wants this attempt to end; from any thread."""
        self._cancels.append((task_id, attempt))
        self.wake()

    def open(self) -> None:
        """Let the children be born."""
        self._births = [0.0] * self.settings.processes

    def turn(self, *, feeding: bool) -> None:
        """One turn of the loop: at most TICK seconds when nothing happens."""
        for key, events in self._selector.select(TICK):
            key.data(events)
        self._answer()
        self._carry_out_cancels()
        now = monotonic()
        self._keep_time(now)
        self._give_birth(now)
        if feeding:
            self.feed(now)

    def feed(self, now: float) -> None:
        """Give waiting tasks to children and say how many more are wanted."""
        waiting = self.pool.take_all()
        slots = list(self.slots.values())
        if waiting:
            known = []
            for task in waiting:
                if task.task_code in self.judge.handlers:
                    known.append(task)
                else:
                    self._end(task, Outcome.FAILED, error=UNKNOWN.format(code=task.task_code))
            self.feeder.share_back(slots, now, self.pool.put_first)
            left = self.feeder.place(known, slots, now)
            self.pool.put_first(left)
        self.pool.set_room(self.feeder.room(slots, now))

    def hand_back_unstarted(self) -> None:
        """Give back all tasks that no handler has begun."""
        for task in self.pool.take_all():
            self._end(task, Outcome.HANDED_BACK, line=HANDED_BACK)
        for slot in self.slots.values():
            for given in slot.take_back():
                self._end(given.task, Outcome.HANDED_BACK, line=HANDED_BACK)

    @property
    def running(self) -> list[Given]:
        """What the children hold, oldest first."""
        return [given for slot in list(self.slots.values()) for given in list(slot.jobs.values())]

    def end_running(self) -> None:
        """End the children that still run something; their tasks are handed back."""
        for slot in self.slots.values():
            if slot.jobs and not slot.ending:
                for seq in slot.jobs:
                    slot.verdicts[seq] = Verdict(Outcome.HANDED_BACK, HANDED_BACK)
                self._begin_ending(slot, STOP_KILL_GRACE)

    def close(self) -> None:
        """End all children and the nursery."""
        self.nursery.end()
        for slot in self.slots.values():
            slot.close()
        self._selector.close()
        self._wake_in.close()
        self._wake_out.close()

    def retire(self, number: int) -> None:
        """Replace a child when its jobs are done."""
        slot = self.slots.get(number)
        if slot is not None:
            slot.retiring = True

    # births and deaths

    def _watch_nursery(self) -> None:
        self._selector.register(self.nursery.sock, selectors.EVENT_READ, self._on_nursery)

    def _give_birth(self, now: float) -> None:
        due = [at for at in self._births if at <= now]
        self._births = [at for at in self._births if at > now]
        for _ in due:
            places = max(self.settings.async_concurrency, self.settings.threads, 1)
            slot, channel = Slot.create(self._next_number, places)
            self._next_number += 1
            self.slots[slot.number] = slot
            self.nursery.spawn(slot.number, channel, slot.marks.fd)
            self._selector.register(slot.sock, selectors.EVENT_READ, lambda _, s=slot: self._on_child(s))

    def _on_nursery(self, _events: int) -> None:
        said = self.nursery.receive()
        if said is None:
            self._nursery_died()
            return
        for frame in said:
            if isinstance(frame, Born):
                self.slots[frame.number].pid = frame.pid
            elif isinstance(frame, Died):
                self._died(frame.number, frame.code)

    def _nursery_died(self) -> None:
        """All children die with it; a new one is started. What they were running is judged one by one."""
        log.error("the nursery has died; starting a new one")
        self._selector.unregister(self.nursery.sock)
        self.nursery.end()
        for number in list(self.slots):
            self._died(number, -signal.SIGKILL)
        try:
            self.nursery = NurseryLink(self.nursery.app, self.nursery.threads, self.nursery.worker_id)
        except AppError:
            log.exception("the application can no longer be loaded; ending this worker")
            os.kill(os.getpid(), signal.SIGTERM)
            return
        self._watch_nursery()

    def _died(self, number: int, code: int) -> None:
        slot = self.slots.pop(number)
        self._on_child(slot)
        self._selector.unregister(slot.sock)
        self._judge_the_dead(slot, code)
        slot.close()
        calm = not slot.retiring and not slot.served and not slot.ending
        self._births.append(monotonic() + (REBIRTH_PAUSE if calm else 0.0))

    def _judge_the_dead(self, slot: Slot, code: int) -> None:
        """Every job of a dead child gets exactly one answer: its verdict, the blame, or another chance."""
        begun = [g for g in slot.jobs.values() if slot.has_begun(g)]
        crashed = not slot.verdicts
        for seq, given in list(slot.jobs.items()):
            verdict = slot.verdicts.get(seq)
            if verdict is not None:
                self._end_given(slot, given, verdict.outcome, verdict.error)
            elif given not in begun:
                self.pool.put_first([given.task])
            elif crashed and len(begun) == 1:
                log.error("child %s died: %s", slot.pid, death(code), extra=_fields(given.task))
                self._end_given(slot, given, Outcome.FAILED, death(code))
            else:
                self._end_given(
                    slot, given, Outcome.HANDED_BACK, f"its child ended: {death(code)}", suspect=True
                )

    # what children say

    def _on_wake(self, _events: int) -> None:
        frames.receive(self._wake_out)

    def _on_child(self, slot: Slot) -> None:
        slot.flush()
        while data := frames.receive(slot.sock):
            for body in slot.unpacker.feed(data):
                self._take(slot, frames.from_child.decode(body))

    def _take(self, slot: Slot, frame: Any) -> None:
        if isinstance(frame, Done):
            self._done(slot, frame)
        elif isinstance(frame, Enqueue):
            self.writer.put(EnqueueRequest(frame.tasks, lambda answer: self._reply(slot.number, answer)))
        elif isinstance(frame, Progress) and frame.seq in slot.jobs:
            given = slot.jobs[frame.seq]
            given.progress = (frame.fraction, frame.text)
            self.writer.put(ProgressReport(given.task.id, given.task.attempt, frame.fraction, frame.text))

    def _done(self, slot: Slot, done: Done) -> None:
        if done.seq in slot.verdicts:
            return
        given = slot.settle(done.seq)
        if given is None:
            return
        slot.served += 1
        self.feeder.learn(given.task.task_code, done.ended - done.started)
        outcome = Outcome(done.outcome)
        self._end(
            given.task,
            outcome,
            error=done.error,
            traceback=done.traceback,
            result=done.result,
            line=done.line,
            delay=done.delay,
            started_at=self.tally.instant(done.started),
            finished_at=self.tally.instant(done.ended),
            runtime=done.ended - done.started,
            pid=slot.pid,
        )
        self._retire_if_due(slot)

    def _retire_if_due(self, slot: Slot) -> None:
        limit = self.settings.max_tasks_per_child
        if limit and slot.served >= limit:
            slot.retiring = True
        if slot.retiring and not slot.jobs and not slot.ending:
            slot.ending = True
            slot.post(FinishChild())

    def _reply(self, number: int, answer: Answer) -> None:
        """From the writer's thread: the answer goes out in the loop."""
        self._answers.append((number, answer))
        self.wake()

    def _answer(self) -> None:
        while self._answers:
            number, answer = self._answers.popleft()
            slot = self.slots.get(number)
            if slot is not None:
                slot.post(answer)

    # time limits and cancellations

    def _keep_time(self, now: float) -> None:
        for slot in self.slots.values():
            if slot.outbox:
                slot.flush()
            if slot.retiring and not slot.jobs:
                self._retire_if_due(slot)
            for given in list(slot.jobs.values()):
                started = slot.started(given)
                if started is not None and now - started > given.job.timeout:
                    text = f"timeout: still running after {given.job.timeout:g} s"
                    self._stop_job(slot, given, Verdict(Outcome.TIMEOUT, text), now)
            if slot.kill_at is not None and now >= slot.kill_at:
                slot.kill_at = now + 1.0
                self.nursery.kill(slot.number, signal.SIGKILL)

    def _stop_job(self, slot: Slot, given: Given, verdict: Verdict, now: float) -> None:
        """End one job: an async one is cancelled first, for any other its child is ended."""
        if given.job.seq in slot.verdicts:
            return
        if given.job.mode == "async":
            if given.cancel_sent is None:
                given.cancel_sent = now
                slot.post(Cancel(given.job.seq, verdict.outcome.value))
                return
            if now - given.cancel_sent < self.settings.kill_grace_s:
                return
        slot.verdicts[given.job.seq] = verdict
        self._begin_ending(slot, self.settings.kill_grace_s)

    def _begin_ending(self, slot: Slot, grace: float) -> None:
        if slot.ending:
            return
        slot.ending = True
        slot.kill_at = monotonic() + grace
        self.nursery.kill(slot.number, signal.SIGTERM)

    def _carry_out_cancels(self) -> None:
        wanted = {self._cancels.popleft() for _ in range(len(self._cancels))}
        if not wanted:
            return
        verdict = Verdict(Outcome.CANCELLED, "cancelled by a person")
        for slot in list(self.slots.values()):
            for given in slot.take_back():
                if (given.task.id, given.task.attempt) in wanted:
                    self._end(given.task, verdict.outcome, line=verdict.error)
                else:
                    self.pool.put_first([given.task])
            for given in list(slot.jobs.values()):
                if (given.task.id, given.task.attempt) in wanted:
                    self._stop_job(slot, given, verdict, monotonic())

    # ends

    def _end_given(
        self, slot: Slot, given: Given, outcome: Outcome, error: str, *, suspect: bool = False
    ) -> None:
        _, at = slot.marks.running(given.job.slot)
        started = at if slot.has_begun(given) and at else None
        now = monotonic()
        line = error if outcome in {Outcome.HANDED_BACK, Outcome.CANCELLED} else None
        self._end(
            given.task,
            outcome,
            error=None if line else error,
            line=line,
            started_at=None if started is None else self.tally.instant(started),
            finished_at=self.tally.instant(now),
            runtime=None if started is None else now - started,
            pid=slot.pid,
            suspect=suspect,
        )
        slot.settle(given.job.seq)

    def _end(self, task: Claimed, outcome: Outcome, **facts: Any) -> None:
        end = self.judge.finish(task, outcome, **facts)
        good = outcome is Outcome.SUCCESS
        self.tally.processed += 1
        self.tally.failed += outcome in {Outcome.FAILED, Outcome.TIMEOUT, Outcome.GIVEN_UP}
        self.tally.last_progress = monotonic()
        level = (
            logging.INFO if good or outcome in {Outcome.HANDED_BACK, Outcome.CANCELLED} else logging.WARNING
        )
        if log.isEnabledFor(level):
            extra = {**_fields(task), "outcome": outcome.value, "runtime_ms": end.runtime_ms}
            log.log(level, "%s%s", outcome.value, f": {end.error}" if end.error else "", extra=extra)
        self.writer.put(end)


def _fields(task: Claimed) -> dict[str, Any]:
    return {
        "task_id": task.id,
        "task_code": task.task_code,
        "attempt": task.attempt,
        "trace_id": task.trace_id,
    }
