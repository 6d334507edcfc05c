"""Which shards of its queues this worker prefers: its portion of them among all workers that live."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from taskkit.center import TaskCenter
from taskkit.clock import monotonic
from taskkit.queues import Order
from taskkit.shards import portions

log = logging.getLogger("taskkit.worker")


class Portions:
    """Looks how queues are split in every tick, and who else serves them with every heartbeat."""

    def __init__(
        self, center: TaskCenter, worker_id: str, queues: Sequence[str], order: Order, every: float
    ) -> None:
        self.center, self.id, self.queues, self.order, self.every = center, worker_id, queues, order, every
        self._serving: Mapping[str, str] = {}
        self._look_at = 0.0

    def look(self) -> None:
        """Tell the queue what there is and what is ours; nobody else is asked for while no queue is split."""
        book = self.center.shards.refresh()
        if book and monotonic() >= self._look_at:
            self._serving = self.center.nodes.serving()
            self._look_at = monotonic() + self.every
        self.order.share(portions(book, self.queues, self.id, self._serving))
