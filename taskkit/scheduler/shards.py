"""Learns how queues are split, and ends the looking into lists to which nothing goes any more."""

from __future__ import annotations

import logging

from taskkit.center import TaskCenter
from taskkit.clock import monotonic
from taskkit.queues import Queue
from taskkit.shards import Split

log = logging.getLogger("taskkit.scheduler")
EVERY_SECONDS = 1.0
NARROW_SECONDS = 5.0
LEASE_SECONDS = 20.0


class ShardKeeper:
    """A tick; what it gives up is looked at by one scheduler, under a lease that only saves work.

    ``dispatching`` is the task center of the scan, which is told how queues are split.
    """

    def __init__(self, center: TaskCenter, dispatching: TaskCenter, queue: Queue, scheduler_id: str) -> None:
        self.center, self.dispatching, self.queue, self.id = center, dispatching, queue, scheduler_id
        self._narrow_at = 0.0

    def tick(self) -> float:
        """Look how queues are split; now and then, whether lists that are left over are empty."""
        book = self.center.shards.refresh()
        self.dispatching.shards.use(self.center.shards)
        beyond = any(split.lists > split.shards for _, split in book.items())
        if beyond and monotonic() >= self._narrow_at:
            self._narrow_at = monotonic() + NARROW_SECONDS
            if self.center.nodes.take_lease("shards", self.id, LEASE_SECONDS):
                self.narrow()
        return EVERY_SECONDS

    def narrow(self) -> None:
        """Give up the lists in which neither SQL nor the broker knows of a message any more."""
        for queue, split in self.center.shards.settled():
            if not self._in_use(queue, split):
                self.center.shards.narrow(queue, split)
                log.info("queue %s has %s shards, and nothing is left in those beyond", queue, split.shards)

    def _in_use(self, queue: str, split: Split) -> bool:
        lists = split.beyond(queue)
        return self.center.shards.stands_in(lists) or any(self.queue.depth(lists).values())
