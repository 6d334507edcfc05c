"""The hub: the parent's main loop. Feeds children, hears what they say, judges their deaths."""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import selectors
import signal
import socket
import time
from collections import deque

from taskkit.clock import monotonic
from taskkit.errors import AppError
from taskkit.model import Claimed
from taskkit.settings import Worker
from taskkit.states import Outcome
from taskkit.worker import frames
from taskkit.worker.cancels import Cancels
from taskkit.worker.crew import Crew
from taskkit.worker.deaths import Deaths
from taskkit.worker.ends import Ends
from taskkit.worker.feeding import Feeder
from taskkit.worker.frames import Born, Died
from taskkit.worker.hearing import Hearing
from taskkit.worker.limits import Limits
from taskkit.worker.nursery_link import NurseryLink
from taskkit.worker.pool import Pool
from taskkit.worker.slots import Given, ParentVerdict, Slot
from taskkit.worker.strays import end_orphans
from taskkit.worker.tally import Tally
from taskkit.worker.verdicts import UNKNOWN, Judge
from taskkit.worker.workload import Workload
from taskkit.worker.writer import Writer

log = logging.getLogger("taskkit.worker")
TICK = 0.05
FEED_PAUSE = 0.01
"""While every child has something to run, their room is looked at no sooner than so long after the last look."""
FED = 8
PACE = 0.001
"""While every child has more than FED jobs, the loop rests for PACE seconds between its turns."""
STOP_KILL_GRACE = 0.5
READS_A_TURN = 16
ORPHANS_PATIENCE = 0.5
STOPPING = ParentVerdict(Outcome.HANDED_BACK, "handed back: the worker is stopping")
TOO_MUCH = ParentVerdict(Outcome.HANDED_BACK, "handed back: the worker has enough to do")


class Hub:
    """Owns the children, in the worker's main thread: ``turn`` and whatever it calls run there.

    Other threads come in by these doors only. ``wake``, ``cancel`` and ``staff`` leave a word for the next turn, and
    ``inventory`` waits for it; ``retire`` sets a flag; ``running``, ``slots``, ``turns`` and the load of
    ``workload`` may be read, as of now and
    perhaps in the middle of a turn; ``ends`` passes on to the writer, which is made for it. ``abandon``, by which a
    stuck worker leaves, acts at once, since no turn will come.
    """

    def __init__(
        self, nursery: NurseryLink, pool: Pool, writer: Writer, judge: Judge, tally: Tally, settings: Worker
    ) -> None:
        self.nursery, self.pool, self.writer, self.settings = nursery, pool, writer, settings
        self.slots: dict[int, Slot] = {}
        self.judge, self.handlers = judge, judge.handlers
        self.feeder = Feeder(settings, judge.handlers)
        self.ends = Ends(writer, judge, tally)
        self.limits = Limits(self.slots, nursery, pool, settings.kill_grace_s)
        self.cancels = Cancels(self.slots, pool, self.ends, self.limits)
        self.deaths = Deaths(self.ends, pool)
        self.hearing = Hearing(self.slots, self.feeder, self.ends, self.limits, writer, self.wake)
        self.turns, self._round_at, self._fed_at = 0, 0.0, 0.0
        self._inventories: deque[queue.SimpleQueue[set[tuple[int, int]]]] = deque()
        self._selector = selectors.DefaultSelector()
        self._wake_in, self._wake_out = socket.socketpair()
        self._wake_in.setblocking(False)
        self._wake_out.setblocking(False)
        self.crew = Crew(self.slots, nursery, pool, settings, self.feeder.at_once, self._watch_child)
        self.workload = Workload(self.slots, pool, self.feeder) if settings.scales else None
        self._staff: deque[int] = deque()
        self._abandoned = False
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
        self.cancels.ask(task_id, attempt)
        self.wake()

    def open(self) -> None:
        """Let the children be born."""
        self.crew.open()

    def staff(self, wanted: int) -> None:
        """Have so many children from the next turn on; from any thread."""
        self._staff.append(wanted)
        self.wake()

    def turn(self, *, feeding: bool) -> None:
        """One turn of the loop: at most TICK seconds when nothing happens."""
        if self._all_are_fed():
            time.sleep(PACE)
        for key, events in self._selector.select(TICK):
            key.data(events)
        self.hearing.answer()
        self.cancels.carry_out()
        now = monotonic()
        for slot in self.slots.values():
            if slot.outbox:
                slot.flush()
        if now >= self._round_at:
            self._go_round(now)
        if feeding:
            while self._staff:
                self.crew.staff(self._staff.popleft())
            self.crew.give_birth(now)
            self.feed(now)
        if self.workload is not None:
            self.workload.sample(now)
        self.turns += 1
        while self._inventories:
            self._inventories.popleft().put(self._holds())

    def _go_round(self, now: float) -> None:
        """Look after every child, whatever happened: their number must not make each turn dear."""
        self._round_at = now + TICK
        self.limits.keep(now)
        for slot in self.slots.values():
            self.hearing.retire_if_due(slot)

    def _all_are_fed(self) -> bool:
        """Nobody starves for a moment: then many ends are taken in at once, instead of waking up for each."""
        return bool(self.slots) and all(len(slot.jobs) > FED for slot in self.slots.values())

    def inventory(self, seconds: float) -> set[tuple[int, int]] | None:
        """What pool and children hold, as (id, attempt), between two turns; None when none came; from another thread."""
        answer: queue.SimpleQueue[set[tuple[int, int]]] = queue.SimpleQueue()
        self._inventories.append(answer)
        self.wake()
        with contextlib.suppress(queue.Empty):
            return answer.get(timeout=seconds)
        return None

    def _holds(self) -> set[tuple[int, int]]:
        tasks = [*self.pool.tasks, *(given.task for given in self.running)]
        return {(task.id, task.attempt) for task in tasks}

    def feed(self, now: float) -> None:
        """Give waiting tasks to children and say how many more are wanted.

        Not after every end: while all have something to run, once in FEED_PAUSE is enough.
        """
        slots = list(self.slots.values())
        if now < self._fed_at + FEED_PAUSE and not len(self.pool) and not self.feeder.one_starves(slots):
            return
        self._fed_at = now
        self.feeder.share_back(slots, now, self.pool.put_first)
        waiting = self.pool.take_all()
        left = self.feeder.place([task for task in waiting if self._is_known(task)], slots, now)
        if left:
            excess = self.feeder.excess(left, slots, now)
            self.pool.put_first(task for task in left if task.id not in excess)
            for task in left:
                if task.id in excess:
                    self.ends.unstarted(task, TOO_MUCH)
        self.pool.set_room(self.feeder.room(slots, now), hurry=self.feeder.one_starves(slots))

    def _is_known(self, task: Claimed) -> bool:
        """Whether there is a handler; without one the attempt fails here and now."""
        known = task.task_code in self.handlers
        if not known:
            self.ends.unstarted(task, ParentVerdict(Outcome.FAILED, UNKNOWN.format(code=task.task_code)))
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
        """What the children hold, oldest first; from any thread."""
        return [given for slot in list(self.slots.values()) for given in list(slot.jobs.values())]

    @property
    def held(self) -> list[tuple[Given, bool]]:
        """The same, each with whether its handler has begun."""
        slots = list(self.slots.values())
        return [(given, slot.has_begun(given)) for slot in slots for given in list(slot.jobs.values())]

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
        """Replace a child when its jobs are done; from any thread."""
        slot = self.slots.get(number)
        if slot is not None:
            slot.retiring = True

    # births and deaths

    def _watch_nursery(self) -> None:
        self._selector.register(self.nursery.sock, selectors.EVENT_READ, self._on_nursery)

    def _watch_child(self, slot: Slot) -> None:
        self._selector.register(slot.sock, selectors.EVENT_READ, lambda _: self._on_child(slot))

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
        """All children die with it, and what they had started is ended; a new one takes its place."""
        if self._abandoned:
            return
        log.error("the nursery has died; starting a new one")
        self._selector.unregister(self.nursery.sock)
        code = self.nursery.end()
        slots = list(self.slots.values())
        for slot in slots:
            self.hearing.hear(slot)
        self._end_orphans()
        self.deaths.of_nursery(slots, code)
        for slot in slots:
            self._died(slot.number, code)
        try:
            self.nursery.restart()
        except AppError:
            log.exception("the application can no longer be loaded; ending this worker")
            os.kill(os.getpid(), signal.SIGTERM)
            return
        self.judge.learn(self.nursery.hello.handlers)
        self._watch_nursery()

    def _end_orphans(self) -> None:
        groups = [slot.pid for slot in list(self.slots.values()) if slot.pid is not None]
        end_orphans(self.nursery.worker_id, groups, ORPHANS_PATIENCE)

    def abandon(self) -> None:
        """End nursery, children and what they started at once; from any thread, when the loop does not turn."""
        self._abandoned = True
        self.nursery.process.kill()
        self._end_orphans()

    def _died(self, number: int, code: int) -> None:
        slot = self.slots.pop(number)
        self.hearing.hear(slot)
        self._unwatch(slot)
        self.deaths.of_child(slot, code)
        slot.close()
        self.crew.died(slot)

    def _on_wake(self, _events: int) -> None:
        frames.receive(self._wake_out)

    def _on_child(self, slot: Slot) -> None:
        """Something from a child, if it has not died within this turn; at its end the nursery says why."""
        if slot.number in self.slots and not self.hearing.hear(slot, READS_A_TURN):
            self._unwatch(slot)
            slot.deaf_at = monotonic()

    def _unwatch(self, slot: Slot) -> None:
        with contextlib.suppress(KeyError):
            self._selector.unregister(slot.sock)
