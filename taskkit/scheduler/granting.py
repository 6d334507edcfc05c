"""Tasks that wait for a limit: let go as soon as there is room, without a part in the scan of what is due."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence

from taskkit.center import Batch, TaskCenter
from taskkit.center.granting import Look
from taskkit.clock import monotonic
from taskkit.errors import CommitUnknown, DatabaseUnavailable, SchemaError, StoreError
from taskkit.model import DueList, ListName
from taskkit.scheduler.halving import by_halves

log = logging.getLogger("taskkit.scheduler")
STEP_S, LEAST_REST, LONGEST_REST = 0.02, 0.002, 3600.0
"""Rates are granted in steps of so many seconds: finer ones would cost a transaction for every start."""
MOST_LISTS = 1000
MOST_HELD = 1000
"""So many tasks of a list wait for their queue's limit; the rest waits where it is, due, which costs less."""
LEASE_SECONDS = 10.0
EVERY_SECONDS = 1.0


class Granting:
    """Lets go what limits have room for; costs nothing where there is no limit."""

    def __init__(
        self,
        center: TaskCenter,
        batch: int,
        rooms: Callable[[Sequence[DueList]], Mapping[ListName, int]],
        push: Callable[[Batch, Mapping[int, int]], None],
    ) -> None:
        self.center, self._batch, self._rooms, self._push = center, batch, rooms, push
        self._lists: set[ListName] = set()

    def run(self) -> float:
        """One pass over the lines in which somebody may go; returns the seconds until the next one is worth while."""
        if not self.center.limits.active:
            return LONGEST_REST
        began = monotonic()
        look = self.center.granting.look()
        if not look.names and not look.back:
            return LONGEST_REST if look.rest is None else look.rest
        for batch in self._grant(look):
            self._lists.update(ListName(won.queue, won.priority) for won in batch.won)
            self._push(batch, {})
        rest = min(r for r in (LONGEST_REST, look.rest, self.center.granting.rest) if r is not None)
        return max(rest, LEAST_REST, STEP_S - (monotonic() - began))

    def admitted(self, due: Sequence[DueList]) -> list[DueList]:
        """Those lists whose tasks need not wait behind many others for their queue's limit."""
        if not self.center.limits.active or not due:
            return list(due)
        full = self.center.limits.full_lists(sorted({one.queue for one in due}), MOST_HELD)
        return [one for one in due if (one.queue, one.priority) not in full]

    def _grant(self, look: Look) -> Iterable[Batch]:
        """What was let go; a task that the database refuses to let go is found by halving, and held with the reason."""
        if len(self._lists) > MOST_LISTS:
            self._lists.clear()
        known = [DueList(name.queue, name.priority, None, True) for name in sorted(self._lists, key=_order)]
        rooms = self._rooms(known)
        grant = self.center.granting.grant
        try:
            yield grant(look, rooms, self._batch)
        except (DatabaseUnavailable, CommitUnknown, SchemaError):
            raise
        except (StoreError, ValueError) as error:
            tried = self.center.granting.tried
            if not tried:
                raise
            log.warning(
                "%s tasks are let go one by one, since the database refuses one: %s", len(tried), error
            )
            yield from by_halves(tried, lambda ids: grant(look, rooms, self._batch, ids), self._refused)

    def _refused(self, task_id: int, error: Exception) -> None:
        log.error("this task cannot be let go and is held: %s", error, extra={"task_id": task_id})
        self.center.granting.refuse(task_id, str(error))


class LimitKeeper:
    """A tick that learns what limits are set, and keeps the lines true to the rows, in one scheduler at a time.

    ``dispatching`` is the task center of the scan, which is told what limits there are.
    """

    def __init__(self, center: TaskCenter, dispatching: TaskCenter, scheduler_id: str) -> None:
        self.center, self.dispatching, self.id = center, dispatching, scheduler_id

    def tick(self) -> float:
        """Look; where there are limits, keep order under a lease that only saves work."""
        limits, before = self.center.limits, self.center.limits.book
        changed = limits.refresh() != before
        self.dispatching.limits.use(limits)
        if changed:
            limits.look_at_waiting()
        if limits.active and self.center.nodes.take_lease("limits", self.id, LEASE_SECONDS):
            limits.sweep()
        return EVERY_SECONDS


def _order(name: ListName) -> tuple[str, int]:
    return name.queue, name.priority
