"""Notices on their way: out of the outbox to the receivers, within budgets, merged when too many, none lost."""

from taskkit.notices.courier import Courier, ReceiverTrouble, couriers
from taskkit.notices.memory import MemoryOutbox
from taskkit.notices.troubles import Troubleshooter

__all__ = ["Courier", "MemoryOutbox", "ReceiverTrouble", "Troubleshooter", "couriers"]
