"""From which list to pop next: pure, and shared by all brokers that take from lists.

Priorities are strict, queues of one priority take turns, and of every 20 messages one comes from the lowest
priority that waits. To keep a large pull cheap, the first 20 show whether more than one priority waits; if
not, the rest is taken at once. The shards of a queue stand behind each other within their priority, so a pull
that finds its own empty has stolen from the next by the same command.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Literal

from taskkit.errors import BrokerUnavailable
from taskkit.model import PRIORITIES, ListName
from taskkit.shards import Portion, arranged

LOW_EVERY = 20
ROUNDS = 10
"""Trips of one pull at most; it then comes back with what it has."""
STEPS = 4
"""Where a queue has shards, a trip is made of up to so many steps: a single one ends with the first list that has any."""

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


@dataclass(frozen=True, slots=True)
class Layout:
    """What is known of shards, and the lists that follow from it; another one takes its place when that changes."""

    portions: Mapping[str, Portion] = field(default_factory=dict)
    grids: dict[Queues, list[list[tuple[ListName, ...]]]] = field(default_factory=dict)

    def grid(self, queues: Queues) -> list[list[tuple[ListName, ...]]]:
        """For each priority and queue its lists by the number of their shard."""
        found = self.grids.get(queues)
        if found is None:
            found = self.grids[queues] = [[self._cell(q, p) for q in queues] for p in PRIORITIES]
        return found

    def _cell(self, queue: str, priority: int) -> tuple[ListName, ...]:
        portion = self.portions.get(queue)
        return tuple(ListName(queue, priority, shard) for shard in range(portion.lists if portion else 1))


class Order:
    """Remembers across pulls whose turn it is and when the lowest priority was served last."""

    def __init__(self, *, strict: bool = False, in_order: bool = False) -> None:
        self.strict = strict
        self.in_order = in_order
        self._since_low = 0
        self._turns = [0] * len(PRIORITIES)
        self._round = -1
        self._layout = Layout()

    def share(self, portions: Mapping[str, Portion]) -> None:
        """Which shards are preferred, and which there are besides; from any thread."""
        if portions != self._layout.portions:
            self._layout = Layout(dict(portions))

    def slots(self, queues: Queues) -> list[tuple[str, int]]:
        """The (queue, shard) that are waited at, one after the other, where a command cannot reach several of them."""
        portions = self._layout.portions
        return [(q, s) for q in dict.fromkeys(queues) for s in (portions[q].own if q in portions else (0,))]

    def is_split(self, queues: Queues) -> bool:
        """Whether one of the queues has shards."""
        return not self._layout.portions.keys().isdisjoint(queues)

    def sweep(self, queues: Queues, count: int, pop: Popper) -> list[Taken]:
        """Take up to ``count`` messages without waiting; trouble after the first messages shows next time."""
        found: list[Taken] = []
        mode: Mode = "probe"
        self._round += 1
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
            lists = self._lists(queues, low=False)
            return [Pop(lists, count) for count in self._counts(queues, room)]
        shares = list(self._shares(room if mode == "mixed" else min(room, LOW_EVERY)))
        both = {is_low: self._lists(queues, low=is_low) for is_low in {is_low for _, is_low in shares}}
        return [Pop(both[is_low], count, is_low) for count, is_low in shares]

    def _counts(self, queues: Queues, room: int) -> list[int]:
        """What the steps of a trip take that need not look at priorities."""
        steps = min(STEPS, room) if self.is_split(queues) else 1
        return [room // steps + (number < room % steps) for number in range(steps)]

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
        layout = self._layout
        grid = layout.grid(queues)
        shards = {q: arranged(layout.portions[q], self._round) for q in queues if q in layout.portions}
        lists: list[ListName] = []
        for priority in reversed(PRIORITIES) if low else PRIORITIES:
            turn = self._turns[priority] % len(queues)
            cells = grid[priority][turn:] + grid[priority][:turn]
            if not shards:
                lists += chain.from_iterable(cells)
                continue
            for cell in cells:
                order = shards.get(cell[0].queue)
                lists += cell if order is None else [cell[shard] for shard in order]
        return tuple(lists)


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
