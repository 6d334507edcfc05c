"""The port to a broker: what a scheduler, a worker and a producer may ask of a queue."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from taskkit.errors import StoreError
from taskkit.model import NO_TASK, DeadMessage, ListName, Message, Ring
from taskkit.queues import codec


@dataclass(frozen=True, slots=True)
class Pulled:
    """What one pull took: the messages with their lists, and what could not be read."""

    messages: list[tuple[ListName, Message]] = field(default_factory=list)
    dead: list[DeadMessage] = field(default_factory=list)


def read(raws: Iterable[tuple[ListName, bytes]]) -> Pulled:
    """Sort what was popped into messages and what cannot be read."""
    pulled = Pulled()
    for name, raw in raws:
        try:
            pulled.messages.append((name, codec.decode(raw)))
        except ValueError as error:
            pulled.dead.append(DeadMessage(raw, str(error), name.queue))
    return pulled


def readable(raws: Iterable[bytes]) -> list[Message]:
    """The messages among what stands in a list."""
    return [message for _, message in read((_NOWHERE, raw) for raw in raws).messages]


def head(messages: Sequence[Message]) -> Message | None:
    """The first that knows when it was dispatched; one that a person pushed only if there is no other."""
    return next((m for m in messages if m.dispatched_at), messages[0] if messages else None)


_NOWHERE = ListName("")


class Queue(Protocol):
    """A doorbell: it may lose or double a message; the task stands in SQL, and runs once for two messages.

    Every method raises BrokerUnavailable when the broker cannot be reached, and works again with the next
    call once it is back. One thread pulls (or waits for the ring); any thread may do the rest meanwhile.
    """

    def push(self, batches: Mapping[ListName, Sequence[Message]]) -> dict[ListName, StoreError]:
        """Append to the lists, in one trip; return per failed list a PushRefused or a PushUnknown."""
        ...

    def pull(self, queues: Sequence[str], count: int, timeout: float) -> Pulled:
        """Take up to ``count`` of what waits in the queues; if nothing does, wait up to ``timeout`` seconds.

        Higher priorities come first, queues of the same priority in turn (one that is named twice has two
        turns), and of every 20 messages at least one from the lowest priority that waits.
        """
        ...

    def depth(self, lists: Sequence[ListName]) -> dict[ListName, int]:
        """How many messages wait in each list."""
        ...

    def oldest(self, lists: Sequence[ListName]) -> dict[ListName, Message | None]:
        """The head of each list: the first message that knows when it was dispatched, else the first readable."""
        ...

    def listing(self, list_name: ListName) -> list[Message] | None:
        """All readable messages of a list, oldest first; None when the broker cannot list them all."""
        ...

    def bury(self, dead: Sequence[DeadMessage]) -> None:
        """Keep what could not be read, with the reason; only the last 10,000 are kept, 4 KiB of each."""
        ...

    def ring(self, ring: Ring = NO_TASK, *, wait: bool = True) -> None:
        """Wake one scheduler that waits for the ring, or the next that will; of several the first is heard.

        Without ``wait`` no answer is waited for: a refusal is raised by the next ring.
        """
        ...

    def wait_ring(self, timeout: float) -> Ring | None:
        """Wait up to ``timeout`` seconds for a ring; None when there was none."""
        ...

    def ping(self) -> None:
        """Raise BrokerUnavailable unless the broker answers."""
        ...

    def close(self) -> None:
        """Give the connections back; every later call raises BrokerUnavailable."""
        ...
