"""The sampler: every few seconds one scheduler writes down what waits and what was done."""

from __future__ import annotations

from taskkit.center import TaskCenter
from taskkit.errors import BrokerUnavailable
from taskkit.queues import Queue

EVERY_SECONDS = 15.0
LEASE_SECONDS = 40.0


class Sampler:
    """A tick that keeps ``task_sample``, under a lease so that one scheduler does it."""

    def __init__(self, center: TaskCenter, queue: Queue, scheduler_id: str) -> None:
        self.center, self.queue, self.id = center, queue, scheduler_id

    def tick(self) -> float:
        """Write one sample if this scheduler has the lease; returns the seconds to rest."""
        if self.center.nodes.take_lease("sampler", self.id, LEASE_SECONDS):
            backlogs = self.center.read.backlogs()
            self.center.samples.record(self._queued(list(backlogs)), backlogs)
        return EVERY_SECONDS

    def _queued(self, queues: list[str]) -> dict[str, int] | None:
        lists = self.center.shards.book.all_lists(queue for queue in queues if queue)
        try:
            depths = self.queue.depth(lists) if lists else {}
        except BrokerUnavailable:
            return None
        total: dict[str, int] = {}
        for name, depth in depths.items():
            total[name.queue] = total.get(name.queue, 0) + depth
        return total
