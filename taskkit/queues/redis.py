"""The queue on Redis lists: pushed right, taken left, over one connection for pulls and one for the rest."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from taskkit import clock
from taskkit.errors import InputError, StoreError
from taskkit.model import NO_TASK, DeadMessage, ListName, Message, Ring
from taskkit.queues import base, codec
from taskkit.queues.base import Pulled
from taskkit.queues.keys import Keys
from taskkit.queues.list_puller import ListPuller, in_seconds
from taskkit.queues.order import Order
from taskkit.queues.server_facts import ClusterFacts, ServerFacts, read_facts, rehearse
from taskkit.queues.trouble import Trouble, is_wrongtype, raised
from taskkit.queues.wire import Command, Exchanger

DEAD_MAX = 10_000
LISTING_MAX = 100_000
HEAD = 16
WAIT_MAX_S = 30.0
"""A pull waits no longer in one go, so that a connection that died silently is noticed."""
FINE_S, STEP_S = 0.1, 0.004
"""A server looks ten times a second whose blocking call is over, so that it ends up to a tenth of a second late.
Shorter waits are made of single looks, so many seconds apart."""


class RedisQueue:
    """Queue on Redis 6.2 or later and Valkey.

    A key that somebody made something else than a list counts as empty, is left out of pulls with a warning,
    and refuses pushes; other lists do not suffer.
    """

    def __init__(
        self,
        pulls: Exchanger,
        rest: Exchanger,
        prefix: str = "",
        *,
        order: Order | None = None,
        lmpop: bool = True,
        one_slot: bool = False,
    ) -> None:
        self.keys = Keys(prefix)
        self._pulls = pulls
        self._rest = rest
        self._lmpop = lmpop and not one_slot
        self._puller = ListPuller(pulls, self.keys, order or Order(), lmpop=lmpop, one_slot=one_slot)

    def push(self, batches: Mapping[ListName, Sequence[Message]]) -> dict[ListName, StoreError]:
        """Append to the lists, in one trip and one RPUSH each; return what failed."""
        pushed = [name for name, messages in batches.items() if messages]
        commands: list[Command] = [
            ("RPUSH", self.keys.list(name), *map(codec.encode, batches[name])) for name in pushed
        ]
        replies = self._rest.exchange(commands)
        return {
            name: reply.pushed(self.keys.list(name))
            for name, reply in zip(pushed, replies, strict=True)
            if isinstance(reply, Trouble)
        }

    def pull(self, queues: Sequence[str], count: int, timeout: float) -> Pulled:
        """Take up to ``count`` messages; wait up to ``timeout`` seconds (30 at most) when there are none."""
        if not queues:
            raise InputError("queues", "name at least one queue")
        return self._puller.pull(tuple(queues), count, min(timeout, WAIT_MAX_S))

    def depth(self, lists: Sequence[ListName]) -> dict[ListName, int]:
        """How many messages wait in each list."""
        replies = self._rest.exchange([("LLEN", self.keys.list(name)) for name in lists])
        return {name: _value(reply, 0) for name, reply in zip(lists, replies, strict=True)}

    def oldest(self, lists: Sequence[ListName]) -> dict[ListName, Message | None]:
        """The head of each list, looking at its first 16 messages."""
        replies = self._rest.exchange([("LRANGE", self.keys.list(name), 0, HEAD - 1) for name in lists])
        found = zip(lists, (base.readable(_value(reply, ())) for reply in replies), strict=True)
        return {name: base.head(messages) for name, messages in found}

    def listing(self, list_name: ListName) -> list[Message] | None:
        """All readable messages, oldest first; None for a list of more than 100,000."""
        raws = self._ask(("LRANGE", self.keys.list(list_name), 0, LISTING_MAX), ())
        return None if len(raws) > LISTING_MAX else base.readable(raws)

    def bury(self, dead: Sequence[DeadMessage]) -> None:
        """Append to ``task:dead``, of which the last 10,000 are kept."""
        if not dead:
            return
        now = clock.iso(clock.utc_now()) or ""
        entries = [codec.encode_dead(one, now) for one in dead]
        self._tell(("RPUSH", self.keys.dead, *entries), ("LTRIM", self.keys.dead, -DEAD_MAX, -1))

    def buried(self, limit: int = 100) -> list[DeadMessage]:
        """The last ``limit`` dead messages, oldest first."""
        entries = self._ask(("LRANGE", self.keys.dead, -max(1, limit), -1), ())
        return [codec.decode_dead(entry) for entry in entries]

    def ring(self, ring: Ring = NO_TASK, *, wait: bool = True) -> None:
        """Leave one token at ``task:wake``, however often it is rung."""
        token = codec.encode_ring(ring)
        commands: list[Command] = [("RPUSH", self.keys.wake, token), ("LTRIM", self.keys.wake, 0, 0)]
        if wait:
            self._tell(*commands)
            return
        for trouble in self._rest.tell(commands):
            raise trouble.raised()

    def wait_ring(self, timeout: float) -> Ring | None:
        """Take the token, waiting for it up to ``timeout`` seconds (30 at most)."""
        seconds = min(max(timeout, 0.0), WAIT_MAX_S)
        if seconds > FINE_S:
            return self._take_ring(("BLPOP", self.keys.wake, in_seconds(seconds)), seconds)
        until = clock.monotonic() + seconds
        while (rung := self._take_ring(("LPOP", self.keys.wake), 0.0)) is None:
            left = until - clock.monotonic()
            if left <= 0:
                break
            time.sleep(min(STEP_S, left))
        return rung

    def _take_ring(self, command: Command, seconds: float) -> Ring | None:
        reply = raised(self._pulls.exchange([command], seconds)[0])
        token = reply[1] if isinstance(reply, list) else reply  # BLPOP tells the key as well
        return None if token is None else codec.decode_ring(token)

    def ping(self) -> None:
        """Raise BrokerUnavailable unless the server answers."""
        self._tell(("PING",))

    def server_facts(self) -> ServerFacts:
        """Version, persistence, memory policy and the like, as far as the server tells."""
        return read_facts(self._rest.exchange)

    def cluster_facts(self) -> ClusterFacts | None:
        """The same of each master of a cluster; None for a single server."""
        facts = getattr(self._rest, "facts", None)
        return None if facts is None else facts()

    def refusals(self) -> dict[str, str]:
        """The commands of a queue that this account or this server refuses, tried on a key that is left empty."""
        key = f"{self.keys.prefix}task:doctor".encode()
        return rehearse(self._rest.exchange, key, lmpop=self._lmpop)

    def wipe(self, *, whole: bool) -> None:
        """Lose everything, for the lab: the server's databases with ``whole`` (FLUSHALL), else the keys of the prefix."""
        if whole:
            self._tell(("FLUSHALL",))
            return
        keys = self._ask(("KEYS", f"{self.keys.prefix}*"), ())
        if self.keys.prefix and keys:
            self._tell(("DEL", *keys))

    def close(self) -> None:
        """Disconnect, after a pull that is under way."""
        self._rest.close()
        self._pulls.close()

    def _tell(self, *commands: Command) -> None:
        for reply in self._rest.exchange(commands):
            raised(reply)

    def _ask(self, command: Command, none: Any) -> Any:
        return _value(self._rest.exchange([command])[0], none)


def _value(reply: Any, none: Any) -> Any:
    """The reply, or ``none`` for a key that is no list."""
    return none if is_wrongtype(reply) else raised(reply)
