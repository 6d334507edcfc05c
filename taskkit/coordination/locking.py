"""What an application asks for: locks and ``once``, by name; the kit opens the doors to where they are kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from taskkit.coordination.lock import DistributedLock
from taskkit.coordination.once import Once
from taskkit.coordination.stores import LockStore, TokenLocks
from taskkit.coordination.tokens import Tokens


class FenceDesk(LockStore, Protocol):
    """Locks in SQL, which also count for those that are kept elsewhere."""

    def next_fence(self, name: str) -> int:
        """A number larger than all that this lock had before."""


class KeyNames(Protocol):
    """How keys are called in Redis."""

    def lock(self, name: str) -> bytes: ...

    def once(self, key: str) -> bytes: ...


class Locking:
    """The part of a kit that hands out locks; nothing is opened before one is used."""

    def lock(
        self,
        name: str,
        *,
        ttl: float = 30.0,
        timeout: float | None = None,
        on_lost: Callable[[str], None] | None = None,
    ) -> DistributedLock:
        """A lock in SQL, which one process holds at a time: ``with kit.lock("nightly", timeout=0) as lock: …``.

        It is renewed while it is held, and ends ``ttl`` seconds after its holder died. ``timeout`` is how long the
        with statement waits for it (None: as long as it takes). ``on_lost`` gets the reason when it was lost.
        """
        return DistributedLock(self._lock_desk, name, ttl=ttl, timeout=timeout, on_lost=on_lost)

    def redis_lock(
        self,
        name: str,
        *,
        ttl: float = 30.0,
        timeout: float | None = None,
        on_lost: Callable[[str], None] | None = None,
        fenced: bool = True,
    ) -> DistributedLock:
        """The same in Redis, for locks that are taken often. It is lost with Redis: after a flush two may hold it.

        Its fencing number still comes from SQL; ``fenced=False`` does without one, and without SQL.
        """

        def store() -> LockStore:
            tokens, keys = self._tokens()
            return TokenLocks(tokens, keys.lock, self._lock_desk().next_fence if fenced else None)

        return DistributedLock(store, name, ttl=ttl, timeout=timeout, on_lost=on_lost)

    def redis_once(
        self, key: str, *, keep: float = 86_400.0, life: float = 30.0, timeout: float | None = 0.0
    ) -> Once:
        """For effects outside of your database: ``with kit.redis_once(key) as once: if once.first: …``.

        It is lost with Redis, and forgotten after ``keep`` seconds. While somebody else does it, entering waits up
        to ``timeout`` seconds and raises OnceRunning; ``life`` is how long a dead one blocks the others.
        """

        def tokens() -> tuple[Tokens, Callable[[str], bytes]]:
            found, keys = self._tokens()
            return found, keys.once

        return Once(tokens, key, keep=keep, life=life, timeout=timeout)

    def _lock_desk(self) -> FenceDesk:
        """Locks in SQL."""
        raise NotImplementedError

    def _tokens(self) -> tuple[Tokens, KeyNames]:
        """Locks and ``once`` outside of SQL, and the names of their keys."""
        raise NotImplementedError
