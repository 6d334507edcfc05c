"""Finds dispatched tasks whose message is gone, and rings for them again; age alone proves nothing."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from taskkit.center import TaskCenter
from taskkit.center.recovery import Suspect
from taskkit.clock import monotonic, parse_instant
from taskkit.errors import InputError, StoreError
from taskkit.model import ListName, Message
from taskkit.names import check_name
from taskkit.queues import Queue
from taskkit.scheduler.proofs import Absences
from taskkit.settings import Scheduler
from taskkit.shards import list_text

log = logging.getLogger("taskkit.scheduler")
LEASE_SECONDS = 10.0
LOOKING_SECONDS = 1.0
"""How long one pass looks at lists in which nothing was missing; the rest has its turn in the next one."""


class MessageRecovery:
    """A tick that rings again for dispatched tasks whose message is provably gone, under a lease that saves work."""

    def __init__(self, center: TaskCenter, queue: Queue, scheduler_id: str, settings: Scheduler) -> None:
        self.center, self.queue, self.id, self.settings = center, queue, scheduler_id, settings
        self._absences: Absences[Suspect] = Absences(settings.lost_after_s)
        self._noted: set[ListName] = set()
        self._waiting: list[ListName] = []
        self._unlisted: set[ListName] = set()
        self.rung_again = 0

    def tick(self) -> float:
        """One pass, if this scheduler has the lease; returns the seconds to rest."""
        try:
            acting = self.center.nodes.take_lease("recovery", self.id, LEASE_SECONDS)
        except StoreError:
            self._absences.forget()
            raise
        if acting:
            self.look()
        else:
            self._absences.forget()
        return self.settings.recover_every_s

    def look(self) -> int:
        """One pass: note what is absent, ring again for what has been so long enough; returns for how many."""
        try:
            begun = monotonic()
            lost = self._absences.look(begun, self._absent(), monotonic())
            count = self.center.recovery.ring_again(lost) if lost else 0
        except StoreError:
            self._absences.forget()
            raise
        if count:
            places = ", ".join(sorted({list_text(suspect.list_name) for suspect in lost}))
            log.warning("%s messages were gone from %s; their tasks are due again", count, places)
            self.queue.ring()
        self.rung_again += count
        return count

    def _absent(self) -> list[Suspect]:
        """Suspects whose message is not in its list: the heads and the rows are read first, then the list."""
        lists = {shards[0]: shards for shards in self.center.recovery.dispatched_lists()}
        heads = self.queue.oldest([name for shards in lists.values() for name in shards if _can_be(name)])
        found: dict[ListName, list[Suspect]] = {}
        for first in self._in_turn(list(lists)):
            ages = {name: _at(heads.get(name)) for name in lists[first]}
            suspects = self.center.recovery.suspects(first, self.settings.lost_after_s, ages)
            for place in {suspect.list_name for suspect in suspects}:
                missing = self._missing([s for s in suspects if s.list_name == place], place)
                found.setdefault(first, []).extend(missing)
        self._noted = {name for name, missing in found.items() if missing}
        return [suspect for missing in found.values() for suspect in missing]

    def _in_turn(self, lists: Sequence[ListName]) -> Iterator[ListName]:
        """Lists in which something is missing come in every pass, as its proof wants; the others while there is time."""
        yield from (name for name in lists if name in self._noted)
        others = set(lists) - self._noted
        waiting = deque(name for name in dict.fromkeys([*self._waiting, *lists]) if name in others)
        deadline = monotonic() + LOOKING_SECONDS
        while waiting:
            yield waiting.popleft()
            if monotonic() > deadline:
                break
        self._waiting = list(waiting)

    def _missing(self, suspects: Sequence[Suspect], name: ListName) -> Iterable[Suspect]:
        listed = self.queue.listing(name) if _can_be(name) else []
        if listed is None:
            self._tell_unlisted(name)
            return []
        if listed and name.shard >= self.center.shards.book.of(name.queue).lists:
            log.warning("messages wait in %s, which nobody looks into: now workers do", list_text(name))
            self.center.shards.widen(name)
        there = {(message.task_id, message.attempt) for message in listed}
        return [s for s in suspects if (s.task_id, s.attempt) not in there and (s.task_id, None) not in there]

    def _tell_unlisted(self, name: ListName) -> None:
        if name not in self._unlisted:
            self._unlisted.add(name)
            told = "the list %s cannot be read whole, so what it loses is not found"
            log.error(told, list_text(name))


def _at(head: Message | None) -> datetime | None:
    """When the oldest message of a list was dispatched; None where nobody knows."""
    if head is None or not head.dispatched_at:
        return None
    return parse_instant(head.dispatched_at)


def _can_be(name: ListName) -> bool:
    """Whether there can be such a list: a row may have been edited by hand to say a queue that has none."""
    try:
        check_name(name.queue, "queue")
    except InputError:
        return False
    return True
