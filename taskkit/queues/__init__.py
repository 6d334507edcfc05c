"""Queues: the doorbell between schedulers and workers, behind one small port."""

from taskkit.queues.base import Pulled, Queue
from taskkit.queues.connect import connect
from taskkit.queues.memory import MemoryQueue, MemoryStore

__all__ = ["MemoryQueue", "MemoryStore", "Pulled", "Queue", "connect"]
