"""The hub: the parent's main loop. Feeds children, hears what they say, judges their deaths."""

from __future__ import annotations

import contextlib
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
from taskkit.worker.ends import Ends, log_fields
from taskkit.worker.feeding import Feeder
from taskkit.worker.frames import Answer, Born, Died, Done, Enqueue, Progress
from taskkit.worker.frames import Finish as FinishChild
from taskkit.worker.groups import end_group
from taskkit.worker.limits import Limits
from taskkit.worker.nursery_link import NurseryLink
from taskkit.worker.pool import Pool
from taskkit.worker.progress import ProgressReport
from taskkit.worker.slots import Given, Slot, Verdict
from taskkit.worker.tally import Tally
from taskkit.worker.verdicts import UNKNOWN, Judge, death
from taskkit.worker.writer import EnqueueRequest, Writer

log = logging.getLogger("taskkit.worker")
TICK = 0.05
REBIRTH_PAUSE = 0.5
STOP_KILL_GRACE = 0.5
ORPHANS_PATIENCE = 0.5
STOPPING = Verdict(Outcome.HANDED_BACK, "handed back: the worker is stopping")
TOO_MUCH = Verdict(Outcome.HANDED_BACK, "handed back: the worker has enough to do")
CANCELLED = Verdict(Outcome.CANCELLED, "cancelled by a person")


class Hub:
    """Owns the children. Everything here runs in one thread; others talk to it through ``wake`` and queues."""

    def __init__(
        self, nursery: NurseryLink, pool: Pool, writer: Writer, judge: Judge, tally: Tally, settings: Worker
    ) -> None:
        self.nursery, self.pool, self.writer, self.settings = nursery, pool, writer, settings
        self.slots: dict[int, Slot] = {}
        self.handlers = judge.handlers
        self.feeder = Feeder(settings, judge.handlers)
        self.ends = Ends(writer, judge, tally)
        self.limits = Limits(self.slots, nursery, pool, settings.kill_grace_s)
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
        self.limits.keep(now)
        for slot in self.slots.values():
            slot.flush()
            self._retire_if_due(slot)
        if feeding:
            self._give_birth(now)
            self.feed(now)

    def feed(self, now: float) -> None:
        """Give waiting tasks to children and say how many more are wanted."""
        slots = list(self.slots.values())
        self.feeder.share_back(slots, now, self.pool.put_first)
        waiting = self.pool.take_all()
        if waiting:
            left = self.feeder.place([task for task in waiting if self._is_known(task)], slots, now)
            excess = self.feeder.excess(left, slots)
            self.pool.put_first(task for task in left if task.id not in excess)
            for task in left:
                if task.id in excess:
                    self.ends.unstarted(task, TOO_MUCH)
        self.pool.set_room(self.feeder.room(slots, now))

    def _is_known(self, task: Claimed) -> bool:
        """Whether there is a handler; without one the attempt fails here and now."""
        known = task.task_code in self.handlers
        if not known:
            self.ends.unstarted(task, Verdict(Outcome.FAILED, UNKNOWN.format(code=task.task_code)))
        return known

    def hand_back_unstarted(self) -> None:
        """Give back all tasks that no handler has begun."""
        for task in self.pool.take_all():
            self.ends.unstarted(task, STOPPING)
        for slot in self.slots.values():
            for given in slot.take_back():
                self.ends.unstarted(given.task, STOPPING)

    @property
    def running(self) -> list[Given]:
        """What the children hold, oldest first."""
        return [given for slot in list(self.slots.values()) for given in list(slot.jobs.values())]

    def end_running(self) -> None:
        """End the children that still run something; their tasks are handed back."""
        for slot in self.slots.values():
            if slot.jobs and not slot.ending:
                for seq in slot.jobs:
                    slot.verdicts[seq] = STOPPING
                self.limits.end_child(slot, STOP_KILL_GRACE)

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
        for slot in list(self.slots.values()):
            if slot.pid is not None:
                end_group(slot.pid, ORPHANS_PATIENCE)
            self._died(slot.number, -signal.SIGKILL)
        try:
            self.nursery.restart()
        except AppError:
            log.exception("the application can no longer be loaded; ending this worker")
            os.kill(os.getpid(), signal.SIGTERM)
            return
        self._watch_nursery()

    def _died(self, number: int, code: int) -> None:
        slot = self.slots.pop(number)
        self._hear(slot)
        self._unwatch(slot)
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
                self.ends.by_verdict(slot, given, verdict)
            elif given not in begun:
                self.pool.put_first([given.task])
            elif crashed and len(begun) == 1:
                log.error("child %s died: %s", slot.pid, death(code), extra=log_fields(given.task))
                self.ends.by_verdict(slot, given, Verdict(Outcome.FAILED, death(code)))
            else:
                others = Verdict(Outcome.HANDED_BACK, f"its child ended: {death(code)}")
                self.ends.by_verdict(slot, given, others, suspect=True)

    # what children say

    def _on_wake(self, _events: int) -> None:
        frames.receive(self._wake_out)

    def _on_child(self, slot: Slot) -> None:
        """Something from a child, if it has not died within this turn; at its end the nursery says why."""
        if slot.number in self.slots and not self._hear(slot):
            self._unwatch(slot)

    def _hear(self, slot: Slot) -> bool:
        """Take in what a child has said; False when there is nothing more to come."""
        slot.flush()
        while data := frames.receive(slot.sock):
            for body in slot.unpacker.feed(data):
                self._take(slot, frames.from_child.decode(body))
        return data is None

    def _unwatch(self, slot: Slot) -> None:
        with contextlib.suppress(KeyError):
            self._selector.unregister(slot.sock)

    def _take(self, slot: Slot, frame: Any) -> None:
        if isinstance(frame, Done):
            self._done(slot, frame)
        elif isinstance(frame, Enqueue):
            self.writer.put(EnqueueRequest(frame.tasks, lambda answer: self._reply(slot.number, answer)))
        elif isinstance(frame, Progress) and frame.seq in slot.jobs:
            given = slot.jobs[frame.seq]
            self.writer.put(ProgressReport(given.task.id, given.task.attempt, frame.fraction, frame.text))

    def _done(self, slot: Slot, done: Done) -> None:
        if done.seq in slot.verdicts:
            return
        given = slot.settle(done.seq)
        if given is None:
            return
        slot.served += 1
        self.feeder.learn(given.task.task_code, done.ended - done.started)
        self.ends.by_child(slot, given, done)
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

    def _carry_out_cancels(self) -> None:
        wanted = {self._cancels.popleft() for _ in range(len(self._cancels))}
        if not wanted:
            return
        for slot in list(self.slots.values()):
            for given in reversed(slot.take_back()):
                if (given.task.id, given.task.attempt) in wanted:
                    self.ends.unstarted(given.task, CANCELLED)
                else:
                    self.pool.put_first([given.task])
            for given in list(slot.jobs.values()):
                if (given.task.id, given.task.attempt) in wanted:
                    self.limits.stop(slot, given, CANCELLED, monotonic())
