"""A worker that is stuck: notices it, writes down where everything stands, and exits for its supervisor to start it again.

Runs in a thread of its own and needs no store: whatever it does may be what is stuck, so each step has its time.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Hashable

from taskkit.center import TaskCenter
from taskkit.clock import monotonic
from taskkit.texts import cut_middle
from taskkit.worker.hub import Hub
from taskkit.worker.nursery_link import NurseryLink
from taskkit.worker.puller import Puller
from taskkit.worker.slots import Given, Slot
from taskkit.worker.stacks import own_stacks, stacks_of
from taskkit.worker.tally import Tally
from taskkit.worker.watch import Call, Watched, Watcher
from taskkit.worker.writer import Writer

log = logging.getLogger("taskkit.worker")
EXIT_CODE = 70
STACKS_SECONDS = 2.0
STEP_SECONDS = 5.0
OVERTIME = 10.0
"""Seconds beyond its time limit and the grace for killing after which a task no longer counts as running."""
STACKS_BYTES = 1_000_000


class StuckExit:
    """What is watched in a worker, and how it leaves."""

    def __init__(
        self,
        worker_id: str,
        center: TaskCenter,
        heart: TaskCenter,
        hub: Hub,
        puller: Puller,
        writer: Writer,
        beats: Call,
        tally: Tally,
        stopping: Callable[[], bool],
    ) -> None:
        self.worker_id, self.center, self.heart, self.hub, self.puller, self.writer = (
            worker_id,
            center,
            heart,
            hub,
            puller,
            writer,
        )
        self.tally, self.stopping = tally, stopping
        self.nursery: NurseryLink = hub.nursery
        self.looping = True
        things = [
            Watched(lambda: "its main loop does not turn", self._loop),
            self._thread("puller", puller.call, center, lambda: puller.ended),
            self._thread("writer", writer.call, center, lambda: writer.ended),
            self._thread("enqueueing", writer.enqueues.call, center, lambda: writer.enqueues.ended),
            self._thread("heartbeat", beats, heart, lambda: False),
            Watched(
                lambda: "work waits, nothing moves, and no task runs within its time limit", self._in_vain
            ),
            Watched(lambda: "no child can be given work", self._childless),
        ]
        self.watcher = Watcher(things, hub.settings.stuck_s, self.leave)

    def leave(self, why: str) -> None:
        """Tell where everything stands, in the log and in this worker's row; end all that is ours, and exit."""
        stacks: dict[str, str] = {}
        _within(STEP_SECONDS, lambda: stacks.update(self._stacks()))
        _within(STEP_SECONDS, lambda: _tell(why, stacks))
        text = "\n\n".join([f"stuck: {why}", *(f"== {name}\n{said}" for name, said in stacks.items())])
        _within(STEP_SECONDS, lambda: self._write(cut_middle(text, STACKS_BYTES)))
        _within(STEP_SECONDS, self.hub.abandon)
        os._exit(EXIT_CODE)

    def _thread(self, name: str, call: Call, center: TaskCenter, ended: Callable[[], bool]) -> Watched:
        """A thread that must come back from its calls; an error that SQL gave inside one of them is an answer too."""

        def pulse() -> Hashable | None:
            if ended() and not self.stopping():
                return "ended"
            number = call.pulse()
            return None if number is None else (number, center.database.counters.total())

        return Watched(lambda: _waits(name, call), pulse)

    def _loop(self) -> Hashable | None:
        """At the end of a stop, and while the nursery loads the application again, the loop rests on purpose."""
        return self.hub.turns if self.looping and not self.nursery.loading else None

    def _in_vain(self) -> Hashable | None:
        given = [(slot, one) for slot in list(self.hub.slots.values()) for one in list(slot.jobs.values())]
        if self.nursery.loading or (not given and not len(self.hub.pool)):
            return None
        return None if any(self._runs(slot, one) for slot, one in given) else (self.tally.processed,)

    def _runs(self, slot: Slot, given: Given) -> bool:
        try:
            started = slot.started(given)
        except ValueError:  # it has died this instant
            return True
        limit = given.job.timeout + self.hub.settings.kill_grace_s + OVERTIME
        return started is not None and monotonic() - started < limit

    def _childless(self) -> Hashable | None:
        """Births that never come; while there is one child to be had, work that waits is seen above."""
        slots = list(self.hub.slots.values())
        if self.stopping() or self.nursery.loading or any(slot.pid is not None for slot in slots):
            return None
        return (len(slots), *(slot.number for slot in slots))

    def _stacks(self) -> dict[str, str]:
        children = {
            f"child {slot.number}, pid {slot.pid}": (slot.stacks, slot.pid, self.nursery.process.pid)
            for slot in list(self.hub.slots.values())
            if slot.pid is not None
        }
        nursery = {
            f"nursery, pid {self.nursery.process.pid}": (
                self.nursery.stacks,
                self.nursery.process.pid,
                os.getpid(),
            )
        }
        return {f"worker, pid {os.getpid()}": own_stacks()} | stacks_of(nursery | children, STACKS_SECONDS)

    def _write(self, text: str) -> None:
        """Over the heartbeat's connection while that is free; else over one more, since all may be stuck."""
        if not self.heart.database.in_use:
            self.heart.nodes.write_stacks(self.worker_id, text)
            return
        apart = self.center.apart(read_timeout=STEP_SECONDS)
        try:
            apart.nodes.write_stacks(self.worker_id, text)
        finally:
            apart.close()


def _waits(who: str, call: Call) -> str:
    inside = call.inside
    return (
        f"its {who} thread has ended"
        if inside is None
        else f"its {who} thread does not come back from {inside}"
    )


def _tell(why: str, stacks: dict[str, str]) -> None:
    log.critical("this worker is stuck (%s) and exits with %s, to be started again", why, EXIT_CODE)
    for name, said in stacks.items():
        log.critical("the stacks of %s", name, extra={"stacks": said})


def _within(seconds: float, act: Callable[[], None]) -> None:
    """Do something that may itself get stuck, for so long at most."""

    def carefully() -> None:
        try:
            act()
        except Exception as error:  # noqa: BLE001 - the way out must not end here
            log.critical("on the way out: %s: %s", type(error).__name__, error)

    thread = threading.Thread(target=carefully, name="way out", daemon=True)
    thread.start()
    thread.join(seconds)
