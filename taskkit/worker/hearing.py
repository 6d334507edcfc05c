"""What children say: ends of jobs, progress, tasks to be written; and what they are told in return."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from taskkit.worker import frames
from taskkit.worker.ends import Ends
from taskkit.worker.enqueues import EnqueueRequest
from taskkit.worker.feeding import Feeder
from taskkit.worker.frames import Done, Enqueue, EnqueueAnswer, ExitWhenIdle, Progress
from taskkit.worker.limits import Limits
from taskkit.worker.progress import ProgressReport
from taskkit.worker.slots import Slot
from taskkit.worker.writer import Writer

log = logging.getLogger("taskkit.worker")
MANY = 1 << 30


class Hearing:
    """Takes in what children have said, in the hub's thread; ``wake`` has the hub come round for an answer."""

    def __init__(
        self,
        slots: Mapping[int, Slot],
        feeder: Feeder,
        ends: Ends,
        limits: Limits,
        writer: Writer,
        wake: Callable[[], None],
    ) -> None:
        self.slots, self.feeder, self.ends, self.limits = slots, feeder, ends, limits
        self.writer, self.wake = writer, wake
        self._answers: deque[tuple[int, EnqueueAnswer]] = deque()

    def hear(self, slot: Slot, reads: int = MANY) -> bool:
        """Take in what a child has said, in so many reads at most; False when there is nothing more to come."""
        slot.flush()
        for _ in range(reads):
            data = frames.receive(slot.sock)
            if not data:
                return data is None
            try:
                for body in slot.unpacker.feed(data):
                    self._take(slot, frames.from_child.decode(body))
            except Exception:  # a handler may write anything into its child's pipe
                log.exception("child %s says what cannot be read", slot.pid)
                self.limits.kill_broken(slot, "what it sent to the worker cannot be read")
                return False
            if len(data) < frames.CHUNK and reads != MANY:
                break
        return True

    def _take(self, slot: Slot, frame: Any) -> None:
        if isinstance(frame, Done):
            self._done(slot, frame)
        elif isinstance(frame, Enqueue):
            self.writer.put(EnqueueRequest(frame.tasks, lambda answer: self._reply(slot.number, answer)))
        elif isinstance(frame, Progress) and frame.seq in slot.jobs:
            given = slot.jobs[frame.seq]
            self.writer.put(ProgressReport(given.task.id, given.task.attempt, frame.fraction, frame.text))

    def _done(self, slot: Slot, done: Done) -> None:
        if done.seq in slot.verdicts and (slot.asked_at is None or done.ended >= slot.asked_at):
            return  # not of its own: it was ended, and why is known already
        slot.verdicts.pop(done.seq, None)
        given = slot.settle(done.seq)
        if given is None:
            return
        slot.served += 1
        self.feeder.learn(given.task.task_code, done.ended - done.started)
        self.ends.by_child(slot, given, done)
        self.retire_if_due(slot)

    def retire_if_due(self, slot: Slot) -> None:
        """A child that has served its number of tasks, or is one too many, is ended when it has nothing to do."""
        limit = self.feeder.settings.max_tasks_per_child
        if limit and slot.served >= limit:
            slot.retiring = True
        if (slot.retiring or slot.leaving) and not slot.jobs and not slot.ending:
            slot.ending = True
            slot.post(ExitWhenIdle())

    def _reply(self, number: int, answer: EnqueueAnswer) -> None:
        """From the writer's thread: the answer goes out in the loop."""
        self._answers.append((number, answer))
        self.wake()

    def answer(self) -> None:
        """Send the answers that have come since."""
        while self._answers:
            number, answer = self._answers.popleft()
            slot = self.slots.get(number)
            if slot is not None:
                slot.post(answer)
