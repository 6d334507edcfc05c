"""The lock that one process of many holds: renewed while it is held, and known to be lost when it is."""

from __future__ import annotations

import contextlib
import logging
import random
import threading
import time
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import Self

from taskkit.coordination.stores import NO_FENCE, LockStore
from taskkit.coordination.tenure import HOLDER_BYTES, SURE, Tenure, instant
from taskkit.errors import LockError, LockLost, LockTimeout, StoreError
from taskkit.identity import new_identity
from taskkit.names import check_name, check_seconds

log = logging.getLogger("taskkit.coordination")
LONGEST_NAME = 190
SHORTEST_TTL, LONGEST_TTL = 0.1, 86_400.0
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 0.5


class DistributedLock:
    """Held by one process at a time, for ``ttl`` seconds that are renewed until it is released.

    As a context manager it waits up to ``timeout`` seconds (None: as long as it takes; 0: not at all), raises
    LockTimeout when it was not free, and LockLost at the end when it was lost before. It belongs to this object,
    not to a thread. A fork of its process does not hold it.
    """

    def __init__(
        self,
        open_store: Callable[[], LockStore],
        name: str,
        *,
        ttl: float = 30.0,
        timeout: float | None = None,
        on_lost: Callable[[str], None] | None = None,
    ) -> None:
        self.name = check_name(name, "name", LONGEST_NAME)
        self.ttl = check_seconds(ttl, "ttl", SHORTEST_TTL, LONGEST_TTL)
        self._timeout = check_timeout(timeout)
        self._open_store, self._on_lost = open_store, on_lost
        self._taking = threading.Lock()
        self._held: _Held | None = None
        self._last: _Held | None = None

    def __repr__(self) -> str:
        held = self._held
        state = "free" if held is None else "lost" if held.tenure.lost else f"held, fence {held.fence}"
        return f"<DistributedLock {self.name!r} {state}>"

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
        """Whether it is ours now; waits up to ``timeout`` seconds (None: as long as it takes) if ``blocking``."""
        left = check_timeout(timeout) if blocking else 0.0
        deadline = None if left is None else time.monotonic() + left
        pause = FIRST_PAUSE
        while not self._try():
            rest = pause * (0.5 + random.random())
            if deadline is not None:
                rest = min(rest, deadline - time.monotonic())
            if rest <= 0:
                return False
            time.sleep(rest)
            pause = min(LONGEST_PAUSE, pause * 1.5)
        return True

    def release(self) -> None:
        """Give it back; raises LockLost when it was lost before, and LockError when it was never held.

        When its store is away the lock is left to end by itself, with a warning in the log.
        """
        held, self._held = self._held, None
        if held is None:
            raise LockError(f"lock {self.name} is not held by this object")
        self._last = held
        held.give_back()

    def check(self) -> None:
        """Raise LockLost unless it is held: call it right before whatever the lock guards."""
        held = self._held
        if held is None:
            raise LockError(f"lock {self.name} is not held by this object")
        held.tenure.check()

    @property
    def held(self) -> bool:
        """Whether it was acquired, and not released or lost since."""
        held = self._held
        return held is not None and held.tenure.lost is None

    @property
    def lost(self) -> bool:
        """Whether it was acquired, and lost before it was released."""
        held = self._held
        return held is not None and held.tenure.lost is not None

    @property
    def fence(self) -> int:
        """The number of this holder, larger than that of every holder before; pass it on to what the lock guards.

        After the release it is still that of the last time.
        """
        held = self._held or self._last
        if held is None:
            raise LockError(f"lock {self.name} was never held by this object")
        if held.fence == NO_FENCE:
            raise LockError(f"lock {self.name} has no fencing number: it was made with fenced=False")
        return held.fence

    def __enter__(self) -> Self:
        if not self.acquire(timeout=self._timeout):
            raise LockTimeout(f"lock {self.name} was not free within {self._timeout:g} s: somebody holds it")
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        try:
            self.release()
        except LockLost:
            if error is None:  # what the body raised says more, and the loss is in the log
                raise

    def _try(self) -> bool:
        with self._taking:
            if self._held is not None:
                raise LockError(f"lock {self.name} is held by this object already; release it first")
            self._held = _take(self._open_store(), self.name, self.ttl, self._on_lost)
            if self._held is None:
                return False
            # when nobody is left who could release it, it ends
            self._held.forget = weakref.finalize(self, self._held.tenure.end)
            return True


class _Held:
    """One holder of a lock, from its acquisition to its end."""

    def __init__(self, store: LockStore, name: str, holder: str, fence: int, tenure: Tenure) -> None:
        self.store, self.name, self.holder, self.fence, self.tenure = store, name, holder, fence, tenure
        self.forget: Callable[[], object] = tenure.end

    def give_back(self) -> None:
        try:
            self.tenure.check()
        finally:
            self.forget()
        try:
            ours = self.store.drop(self.name, self.holder)
        except StoreError as error:
            log.warning("lock %s was not released and ends by itself: %s", self.name, error)
            return
        if not ours:
            raise LockLost(f"lock {self.name} was lost: it was not there any more when it was released")


def _take(store: LockStore, name: str, ttl: float, on_lost: Callable[[str], None] | None) -> _Held | None:
    holder, since = new_identity(HOLDER_BYTES), instant()
    fence = store.take(name, holder, ttl)
    if fence is None:
        return None
    if instant() >= since + ttl * SURE:  # the answer took longer than the lock lives
        with contextlib.suppress(StoreError):
            store.drop(name, holder)
        return None
    tenure = Tenure(f"lock {name}", ttl, since, lambda: store.renew(name, holder, ttl), on_lost)
    return _Held(store, name, holder, fence, tenure)


def check_timeout(timeout: float | None) -> float | None:
    """Seconds to wait, or None for as long as it takes."""
    return None if timeout is None else check_seconds(timeout, "timeout", 0, threading.TIMEOUT_MAX)
