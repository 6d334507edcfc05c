"""What one process may do at a time, and what is done only once: locks and ``once``, in SQL and in Redis."""

from taskkit.coordination.lock import DistributedLock
from taskkit.coordination.locking import FenceDesk, Locking
from taskkit.coordination.once import Once
from taskkit.coordination.stores import LockStore, TokenLocks
from taskkit.coordination.tokens import MemoryTokens, RedisTokens, Tokens

__all__ = [
    "DistributedLock",
    "FenceDesk",
    "LockStore",
    "Locking",
    "MemoryTokens",
    "Once",
    "RedisTokens",
    "TokenLocks",
    "Tokens",
]
