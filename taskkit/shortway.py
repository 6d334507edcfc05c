"""The short way: a producer dispatches its own due tasks at once, when nothing older waits and the list has room.

The rows are inserted as dispatched, attempt 1, and their messages pushed after the commit. A crash in between leaves
dispatched rows without messages, which recovery finds as it finds any other.
"""

from __future__ import annotations

import logging
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import count
from typing import TYPE_CHECKING

from taskkit.clock import iso, monotonic, seconds
from taskkit.errors import BrokerUnavailable, PushRefused
from taskkit.model import NO_TASK, ListName, Message, NewTask, Ring, Won
from taskkit.shards import MOST, ShardBook, Split, gathered
from taskkit.states import TaskType

if TYPE_CHECKING:
    from taskkit.center import TaskCenter
    from taskkit.queues import Queue

log = logging.getLogger("taskkit.producer")
LOOK_SECONDS = 0.1
"""How long a look at what waits in SQL and in the lists is believed."""
SHUT_SECONDS = 5.0
"""How long the broker is left alone after it could not be reached or refused a push."""
SHARE = 8
"""A producer fills an eighth of a list's room between two looks, so that several together do not overfill it."""


@dataclass(slots=True)
class ListRoom:
    """What the last look at a list saw: how many may be pushed until the next one is due, and into how many shards."""

    until: float
    room: int
    shards: int = 1


class ShortWay:
    """Writes and pushes tasks of one producer; says None where the long way by a scheduler is right.

    ``silent`` is told when the broker did not answer, which costs seconds: nothing else shall wait for it as well.
    """

    def __init__(
        self,
        center: Callable[[], TaskCenter],
        queue: Callable[[], Queue | None],
        silent: Callable[[], None],
        window: int,
        queue_window: int,
    ) -> None:
        self._center, self._queue, self._silent = center, queue, silent
        self._window, self._queue_window = window, queue_window
        self._sights: dict[ListName, ListRoom] = {}
        self._shut_until = 0.0
        self._clock: tuple[datetime, float] | None = None
        self._deal = count(random.randrange(MOST))

    def write(self, tasks: Sequence[NewTask]) -> list[int] | None:
        """The ids of the tasks, which are written and pushed; None when nothing was done."""
        if monotonic() < self._shut_until or not all(_is_due(task) for task in tasks):
            return None
        names = [ListName(task.queue, task.priority) for task in tasks]
        try:
            open_for_all = all(self._open(name, wanted) for name, wanted in Counter(names).items())
        except BrokerUnavailable as error:
            self._shut(str(error))
            self._silent()
            return None
        if not open_for_all or self._clock is None:
            return None
        then, mark = self._clock
        lists = [self._shard(name) for name in names]
        ids, token = self._center().intake.insert_dispatched(tasks, lists)
        at = then + seconds(monotonic() - mark)
        self._push(
            [
                Won(task_id, task.task_code, 1, task.queue, task.priority, at, name.shard)
                for task_id, task, name in zip(ids, tasks, lists, strict=True)
            ],
            token,
        )
        return ids

    def _shard(self, name: ListName) -> ListName:
        """The shards of a queue in turn: the id, by which a scheduler chooses one, is not known yet."""
        shards = self._sights[name].shards
        return name if shards == 1 else replace(name, shard=next(self._deal) % shards)

    def _open(self, name: ListName, wanted: int) -> bool:
        now = monotonic()
        sight = self._sights.get(name)
        if sight is None or now >= sight.until:
            sight = self._sights[name] = self._look(name, now + LOOK_SECONDS)
        if sight.room < wanted:
            return False
        sight.room -= wanted
        return True

    def _look(self, name: ListName, until: float) -> ListRoom:
        """Room in a list for this producer until the next look; none while older tasks of the list wait in SQL."""
        queue = self._queue()
        if queue is None:
            return ListRoom(until, 0)
        mark = monotonic()
        waiting = self._center().dispatch.waits(name.queue, name.priority)
        self._clock = (waiting.now, mark)
        if waiting.waits:
            return ListRoom(until, 0)
        book = ShardBook({name.queue: Split(waiting.shards, waiting.lists)})
        depths = gathered(queue.depth(book.all_lists([name.queue])))
        room = min(self._window - depths[name], self._queue_window - sum(depths.values()))
        return ListRoom(until, max(0, room) // SHARE, waiting.shards)

    def _push(self, won: Sequence[Won], token: str) -> None:
        """A definite refusal puts the rows back for a scheduler; after a doubtful one recovery decides."""
        lists: dict[ListName, list[Won]] = {}
        for one in won:
            lists.setdefault(one.list_name, []).append(one)
        try:
            failed = self._ring(lists)
        except BrokerUnavailable as error:
            self._shut(str(error))
            self._silent()
            return
        for name, trouble in failed.items():
            self._shut(str(trouble))
            if isinstance(trouble, PushRefused):
                self._center().dispatch.put_back(lists[name], token)

    def _ring(self, lists: dict[ListName, list[Won]]) -> dict[ListName, Exception]:
        queue = self._queue()
        if queue is None:
            raise BrokerUnavailable("the broker has gone")
        messages = {
            name: [Message(w.id, w.task_code, w.attempt, iso(w.dispatched_at) or "") for w in rows]
            for name, rows in lists.items()
        }
        return dict(queue.push(messages))

    def _shut(self, why: str) -> None:
        self._shut_until = monotonic() + SHUT_SECONDS
        log.debug("tasks go to the schedulers for %.0f s: %s", SHUT_SECONDS, why)


def ring_for(tasks: Sequence[NewTask], ids: Sequence[int]) -> Ring:
    """The ring for these new tasks: it names a single one that may start now."""
    if len(tasks) != 1 or not _is_due(tasks[0]):
        return NO_TASK
    return Ring(ids[0], tasks[0].queue, tasks[0].priority)


def _is_due(task: NewTask) -> bool:
    """Whether it may start now and is nobody else's concern: planned work, keys, limits belong to schedulers and SQL."""
    return (
        task.task_type is TaskType.ONE_OFF
        and task.plan_next_run_at is None
        and not task.delay
        and task.unique_key is None
        and task.limit_key is None
    )
