"""Queues: the doorbell between schedulers and workers, behind one small port."""

from taskkit.queues.base import Pulled, Queue
from taskkit.queues.connect import Asker, connect, connect_asker
from taskkit.queues.keys import Keys
from taskkit.queues.memory import MemoryQueue, MemoryStore
from taskkit.queues.order import Order

__all__ = [
    "Asker",
    "Keys",
    "MemoryQueue",
    "MemoryStore",
    "Order",
    "Pulled",
    "Queue",
    "connect",
    "connect_asker",
]
