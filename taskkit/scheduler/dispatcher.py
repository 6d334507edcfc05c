"""One scan: which lists have due rows and room, claim a batch of them, push it, put back what was refused."""

from __future__ import annotations

import logging
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime

from taskkit.center import Batch, TaskCenter
from taskkit.clock import monotonic
from taskkit.errors import (
    CommitUnknown,
    DatabaseUnavailable,
    SchemaError,
    StoreError,
)
from taskkit.model import NO_TASK, PRIORITIES, DueList, ListName, Ring, Won
from taskkit.queues import Queue
from taskkit.scheduler.granting import Granting
from taskkit.scheduler.halving import by_halves
from taskkit.scheduler.pushing import Counters, Pushes
from taskkit.settings import Scheduler
from taskkit.shards import gathered

log = logging.getLogger("taskkit.scheduler")
Found = tuple[list[DueList], datetime | None]
"""The lists with waiting rows, and the database's clock when they were looked at."""
FULL_PAUSE = 0.02
UNSETTLED_PAUSE = 0.1
"""While rows are locked by a COMMIT that got no reply, a scan would find them again and again, and win none."""
MOST_LISTS = 1000
ROOM_S = 1.0
"""So long what was seen of a list's room is believed, for tasks that are rung for one after the other."""
SLOW_LOOK = 0.05
REFRESH_PAUSE = 30.0
LOOK_S = 0.25
"""While there is more due than a batch, one look at the lists serves so long: it reads past every row that has just gone."""


class Dispatcher:
    """Moves due tasks from SQL to their lists, by compare-and-set and in batches."""

    def __init__(self, center: TaskCenter, queue: Queue, settings: Scheduler) -> None:
        self.center, self.queue, self.settings = center, queue, settings
        self.counters = Counters()
        self._contended = False
        self._full: set[ListName] = set()
        self._hopeless: set[int] = set()
        self._refreshed = 0.0
        self._found: Found | None = None
        self._looked = 0.0
        self._held = 0
        self._rung = NO_TASK
        self._seen: dict[ListName, tuple[int, float]] = {}
        """The room of a list without what was pushed since, and the monotonic second when it was looked at."""
        self._idle = False
        self.pushes = Pushes(center, queue, self.counters)
        self.granting = Granting(center, settings.batch, self._rooms_of_grants, self._push)

    def scan(self) -> float:
        """Dispatch one batch, and what limits have room for; returns the seconds until the next scan is worth while."""
        self.pushes.ask()
        for batch in self.center.dispatch.settle():
            self._push(batch, {})
        idle, self._idle = self._idle, False
        rung, self._rung = self._rung, NO_TASK
        if idle and rung.task_id:
            self._go_ahead(rung)
        soon = self.granting.run()
        self._held = 0
        rest = self._scan()
        if self._held:
            soon = self.granting.run()
        rest = min(rest, soon)
        return max(rest, UNSETTLED_PAUSE) if self.center.dispatch.doubts.unsettled else rest

    def _rooms_of_grants(self, known: Sequence[DueList]) -> dict[ListName, int]:
        """The room of lists to which tasks were let go before, and none in those that are in doubt."""
        asked = [one for one in known if _name(one) not in self.pushes.doubtful]
        return (self._room(asked) if asked else {}) | dict.fromkeys(self.pushes.doubtful, 0)

    def look_anew(self, ring: Ring = NO_TASK) -> None:
        """Somebody has rung: what was known of the lists may be too old for it."""
        self._found, self._rung = None, ring

    def _go_ahead(self, rung: Ring) -> None:
        """Dispatch the task that somebody rang for, before a look at what else is due; nothing was, at the last look."""
        half = min(self.settings.window, self.settings.queue_window) // 2
        name = ListName(rung.queue, rung.priority)
        if rung.task_id in self._hopeless or name in self.pushes.doubtful or self.center.limits.active:
            return
        if self._room_now(name) > half:
            self._claim([rung.task_id])

    def _room_now(self, name: ListName) -> int:
        free, seen = self._seen.get(name, (0, None))
        if seen is None or monotonic() - seen > ROOM_S:
            return self._room([DueList(name.queue, name.priority, None, True)])[name]
        return free

    def _scan(self) -> float:
        found, is_new = self._look()
        self.counters.scans += 1
        self.counters.scanned = monotonic()
        soon = self._advance(found[0])
        if soon is not None:
            return soon
        self._found, self._idle = None, is_new and not self.pushes.doubtful
        return self._rest(*found) if is_new else 0.0

    def _look(self) -> tuple[Found, bool]:
        """The lists with waiting rows, and whether this was looked at just now.

        A look that became slow has the server refresh its statistics.
        """
        before = monotonic()
        if self._found and before - self._looked < LOOK_S:
            return self._found, False
        self._found = self.center.dispatch.due_lists()
        self._looked = after = monotonic()
        if after - before > SLOW_LOOK and after - self._refreshed > REFRESH_PAUSE:
            self._refreshed = after
            self.center.dispatch.refresh_statistics()
        return self._found, True

    def _advance(self, lists: Sequence[DueList]) -> float | None:
        """Dispatch a batch of these lists; the seconds until the next one, None when no more is due in them."""
        if any(not one.queue or one.earliest is None for one in lists) and self.center.plan.adopt(lists):
            self._found = None
            return 0.0
        open_ = [one for one in lists if one.due and one.queue and _name(one) not in self.pushes.doubtful]
        due = self.granting.admitted(open_)
        if not due:
            return None
        room = self._room(due)
        return self._dispatch(due, room) if any(room.values()) else FULL_PAUSE

    def _dispatch(self, due: Sequence[DueList], room: Mapping[ListName, int]) -> float | None:
        """Claim and push one batch; 0.0 when there is more to do at once, None when not."""
        ids = self._choose(due, room)
        if not ids:
            return 0.0 if self._contended else self._until_room()
        contended, again = self._claim(ids)
        again = again or len(ids) >= self.settings.batch
        self._contended = contended > len(ids) // 2
        return 0.0 if again or self._contended else self._until_room()

    def _claim(self, ids: Sequence[int]) -> tuple[int, bool]:
        """Claim these and push them; how many another scheduler had, and whether more has become due by it."""
        places = {task_id: place for place, task_id in enumerate(ids)}
        contended, again = 0, False
        for batch in by_halves(ids, self.center.dispatch.claim, self._set_aside):
            self._push(batch, places)
            contended += batch.contended
            self._held += len(batch.held)
            again = again or bool(batch.misfired)
            if batch.unadopted:
                self.center.plan.adopt_ids(batch.unadopted)
            if batch.misfired:
                self.center.plan.plan_ids(batch.misfired)
        return contended, again

    def _until_room(self) -> float | None:
        """A list that could not take all that is due in it gets the rest as soon as its workers made room."""
        return FULL_PAUSE if self._full else None

    def _set_aside(self, task_id: int, error: Exception) -> None:
        extra = {"task_id": task_id}
        try:
            if self.center.plan.set_aside(task_id, str(error)):
                log.error("this task cannot be dispatched and is held: %s", error, extra=extra)
                return
            problem = "only a task that waits for its first attempt can be"
        except (DatabaseUnavailable, CommitUnknown, SchemaError):
            raise
        except StoreError as refused:
            problem = str(refused)
        self._hopeless.add(task_id)
        told = "this task cannot be dispatched: %s; nor can it be held (%s): a person must mend its row"
        log.error(told, error, problem, extra=extra)

    def _room(self, due: Sequence[DueList]) -> dict[ListName, int]:
        """How many messages each due list may still take in all its shards, by its own window and by its queue's."""
        queues = sorted({one.queue for one in due})
        depths = gathered(self.queue.depth(self.center.shards.book.all_lists(queues)))
        total = {queue: sum(depths[ListName(queue, p)] for p in PRIORITIES) for queue in queues}
        if len(self._seen) > MOST_LISTS:
            self._seen.clear()
        now = monotonic()
        found = {name: self._room_of(name, depths[name], total[name.queue]) for name in map(_name, due)}
        self._seen.update({name: (free, now) for name, free in found.items()})
        return found

    def _room_of(self, name: ListName, depth: int, total: int) -> int:
        """Room of a list with so many messages, in a queue of so many.

        One that was filled gets no crumbs while half a window waits in it, since each would cost a commit.
        """
        window = self.settings.window
        free = max(0, min(window - depth, self.settings.queue_window - total))
        crumb = name in self._full and depth > window // 2 and free < min(self.settings.batch, window // 2)
        return 0 if crumb else free

    def _choose(self, due: Sequence[DueList], room: Mapping[ListName, int]) -> list[int]:
        """Ids for one batch: by priority, then by time; the lowest priority that waits gets a twentieth of it."""
        ordered = sorted(due, key=lambda one: (one.priority, one.earliest))
        chosen: list[int] = []
        self._full &= {_name(one) for one in due}
        lowest = ordered[-1]
        if not self.settings.strict_priority and lowest.priority > ordered[0].priority:
            share = min(room[_name(lowest)], max(1, self.settings.batch // 20))
            chosen += [i for i in self._candidates(lowest, share) if i not in self._hopeless]
        for one in ordered:
            left = self.settings.batch - len(chosen)
            if left <= 0:
                break
            name, known = _name(one), self._hopeless.union(chosen)
            found = self._candidates(one, min(left, room[name]))
            if len(found) == room[name] < left:
                self._full.add(name)
            else:
                self._full.discard(name)
            chosen += [i for i in found if i not in known]
        return chosen

    def _candidates(self, one: DueList, n: int) -> list[int]:
        """The oldest due ids of a list; after a collision with another scheduler, some further down the list."""
        if n <= 0:
            return []
        skip = random.randrange(3) * n if self._contended else 0
        candidates = self.center.dispatch.candidates
        found = candidates(one.queue, one.priority, n, skip, one.statuses)
        if not found and skip:
            found = candidates(one.queue, one.priority, n, statuses=one.statuses)
        return found

    def _push(self, batch: Batch, places: Mapping[int, int]) -> None:
        self._count(batch.won)
        self.pushes.push(batch, places)

    def _count(self, pushed: Sequence[Won]) -> None:
        """What is pushed takes the room that was seen, in its list and in its queue."""
        for queue, n in Counter(won.queue for won in pushed).items():
            for name in self._seen.keys() & {ListName(queue, priority) for priority in PRIORITIES}:
                free, seen = self._seen[name]
                self._seen[name] = free - n, seen

    def _rest(self, lists: Sequence[DueList], now: datetime | None) -> float:
        """Seconds until the next task is due, at most the poll interval: a plain INSERT wakes nobody."""
        coming = [(one.earliest - now).total_seconds() for one in lists if one.earliest and now]
        return max(0.0, min([self.settings.poll_s, *[s for s in coming if s > 0]]))


def _name(one: DueList) -> ListName:
    return ListName(one.queue, one.priority)
