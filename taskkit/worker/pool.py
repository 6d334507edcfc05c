"""The claimed tasks between the puller and the children, and how many more are wanted."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable

from taskkit.model import Claimed

GATHER_SECONDS = 0.02
"""How long room for what is only to be at hand grows before it is filled: one trip then serves several children."""
ENOUGH = 32
"""So much room is worth a trip at once."""


class Pool:
    """Thread-safe: the puller adds, the hub takes, and says how much room there is."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._lock = threading.Condition()
        self._tasks: deque[Claimed] = deque()
        self._room, self._hurry = 0, False
        self._closed = False

    def add(self, tasks: Iterable[Claimed]) -> None:
        """Tasks that were claimed."""
        with self._lock:
            before = len(self._tasks)
            self._tasks.extend(tasks)
            self._room -= len(self._tasks) - before
        self._wake()

    def put_first(self, tasks: Iterable[Claimed]) -> None:
        """Tasks that a child gave back, before those that came later."""
        with self._lock:
            self._tasks.extendleft(reversed(list(tasks)))

    def take_all(self) -> list[Claimed]:
        """All that wait; those that cannot be placed are put back by :meth:`put_first`."""
        with self._lock:
            tasks = list(self._tasks)
            self._tasks.clear()
            return tasks

    @property
    def tasks(self) -> list[Claimed]:
        """All that wait, left where they are."""
        with self._lock:
            return list(self._tasks)

    def __len__(self) -> int:
        return len(self._tasks)

    def set_room(self, room: int, *, hurry: bool) -> None:
        """How many more tasks the children can use soon, and whether one of them has nothing to do until then."""
        with self._lock:
            known = self._room > 0
            self._room, self._hurry = room - len(self._tasks), hurry
            if self._room > 0 and (not known or self._is_worth_a_trip()):
                self._lock.notify()

    def wait_for_room(self, seconds: float) -> int:
        """The puller: how many to pull now; 0 when there is no room or the pool is closed."""
        with self._lock:
            if self._room <= 0 and not self._closed:
                self._lock.wait(seconds)
            self._lock.wait_for(self._is_worth_a_trip, GATHER_SECONDS)
            return 0 if self._closed else max(0, self._room)

    def _is_worth_a_trip(self) -> bool:
        return self._closed or self._hurry or self._room <= 0 or self._room >= ENOUGH

    def close(self) -> None:
        """No more tasks are wanted."""
        with self._lock:
            self._closed = True
            self._lock.notify_all()
