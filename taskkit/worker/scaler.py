"""Lets the number of children follow the load: looks every second, and tells what it changes and why."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from taskkit.clock import monotonic
from taskkit.queues import Queue
from taskkit.settings import Worker
from taskkit.shards import gathered
from taskkit.worker.hub import Hub
from taskkit.worker.portions import Portions
from taskkit.worker.scaling import Bounds, Demand, Staffing

log = logging.getLogger("taskkit.worker")
EVERY_SECONDS = 1.0


class Scaler:
    """A tick in a thread of its own, since the broker may be slow to answer: without an answer nothing changes."""

    def __init__(
        self, hub: Hub, queue: Queue, queues: Sequence[str], portions: Portions, settings: Worker
    ) -> None:
        self.hub, self.queue, self.queues, self.portions = hub, queue, list(queues), portions
        bounds = Bounds(settings.processes, settings.max_processes, settings.backlog_s, settings.calm_s)
        self._staffing = Staffing(bounds)

    def tick(self) -> float:
        """One look."""
        load = None if self.hub.workload is None else self.hub.workload.load
        if load is None:
            return EVERY_SECONDS
        children, waiting = self.hub.crew.wanted, self._waiting() + load.pooled
        look = Demand(monotonic(), children, load.busy, waiting, load.seconds, load.share)
        change = self._staffing.decide(look)
        if change is not None:
            extra = {
                "children": children,
                "wanted": change.wanted,
                "busy": round(load.busy, 2),
                "waiting": round(waiting),
                "task_seconds": round(load.seconds, 6),
            }
            log.info("children: %s → %s, since %s", children, change.wanted, change.why, extra=extra)
            self.hub.staff(change.wanted)
        return EVERY_SECONDS

    def _waiting(self) -> float:
        """What waits in the broker for this worker: its share of each queue among the workers that serve it."""
        depths = gathered(self.queue.depth(self.portions.book.all_lists(self.queues)))
        return sum(depth / self.portions.crowd(name.queue) for name, depth in depths.items() if depth)
