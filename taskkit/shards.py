"""Into how many lists a queue is split, which of them are whose, and what a list is called in SQL: pure.

A queue of n shards has n lists for each priority; task ``id`` goes to shard ``id % n``. Each of the m live workers that
serve a queue prefers the shards of its place among them, and takes from the others when its own are empty. By its place
and not by a hash of its name: so every shard has a worker of its own as soon as there are n of them, and no two differ by
more than one. When a worker dies or comes, the places move on; nothing rests on them but who looks where first.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from taskkit.errors import InputError
from taskkit.model import PRIORITIES, ListName
from taskkit.names import check_name, check_whole

MOST = 64
"""Each pull names all lists of a queue, ten for each shard."""
STRAY_EVERY = 8
_TEXT = re.compile(r"(?P<queue>.*):(?P<priority>[0-9])(/(?P<shard>[1-9][0-9]?))?", re.DOTALL)


class Queued(Protocol):
    """What has a queue."""

    @property
    def queue(self) -> str: ...


R = TypeVar("R", bound=Queued)


@dataclass(frozen=True, slots=True)
class Split:
    """New messages go to ``shards`` lists of each priority, and workers look into ``lists`` of them.

    Into more than there are shards while some may still hold messages from the time when there were more.
    """

    shards: int = 1
    lists: int = 1

    def beyond(self, queue: str) -> list[ListName]:
        """The lists of a queue to which nothing new goes."""
        return [ListName(queue, p, shard) for p in PRIORITIES for shard in range(self.shards, self.lists)]


@dataclass(frozen=True, slots=True)
class Portion:
    """A queue as one worker sees it: the shards it prefers, and those that only are to be emptied, from ``shards`` on."""

    own: tuple[int, ...] = (0,)
    shards: int = 1
    lists: int = 1


WHOLE = Split()


class ShardBook:
    """How the queues are split; one that is not named has a single list for each priority."""

    def __init__(self, splits: Mapping[str, Split] | None = None) -> None:
        self._splits = dict(splits or {})

    def __bool__(self) -> bool:
        return bool(self._splits)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ShardBook) and self._splits == other._splits

    __hash__ = None  # type: ignore[assignment]

    def items(self) -> list[tuple[str, Split]]:
        """The queues that are split, by name."""
        return sorted(self._splits.items())

    def of(self, queue: str) -> Split:
        """How one queue is split."""
        return self._splits.get(queue, WHOLE)

    def place(self, queue: str, priority: int, task_id: int) -> ListName:
        """The list that a task's message goes to."""
        return ListName(queue, priority, task_id % self.of(queue).shards)

    def by_shards(self, rows: Sequence[R]) -> dict[int, list[R]]:
        """Rows by how many shards their queue has."""
        found: dict[int, list[R]] = {}
        for row in rows:
            found.setdefault(self.of(row.queue).shards, []).append(row)
        return found

    def lists(self, queue: str, priority: int) -> list[ListName]:
        """The lists of a queue and priority that may hold messages."""
        return [ListName(queue, priority, shard) for shard in range(self.of(queue).lists)]

    def all_lists(self, queues: Iterable[str]) -> list[ListName]:
        """The lists of these queues, of all priorities."""
        return [name for queue in queues for priority in PRIORITIES for name in self.lists(queue, priority)]


def portion(split: Split, place: int, workers: int) -> Portion:
    """What a worker prefers that is number ``place``, from 0, of so many that serve the queue."""
    if workers <= split.shards:
        own = tuple(range(place % workers, split.shards, workers))
    else:
        own = (place % split.shards,)
    return Portion(own, split.shards, max(split.shards, split.lists))


def crowd(queue: str, worker: str, serving: Mapping[str, str]) -> list[str]:
    """Who serves a queue besides this worker, and the worker itself; ``serving`` has the queues of each, comma separated."""
    return sorted({worker, *(one for one, served in serving.items() if queue in served.split(","))})


def portions(
    book: ShardBook, queues: Iterable[str], worker: str, serving: Mapping[str, str]
) -> dict[str, Portion]:
    """What one of the workers prefers, of its queues that are split."""
    found = {}
    for queue in queues:
        split = book.of(queue)
        if split != WHOLE:
            others = crowd(queue, worker, serving)
            found[queue] = portion(split, others.index(worker), len(others))
    return found


def arranged(portion: Portion, round_: int) -> list[int]:
    """The shards in the order in which a pull looks into them: those to be emptied, its own in turn, then the rest.

    One round in :data:`STRAY_EVERY` begins with each shard in turn, so that one whose workers are all stuck, busy or
    slow is served by the others even while they have enough of their own.
    """
    strays, since = divmod(round_, STRAY_EVERY)
    if since == STRAY_EVERY - 1:
        return _from(range(portion.lists), strays)
    own = _from(portion.own, round_ - strays)
    last = portion.own[-1]
    rest = [s for s in _from(range(portion.shards), last + 1) if s not in portion.own]
    return [*range(portion.shards, portion.lists), *own, *rest]


def _from(shards: Sequence[int], first: int) -> list[int]:
    turn = first % len(shards)
    return [*shards[turn:], *shards[:turn]]


def gathered(depths: Mapping[ListName, int]) -> Counter[ListName]:
    """What waits for a queue and priority in all its shards together, by the name of the first one."""
    found: Counter[ListName] = Counter()
    for name, depth in depths.items():
        found[ListName(name.queue, name.priority)] += depth
    return found


def list_text(name: ListName) -> str:
    """``mail:5``, and ``mail:5/2`` for its third shard: what ``task_center.list_name`` says."""
    return f"{name.queue}:{name.priority}{f'/{name.shard}' if name.shard else ''}"


def read_list(text: str, otherwise: ListName) -> ListName:
    """A list by its text; a queue's name may have colons of its own, and somebody may have edited it."""
    found = _TEXT.fullmatch(text)
    if found is None or int(found["shard"] or 0) >= MOST:
        return otherwise
    return ListName(found["queue"], int(found["priority"]), int(found["shard"] or 0))


def check_split(queue: object, shards: object) -> tuple[str, int]:
    """What a person may ask for; raises InputError."""
    if isinstance(queue, str) and "," in queue:
        raise InputError("queue", f"name one queue, not {queue!r}")
    return check_name(queue, "queue"), check_whole(shards, "shards", 1, MOST)
