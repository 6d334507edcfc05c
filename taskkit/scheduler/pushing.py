"""The push of what was won: a definite refusal puts rows back, a doubtful one leaves them to recovery and closes the list."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from taskkit.center import Batch, TaskCenter
from taskkit.clock import iso, monotonic
from taskkit.errors import BrokerUnavailable, PushRefused, StoreError
from taskkit.model import ListName, Message, Won
from taskkit.queues import Queue
from taskkit.shards import list_text

log = logging.getLogger("taskkit.scheduler")
FIRST_S, LONGEST_S = 0.1, 5.0
"""A list is closed for so long after a push in doubt, each time twice as long, until a push has succeeded: a list may
answer what waits in it and still take nothing."""
UNSENT = "a push to it is in doubt, and it has not answered since"


@dataclass(slots=True)
class Counters:
    """What this scheduler has done since it started; ``scanned`` is the monotonic second of its last scan."""

    scans: int = 0
    dispatched: int = 0
    put_back: int = 0
    scanned: float | None = None


class Pushes:
    """Sends messages, all lists in one pipeline. ``doubtful`` are the lists, with all their shards, that must answer first."""

    def __init__(self, center: TaskCenter, queue: Queue, counters: Counters) -> None:
        self.center, self.queue, self.counters = center, queue, counters
        self.doubtful: dict[ListName, float] = {}
        """With the monotonic second before which they are not asked."""
        self._pauses: dict[ListName, float] = {}

    def ask(self) -> None:
        """Open the lists in doubt that answer; the first that does not, which may cost seconds, is the last one asked."""
        for name, until in list(self.doubtful.items()):
            if monotonic() < until:
                continue
            try:
                self.queue.depth(self.center.shards.book.all_lists([name.queue]))
            except BrokerUnavailable:
                self.doubtful[name] = monotonic() + LONGEST_S
                return
            del self.doubtful[name]

    def _close(self, name: ListName) -> None:
        pause = min(LONGEST_S, 2 * self._pauses[name]) if name in self._pauses else FIRST_S
        self._pauses[name] = pause
        self.doubtful[name] = monotonic() + pause

    def push(self, batch: Batch, places: Mapping[int, int]) -> None:
        """Ring for what was won; to a list in doubt nothing is sent, and its rows go back.

        Raises BrokerUnavailable when a list refused.
        """
        if not batch.won:
            return
        lists: dict[ListName, list[Won]] = {}
        for won in sorted(batch.won, key=lambda w: places.get(w.id, 0)):
            lists.setdefault(won.list_name, []).append(won)
        unsent = [name for name in lists if _whole(name) in self.doubtful]
        failed = self._send({name: rows for name, rows in lists.items() if name not in unsent})
        self.counters.dispatched += len(batch.won)
        refused = {name: error for name, error in failed.items() if isinstance(error, PushRefused)}
        told = "the push of %s tasks to %s is in doubt: %s"
        for name in failed.keys() - refused.keys():
            log.warning(told, len(lists[name]), list_text(name), failed[name])
        in_doubt = {_whole(name) for name in failed.keys() - refused.keys()}
        for name in in_doubt:
            self._close(name)
        for name in {_whole(name) for name in lists.keys() - failed.keys() - set(unsent)} - in_doubt:
            self._pauses.pop(name, None)
        for name in (*refused, *unsent):
            self._put_back(name, lists[name], batch.token, str(refused.get(name, UNSENT)))
        if refused:
            raise BrokerUnavailable(str(next(iter(refused.values()))))

    def _put_back(self, name: ListName, rows: Sequence[Won], token: str, why: str) -> None:
        back = self.center.dispatch.put_back(rows, token)
        self.counters.put_back += back
        self.counters.dispatched -= back
        log.warning("list %s refused %s tasks, put back: %s", list_text(name), back, why)

    def _send(self, lists: Mapping[ListName, Sequence[Won]]) -> Mapping[ListName, StoreError]:
        if not lists:
            return {}
        at = iso(next(iter(lists.values()))[0].dispatched_at) or ""
        messages = {
            name: [Message(w.id, w.task_code, w.attempt, at) for w in rows] for name, rows in lists.items()
        }
        return self.queue.push(messages)


def _whole(name: ListName) -> ListName:
    """The list without its shard: a window, and a doubt, is about all of them."""
    return replace(name, shard=0)
