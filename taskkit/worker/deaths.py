"""What becomes of the jobs of children that have died: one by one, or all at a blow with their nursery."""

from __future__ import annotations

import logging
import signal
from collections.abc import Sequence

from taskkit.states import Outcome
from taskkit.worker.ends import Ends, log_fields
from taskkit.worker.pool import Pool
from taskkit.worker.slots import Given, ParentVerdict, Slot
from taskkit.worker.verdicts import death

log = logging.getLogger("taskkit.worker")
NURSERY = "the nursery of this worker, and all its children with it"


class Deaths:
    """Every job of a dead child gets exactly one answer: its verdict, the blame, or another chance."""

    def __init__(self, ends: Ends, pool: Pool) -> None:
        self.ends, self.pool = ends, pool

    def of_child(self, slot: Slot, code: int) -> None:
        """A child and its process group are gone: it fails the one job that it was at."""
        begun, back = _begun(slot), []
        said = slot.cause if slot.cause and code == -signal.SIGKILL else death(code)
        for seq, given in list(slot.jobs.items()):
            verdict = slot.verdicts.get(seq)
            if verdict is not None:
                self.ends.by_verdict(slot, given, verdict)
            elif given not in begun:
                slot.settle(seq)
                back.append(given.task)
            elif len(begun) == 1 and not slot.verdicts:
                self._blame(slot, given, said)
            else:
                others = ParentVerdict(Outcome.HANDED_BACK, f"its child ended: {said}")
                self.ends.by_verdict(slot, given, others, suspect=True)
        self.pool.put_first(back)

    def of_nursery(self, slots: Sequence[Slot], code: int) -> None:
        """All children died at a blow: a job is to blame if it was the only one of the worker that had begun."""
        begun = [
            (slot, given) for slot in slots for given in _begun(slot) if given.job.seq not in slot.verdicts
        ]
        said = death(code, NURSERY)
        for slot, given in begun:
            if len(begun) == 1:
                self._blame(slot, given, said)
            else:
                self._lose(slot, given, said)
        for slot in slots:
            self.of_child(slot, code)

    def _blame(self, slot: Slot, given: Given, said: str) -> None:
        log.error("child %s died: %s", slot.pid, said, extra=log_fields(given.task))
        self.ends.by_verdict(slot, given, ParentVerdict(Outcome.FAILED, said))

    def _lose(self, slot: Slot, given: Given, said: str) -> None:
        """One of several that ran when the nursery died: which of them killed it cannot be told."""
        self.ends.by_verdict(slot, given, ParentVerdict(Outcome.LOST, f"it ran when this happened: {said}"))


def _begun(slot: Slot) -> list[Given]:
    return [given for given in slot.jobs.values() if slot.has_begun(given)]
