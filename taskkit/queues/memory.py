"""The queue in this process, with the same promises: for sandboxes and tests."""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence

from taskkit import clock
from taskkit.errors import BrokerUnavailable, InputError, StoreError
from taskkit.model import NO_TASK, DeadMessage, ListName, Message, Ring
from taskkit.queues import base, codec
from taskkit.queues.base import Pulled
from taskkit.queues.order import Order, Pop, Taken

DEAD_MAX = 10_000


class MemoryStore:
    """What all queues of one name share."""

    def __init__(self) -> None:
        self.lists: defaultdict[ListName, deque[bytes]] = defaultdict(deque)
        self.dead: deque[bytes] = deque(maxlen=DEAD_MAX)
        self.rung: Ring | None = None
        self.changed = threading.Condition()


class MemoryQueue:
    """Queue over a MemoryStore; those that are given the same store see the same lists."""

    def __init__(self, store: MemoryStore | None = None, *, order: Order | None = None) -> None:
        self.store = store or MemoryStore()
        self._order = order or Order()
        self._closed = False
        self._pulling = threading.Lock()

    def push(self, batches: Mapping[ListName, Sequence[Message]]) -> dict[ListName, StoreError]:
        """Append to the lists; nothing ever fails."""
        encoded = {name: [codec.encode(message) for message in batch] for name, batch in batches.items()}
        for name, raws in encoded.items():
            self.push_raw(name, *raws)
        return {}

    def push_raw(self, name: ListName, *raws: bytes) -> None:
        """Append bytes as they are, like a person with redis-cli."""
        if not name.queue:
            raise InputError("queue", "must not be empty")
        with self._open().changed:
            self.store.lists[name].extend(raws)
            self.store.changed.notify_all()

    def pull(self, queues: Sequence[str], count: int, timeout: float) -> Pulled:
        """Take up to ``count`` messages; wait up to ``timeout`` seconds when there are none."""
        if not queues:
            raise InputError("queues", "name at least one queue")
        found: list[Taken] = []
        deadline = clock.monotonic() + timeout
        with self._pulling, self._open().changed:
            while count > 0 and not (found := self._order.sweep(tuple(queues), count, self._pop)):
                if not self._rest(deadline):
                    break
        return base.read((taken.name, raw) for taken in found for raw in taken.raws)

    def depth(self, lists: Sequence[ListName]) -> dict[ListName, int]:
        """How many messages wait in each list."""
        return {name: len(self._raws(name)) for name in lists}

    def oldest(self, lists: Sequence[ListName]) -> dict[ListName, Message | None]:
        """The head of each list."""
        return {name: base.head(base.readable(self._raws(name))) for name in lists}

    def listing(self, list_name: ListName) -> list[Message] | None:
        """All readable messages, oldest first."""
        return base.readable(self._raws(list_name))

    def bury(self, dead: Sequence[DeadMessage]) -> None:
        """Keep dead messages, the last 10,000."""
        now = clock.iso(clock.utc_now()) or ""
        self._open().dead.extend(codec.encode_dead(one, now) for one in dead)

    def buried(self, limit: int = 100) -> list[DeadMessage]:
        """The last ``limit`` dead messages, oldest first."""
        return [codec.decode_dead(entry) for entry in list(self._open().dead)[-max(1, limit) :]]

    def ring(self, ring: Ring = NO_TASK, *, wait: bool = True) -> None:
        """Wake one that waits for the ring, or the next that will."""
        with self._open().changed:
            self.store.rung = self.store.rung or ring
            self.store.changed.notify_all()

    def wait_ring(self, timeout: float) -> Ring | None:
        """Wait up to ``timeout`` seconds for a ring; None when there was none."""
        deadline = clock.monotonic() + timeout
        with self._open().changed:
            while (rung := self.store.rung) is None:
                if not self._rest(deadline):
                    return None
            self.store.rung = None
            return rung

    def ping(self) -> None:
        """Raise BrokerUnavailable when the queue was closed."""
        self._open()

    def close(self) -> None:
        """Refuse every later call; the store stays."""
        self._closed = True
        with self.store.changed:
            self.store.changed.notify_all()

    def _open(self) -> MemoryStore:
        if self._closed:
            raise BrokerUnavailable("the queue was closed by this process: connect again")
        return self.store

    def _raws(self, name: ListName) -> list[bytes]:
        with self._open().changed:
            return list(self.store.lists.get(name, ()))

    def _rest(self, deadline: float) -> bool:
        """Wait for a change; False when the time is over."""
        left = deadline - clock.monotonic()
        if left <= 0:
            return False
        self.store.changed.wait(left)
        self._open()
        return True

    def _pop(self, pops: Sequence[Pop]) -> list[Taken | None]:
        return [self._pop_one(pop) for pop in pops]

    def _pop_one(self, pop: Pop) -> Taken | None:
        for name in pop.lists:
            if waiting := self.store.lists.get(name):
                return Taken(name, [waiting.popleft() for _ in range(min(pop.count, len(waiting)))])
        return None
