"""Keys that hold one token for a time, on Redis and in memory: what locks and ``once`` outside of SQL are made of."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

SWAP = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1
"""
DROP = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
"""


class Tokens(Protocol):
    """A key holds one token, until its life (in seconds) is over; raises BrokerUnavailable."""

    def take(self, key: bytes, token: str, life: float) -> bool:
        """Put the token there if nothing is."""

    def swap(self, key: bytes, token: str, other: str, life: float) -> bool:
        """Put another token (or the same, for a new life) there, if this one still is."""

    def drop(self, key: bytes, token: str) -> bool:
        """Remove the token, if it still is there."""

    def read(self, key: bytes) -> str | None:
        """The token that is there."""


class RedisTokens:
    """Tokens on Redis; ``ask`` sends one command and returns its reply. Each script touches one key."""

    def __init__(self, ask: Callable[..., Any]) -> None:
        self._ask = ask

    def take(self, key: bytes, token: str, life: float) -> bool:
        return self._ask("SET", key, token, "NX", "PX", _milliseconds(life)) is not None

    def swap(self, key: bytes, token: str, other: str, life: float) -> bool:
        return bool(self._ask("EVAL", SWAP, 1, key, token, other, _milliseconds(life)))

    def drop(self, key: bytes, token: str) -> bool:
        return bool(self._ask("EVAL", DROP, 1, key, token))

    def read(self, key: bytes) -> str | None:
        reply = self._ask("GET", key)
        return None if reply is None else str(reply.decode("utf-8", "replace"))


def _milliseconds(life: float) -> int:
    return max(1, round(life * 1000))


class MemoryTokens:
    """Tokens in this process, for tests of applications."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tokens: dict[bytes, tuple[str, float]] = {}

    def take(self, key: bytes, token: str, life: float) -> bool:
        with self._lock:
            return self._read(key) is None and self._put(key, token, life)

    def swap(self, key: bytes, token: str, other: str, life: float) -> bool:
        with self._lock:
            return self._read(key) == token and self._put(key, other, life)

    def drop(self, key: bytes, token: str) -> bool:
        with self._lock:
            return self._read(key) == token and self._tokens.pop(key, None) is not None

    def read(self, key: bytes) -> str | None:
        with self._lock:
            return self._read(key)

    def _read(self, key: bytes) -> str | None:
        token, until = self._tokens.get(key, (None, 0.0))
        return token if until > time.monotonic() else None

    def _put(self, key: bytes, token: str, life: float) -> bool:
        self._tokens[key] = (token, time.monotonic() + life)
        return True
