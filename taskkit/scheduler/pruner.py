"""The pruner: one scheduler at a time deletes what is older than its retention, a small step at each tick."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator

from taskkit.center import TaskCenter
from taskkit.center.retention import Step
from taskkit.clock import monotonic
from taskkit.settings import Retention

log = logging.getLogger("taskkit.scheduler")
PASS_EVERY_SECONDS = 600.0
LOOK_SECONDS = 15.0
LEASE_SECONDS = 40.0
LEAST_REST = 0.02


class Pruner:
    """A tick that sweeps by ``center.retention``, under a lease so that one scheduler does it.

    What one table meets is raised, and the next tick goes on with the table after it: it waits for the next pass.
    """

    def __init__(self, center: TaskCenter, keep: Retention, scheduler_id: str) -> None:
        self.center, self.keep, self.id = center, keep, scheduler_id
        self._tables: Iterator[Iterator[Step]] | None = None
        self._table: Iterator[Step] = iter(())
        self._gone: Counter[str] = Counter()
        self._begin_at = self._renew_at = 0.0

    def tick(self) -> float:
        """One step; then a rest as long as the step took, so that it never has the database for itself."""
        now = monotonic()
        if now >= self._renew_at:
            if not self.center.nodes.take_lease("pruner", self.id, LEASE_SECONDS):
                self._tables = None
                return LOOK_SECONDS
            self._renew_at = now + LOOK_SECONDS / 2
        if self._tables is None:
            if now < self._begin_at:
                return LOOK_SECONDS
            self._tables, self._table = self.center.retention.tables(self.keep), iter(())
        return self._step(self._tables, now)

    def _step(self, tables: Iterator[Iterator[Step]], began: float) -> float:
        step = next(self._table, None)  # a table that has raised is at its end
        while step is None:
            following = next(tables, None)
            if following is None:
                return self._rest()
            self._table = following
            step = next(following, None)
        self._gone[step.table] += step.gone
        return max(LEAST_REST, monotonic() - began)

    def _rest(self) -> float:
        """The pass is over: say what went, and begin anew some minutes later."""
        self._tables, self._begin_at = None, monotonic() + PASS_EVERY_SECONDS
        told = ", ".join(f"{count} of {table}" for table, count in sorted(self._gone.items()) if count)
        self._gone.clear()
        if told:
            log.info("deleted what was older than its retention: %s rows", told)
        return LOOK_SECONDS
