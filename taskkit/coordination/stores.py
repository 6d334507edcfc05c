"""Where locks are kept: the port, and locks as tokens in Redis whose fencing numbers come from SQL."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Protocol

from taskkit.coordination.tokens import Tokens
from taskkit.errors import StoreError

NO_FENCE = 0


class LockStore(Protocol):
    """Locks by name; each has one holder for ``ttl`` seconds at a time. Raises StoreError."""

    def take(self, name: str, holder: str, ttl: float) -> int | None:
        """The fencing number of the new holder; None while somebody else holds the lock."""

    def renew(self, name: str, holder: str, ttl: float) -> bool:
        """Hold it for ``ttl`` seconds from now; False when it is not the holder's any more."""

    def drop(self, name: str, holder: str) -> bool:
        """Give it back; False when it was not the holder's any more."""


class TokenLocks:
    """Locks that are lost with Redis. ``next_fence`` counts in SQL, since a counter in Redis would be lost too."""

    def __init__(
        self, tokens: Tokens, key: Callable[[str], bytes], next_fence: Callable[[str], int] | None
    ) -> None:
        self._tokens, self._key, self._next_fence = tokens, key, next_fence

    def take(self, name: str, holder: str, ttl: float) -> int | None:
        try:
            return self._take(name, holder, ttl)
        except BaseException:  # a SET that was cut may have been done: nobody should wait for its end
            with contextlib.suppress(StoreError):
                self.drop(name, holder)
            raise

    def _take(self, name: str, holder: str, ttl: float) -> int | None:
        if not self._tokens.take(self._key(name), holder, ttl):
            return None
        if self._next_fence is None:
            return NO_FENCE
        fence = self._next_fence(name)
        # looked at again: whoever holds the lock after us must get its number after us
        return fence if self.renew(name, holder, ttl) else None

    def renew(self, name: str, holder: str, ttl: float) -> bool:
        return self._tokens.swap(self._key(name), holder, holder, ttl)

    def drop(self, name: str, holder: str) -> bool:
        return self._tokens.drop(self._key(name), holder)
