"""Compares the tasks that SQL says this worker runs with those it holds, and hands back what it does not."""

from __future__ import annotations

import logging

from taskkit.center import WorkDesk
from taskkit.clock import monotonic
from taskkit.model import Claimed
from taskkit.states import Outcome
from taskkit.worker.ends import log_fields
from taskkit.worker.hub import Hub
from taskkit.worker.puller import Puller
from taskkit.worker.slots import ParentVerdict
from taskkit.worker.writer import Writer

log = logging.getLogger("taskkit.worker")
LOOK_SECONDS = 30.0
ANSWER_SECONDS = 1.0
NOT_HELD = ParentVerdict(
    Outcome.HANDED_BACK, "handed back: its worker did not hold it any more, in two looks"
)


class Holding:
    """Two looks: what is claimed or ends between reading SQL and looking here is never missing in both."""

    def __init__(self, desk: WorkDesk, hub: Hub, puller: Puller, writer: Writer) -> None:
        self.desk, self.hub, self.puller, self.writer = desk, hub, puller, writer
        self._missed: set[tuple[int, int]] = set()
        self._look_at = monotonic() + LOOK_SECONDS

    def look_if_due(self) -> None:
        """Look every LOOK_SECONDS."""
        if monotonic() >= self._look_at:
            self._look_at = monotonic() + LOOK_SECONDS
            self.look()

    def look(self) -> None:
        """One look; a task that the last one missed too, for the same attempt, is handed back, uncounted."""
        rows = self.desk.held()
        missing = self._not_here(rows)
        for key in missing.keys() & self._missed:
            task = missing.pop(key)
            log.error(
                "task %s is in status 2 for this worker, which does not hold it",
                task.id,
                extra=log_fields(task),
            )
            self.hub.ends.unstarted(task, NOT_HELD)
        self._missed = set(missing)

    def _not_here(self, rows: list[Claimed]) -> dict[tuple[int, int], Claimed]:
        """Those that are nowhere here. A task goes from puller to hub to writer, so they are asked in this order."""
        claiming = self.puller.claiming
        inside = self.hub.inventory(ANSWER_SECONDS)
        if inside is None:
            return {}
        held = inside | self.writer.unwritten
        pulled = {(message.task_id, message.attempt) for message in claiming}
        return {
            (row.id, row.attempt): row
            for row in rows
            if (row.id, row.attempt) not in held and not {(row.id, row.attempt), (row.id, None)} & pulled
        }
