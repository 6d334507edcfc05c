"""The names of all keys in Redis: those of the queue, of locks, and of what is done once."""

from __future__ import annotations

import re

from taskkit.errors import InputError
from taskkit.model import ListName

DEFAULT_PRIORITY = 5
_UNSAFE = re.compile(r"[{}%\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def encoded(name: str) -> str:
    """The name with ``{``, ``}``, ``%``, control characters and lone surrogates percent-encoded."""
    return _UNSAFE.sub(_percent, name)


def _percent(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in found[0].encode("utf-8", "surrogatepass"))


class Keys:
    """Keys behind one prefix (``shop`` and ``shop:`` are the same).

    A queue's name is the hash tag of its lists, with the shard where there is one: so the shards of a queue may live on
    several nodes of a cluster, and the priorities of a shard live on one.
    """

    def __init__(self, prefix: str = "") -> None:
        self.prefix = encoded(prefix.removesuffix(":")) + ":" if prefix else ""
        self.dead = f"{self.prefix}task:dead".encode()
        self.wake = f"{self.prefix}task:wake".encode()
        self._lists: dict[ListName, bytes] = {}
        self._names: dict[bytes, ListName] = {}

    def list(self, name: ListName) -> bytes:
        """``{prefix}task:queue:{email}``, ``…:{email}:0`` at priority 0; ``…:{email/2}:5:2`` is its third shard at 5."""
        key = self._lists.get(name)
        if key is None:
            key = self._lists[name] = self._build(name).encode()
            self._names[key] = name
        return key

    def lock(self, name: str) -> bytes:
        """``{prefix}task:lock:{nightly}``."""
        return f"{self.prefix}task:lock:{{{encoded(name)}}}".encode()

    def once(self, key: str) -> bytes:
        """``{prefix}task:once:{invoice-42}``."""
        return f"{self.prefix}task:once:{{{encoded(key)}}}".encode()

    def name(self, key: bytes) -> ListName:
        """The list whose key was asked for before."""
        return self._names[key]

    def _build(self, name: ListName) -> str:
        if not name.queue:
            raise InputError("queue", "must not be empty")
        start, tag = f"{self.prefix}task:queue", encoded(name.queue)
        if name.shard:
            return f"{start}:{{{tag}/{name.shard}}}:{name.priority}:{name.shard}"
        return f"{start}:{{{tag}}}" + ("" if name.priority == DEFAULT_PRIORITY else f":{name.priority}")
