"""Ending jobs before their time: when their limit is over, when a person cancels them, when the worker stops."""

from __future__ import annotations

import signal
from collections.abc import Mapping

from taskkit.clock import monotonic
from taskkit.states import Outcome
from taskkit.worker.frames import Cancel
from taskkit.worker.nursery_link import NurseryLink
from taskkit.worker.pool import Pool
from taskkit.worker.slots import Given, ParentVerdict, Slot

DEAF_PATIENCE = 1.0


class Limits:
    """Async handlers are cancelled first; for any other, and for one that does not answer, its child is ended."""

    def __init__(
        self, slots: Mapping[int, Slot], nursery: NurseryLink, pool: Pool, kill_grace: float
    ) -> None:
        self.slots, self.nursery, self.pool, self.kill_grace = slots, nursery, pool, kill_grace

    def keep(self, now: float) -> None:
        """Stop the jobs whose time is over, and kill the children that were asked to end and did not."""
        for slot in self.slots.values():
            for given in slot.perhaps_running():
                started = slot.started(given)
                if started is not None and now - started > given.job.timeout:
                    text = f"timeout: still running after {given.job.timeout:g} s"
                    self.stop(slot, given, ParentVerdict(Outcome.TIMEOUT, text), now)
            if slot.deaf_at is not None and now - slot.deaf_at > DEAF_PATIENCE:
                self.kill_broken(
                    slot, "its connection to the worker was closed, with all descriptors perhaps"
                )
            if slot.kill_at is not None and now >= slot.kill_at:
                slot.kill_at = now + 1.0
                self.nursery.kill(slot.number, signal.SIGKILL)

    def stop(self, slot: Slot, given: Given, verdict: ParentVerdict, now: float) -> None:
        """Stop one job, and say ``verdict`` of it."""
        if given.job.seq in slot.verdicts:
            return
        if given.job.mode == "async":
            if given.cancel_sent is None:
                given.cancel_sent, given.verdict = now, verdict
                slot.post(Cancel(given.job.seq, verdict.outcome.value))
                return
            if now - given.cancel_sent < self.kill_grace:
                return
        slot.verdicts[given.job.seq] = verdict
        self.end_child(slot, self.kill_grace)

    def kill_broken(self, slot: Slot, cause: str) -> None:
        """Kill a child that can no longer be talked to, unless it is on its way out anyway."""
        if slot.cause is None and not slot.ending:
            slot.cause, slot.ending, slot.kill_at = (
                f"the child process was killed: {cause}",
                True,
                monotonic(),
            )

    def end_child(self, slot: Slot, grace: float) -> None:
        """End a child: asked first, killed after ``grace`` seconds; what it has not begun goes to others at once."""
        if slot.ending:
            return
        slot.ending = True
        slot.asked_at = monotonic()
        slot.kill_at = slot.asked_at + grace
        self.pool.put_first(given.task for given in slot.take_back())
        self.nursery.kill(slot.number, signal.SIGTERM)
