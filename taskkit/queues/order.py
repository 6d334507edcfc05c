"""From which list to pop next: pure, and shared by all brokers that take from lists.

Priorities are strict, queues of one priority take turns, and of every 20 messages one comes from the lowest
priority that waits. To keep a large pull cheap, the first 20 show whether more than one priority waits; if
not, the rest is taken at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal

from taskkit.errors import BrokerUnavailable
from taskkit.model import PRIORITIES, ListName

LOW_EVERY = 20
ROUNDS = 10
"""Trips of one pull at most; it then comes back with what it has."""

Mode = Literal["probe", "bulk", "mixed"]
Queues = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Pop:
    """One step: take up to ``count`` from the first of ``lists`` that has any."""

    lists: tuple[ListName, ...]
    count: int
    low: bool = False


@dataclass(frozen=True, slots=True)
class Taken:
    """What one step took."""

    name: ListName
    raws: list[bytes]


Popper = Callable[[Sequence[Pop]], Sequence[Taken | None]]


class Order:
    """Remembers across pulls whose turn it is and when the lowest priority was served last."""

    def __init__(
        self,
        *,
        strict: bool = False,
        in_order: bool = False,
        shards: Mapping[str, int] | None = None,
        home: int = 0,
    ) -> None:
        self.strict = strict
        self.in_order = in_order
        self.shards = dict(shards or {})
        self.home = home
        self._since_low = 0
        self._turns = [0] * len(PRIORITIES)
        self._grids: dict[Queues, list[list[tuple[ListName, ...]]]] = {}

    def sweep(self, queues: Queues, count: int, pop: Popper) -> list[Taken]:
        """Take up to ``count`` messages without waiting; trouble after the first messages shows next time."""
        found: list[Taken] = []
        mode: Mode = "probe"
        for _ in range(ROUNDS):
            pops = self.plan(queues, count, mode)
            try:
                taken = pop(pops)
            except BrokerUnavailable:
                if found:
                    break
                raise
            mode = _next_mode(pops, taken)
            got = self._note(queues, pops, taken)
            found += got
            count -= sum(len(t.raws) for t in got)
            if not got or count <= 0:
                break
        return found

    def plan(self, queues: Queues, room: int, mode: Mode) -> list[Pop]:
        """The steps of the next trip."""
        if self.strict or mode == "bulk":
            return [Pop(self._lists(queues, low=False), room)]
        shares = list(self._shares(room if mode == "mixed" else min(room, LOW_EVERY)))
        lists = {is_low: self._lists(queues, low=is_low) for is_low in {is_low for _, is_low in shares}}
        return [Pop(lists[is_low], count, is_low) for count, is_low in shares]

    def took(self, queues: Queues, pop: Pop, taken: Taken) -> None:
        """Move the turn of the served priority on, and count towards the share of the lowest."""
        self._since_low = 0 if pop.low else min(self._since_low + len(taken.raws), LOW_EVERY - 1)
        if not self.in_order:
            turn = self._turns[taken.name.priority] % len(queues)
            self._turns[taken.name.priority] = _place(queues, taken.name.queue, turn) + 1

    def _note(self, queues: Queues, pops: Sequence[Pop], taken: Sequence[Taken | None]) -> list[Taken]:
        for pop, got in zip(pops, taken, strict=True):
            if got is not None:
                self.took(queues, pop, got)
        return [got for got in taken if got is not None]

    def _shares(self, budget: int) -> Iterator[tuple[int, bool]]:
        since = self._since_low
        while budget > 0:
            is_low = since >= LOW_EVERY - 1
            count = 1 if is_low else min(budget, LOW_EVERY - 1 - since)
            yield count, is_low
            since = 0 if is_low else since + count
            budget -= count

    def _lists(self, queues: Queues, *, low: bool) -> tuple[ListName, ...]:
        grid = self._grids.get(queues)
        if grid is None:
            grid = self._grids[queues] = [[self._shards(q, p) for q in queues] for p in PRIORITIES]
        lists: list[ListName] = []
        for priority in reversed(PRIORITIES) if low else PRIORITIES:
            turn = self._turns[priority] % len(queues)
            lists += chain.from_iterable(grid[priority][turn:] + grid[priority][:turn])
        return tuple(lists)

    def _shards(self, queue: str, priority: int) -> tuple[ListName, ...]:
        """A queue's lists of one priority, the home shard first, then the others to steal from."""
        count = max(1, self.shards.get(queue, 1))
        return tuple(ListName(queue, priority, (self.home + n) % count) for n in range(count))


def _place(queues: Queues, queue: str, turn: int) -> int:
    """Where the queue stands, looking from ``turn`` on, since it may stand twice."""
    return next(
        (turn + n) % len(queues) for n in range(len(queues)) if queues[(turn + n) % len(queues)] == queue
    )


def _next_mode(pops: Sequence[Pop], taken: Sequence[Taken | None]) -> Mode:
    served = [(pop.low, got.name.priority) for pop, got in zip(pops, taken, strict=True) if got is not None]
    if len({priority for _, priority in served}) > 1:
        return "mixed"
    return "bulk" if any(low for low, _ in served) else "probe"
