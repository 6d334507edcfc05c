"""The children of a worker: how many there are to be, who is born when, and who goes when there are too many."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from taskkit.clock import monotonic
from taskkit.settings import Worker
from taskkit.worker.nursery_link import NurseryLink
from taskkit.worker.pool import Pool
from taskkit.worker.slots import Slot
from taskkit.worker.strays import mark_of

REBIRTH_PAUSE = 0.5


class Crew:
    """In the hub's thread. ``wanted`` children are to be there; those that are leaving do not count.

    Nobody is killed for it: who is to leave is given nothing more, gives back what it has not begun, and exits when the
    rest is done. Should more be wanted before that, it stays.
    """

    def __init__(
        self,
        slots: dict[int, Slot],
        nursery: NurseryLink,
        pool: Pool,
        settings: Worker,
        at_once: Mapping[str, int],
        watch: Callable[[Slot], None],
    ) -> None:
        self.slots, self.nursery, self.pool = slots, nursery, pool
        self.settings, self.at_once, self._watch = settings, at_once, watch
        self.wanted = settings.processes
        self._births: list[float] = []
        self._next_number = 1

    def open(self) -> None:
        """Let the first ones be born."""
        self._births = [0.0] * self.wanted

    def staff(self, wanted: int) -> None:
        """Have another number of children from now on."""
        self.wanted = wanted
        while self._missing > 0 and (slot := self._reprieved()) is not None:
            slot.leaving = False
        self._births += [0.0] * self._missing
        while self._missing < 0 and self._births:
            self._births.pop()
        while self._missing < 0 and (slot := self._spared()) is not None:
            slot.leaving = True
            self.pool.put_first(given.task for given in slot.take_back())

    def give_birth(self, now: float) -> None:
        """Ask the nursery for those that are due."""
        due = [at for at in self._births if at <= now]
        self._births = [at for at in self._births if at > now]
        for _ in due:
            places = max(self.at_once.values()) + self.settings.max_prefetch
            mark = mark_of(self.nursery.worker_id, self._next_number)
            slot, channel = Slot.create(self._next_number, places, mark, self.at_once)
            self._next_number += 1
            self.slots[slot.number] = slot
            self.nursery.spawn(slot.number, channel, slot.marks.fd, slot.stacks.fd)
            self._watch(slot)

    def died(self, slot: Slot) -> None:
        """One of them is gone: another takes its place, unless there are enough; at once, if it had been of use."""
        calm = not slot.retiring and not slot.served and not slot.ending
        if self._missing > 0:
            self._births.append(monotonic() + (REBIRTH_PAUSE if calm else 0.0))

    @property
    def _missing(self) -> int:
        staying = sum(not slot.leaving for slot in self.slots.values())
        return self.wanted - staying - len(self._births)

    def _reprieved(self) -> Slot | None:
        """One that was to leave and has not been told yet; the one with the most to do."""
        leaving = [slot for slot in self.slots.values() if slot.leaving and not slot.ending]
        return max(leaving, key=lambda slot: len(slot.jobs), default=None)

    def _spared(self) -> Slot | None:
        """The one to leave: one that has nothing to do, else the one with the least; of those the youngest."""
        now = monotonic()
        staying = [slot for slot in self.slots.values() if not slot.leaving]
        return min(staying, key=lambda s: (len(s.jobs), s.load(now), -s.number), default=None)
