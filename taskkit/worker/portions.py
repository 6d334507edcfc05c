"""Which shards of its queues this worker prefers: its portion of them among all workers that live."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from taskkit.center import TaskCenter
from taskkit.clock import monotonic
from taskkit.queues import Order
from taskkit.shards import ShardBook, crowd, portions


class Portions:
    """Looks how queues are split in every tick, and now and then who else serves them, where that is of interest."""

    def __init__(
        self,
        center: TaskCenter,
        worker_id: str,
        queues: Sequence[str],
        order: Order,
        every: float,
        *,
        always: bool = False,
    ) -> None:
        self.center, self.id, self.queues, self.order = center, worker_id, queues, order
        self.every, self.always = every, always
        self.book = ShardBook()
        self._serving: Mapping[str, str] = {}
        self._look_at = 0.0

    def look(self) -> None:
        """Tell the queue what there is and what is ours; nobody else is asked for without need."""
        self.book = self.center.shards.refresh()
        if (self.book or self.always) and monotonic() >= self._look_at:
            self._serving = self.center.nodes.serving()
            self._look_at = monotonic() + self.every
        self.order.share(portions(self.book, self.queues, self.id, self._serving))

    def crowd(self, queue: str) -> int:
        """How many workers serve a queue, this one among them; from any thread."""
        return len(crowd(queue, self.id, self._serving))
