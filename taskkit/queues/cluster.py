"""Exchanges with a Redis Cluster: every command goes to the node that owns its key."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from redis.crc import key_slot

from taskkit.queues.dial import node_dialler
from taskkit.queues.server_facts import ClusterFacts, read_facts
from taskkit.queues.trouble import Reporter, Trouble, raised
from taskkit.queues.wire import Command, Wire
from taskkit.settings.brokers import Target, host_port

Node = tuple[str, int]
SLOTS = 16384
MOVES = 3
"""How often a command follows what a node says of where its slot is."""
MOVING_PAUSE_S = 0.05
"""How long a wait for messages rests while its slot is on its way to another node."""


class ClusterWire:
    """Exchanger over one connection to each master; the map of slots is read anew when it proves wrong."""

    def __init__(self, target: Target, dial: Callable[..., Any] = node_dialler) -> None:
        self._target = target
        self._dial = dial
        self._wires: dict[Node, Wire] = {}
        self._owners: list[Node | None] = []
        self._followed: set[Node] = set()
        self._troubled: dict[Node, int] = {}
        self._troubles = 0
        self._lock = threading.Lock()
        self._closed = False

    def exchange(self, commands: Sequence[Command], wait: float = 0.0) -> list[Any]:
        """One reply or trouble per command; what a node disowns was not carried out and is sent once more."""
        replies = self._send(commands, wait)
        for _ in range(MOVES):
            moved = _told(replies, "MOVED")
            if not moved:
                break
            self._forget()
            self._follow(commands, replies, moved, wait)
        for n in _told(replies, "ASK", "TRYAGAIN"):
            replies[n] = self._ask_there(commands[n], replies[n], wait)
        if _told(replies, *_LOST):
            self._forget()
        return replies

    def tell(self, commands: Sequence[Command]) -> list[Trouble]:
        """As an exchange, since a node may send us elsewhere."""
        return [reply for reply in self.exchange(commands) if isinstance(reply, Trouble)]

    def _follow(self, commands: Sequence[Command], replies: list[Any], moved: list[int], wait: float) -> None:
        """Send these to the nodes that the ones asked have named, which know best: others hear of it later."""
        groups: defaultdict[Node | None, list[int]] = defaultdict(list)
        for n in moved:
            groups[replies[n].node].append(n)
        for node, places in groups.items():
            again = [commands[n] for n in places]
            answered = self._send(again, wait) if node is None else self._at(node, again, wait)
            for n, reply in zip(places, answered, strict=True):
                replies[n] = reply

    def _ask_there(self, command: Command, trouble: Trouble, wait: float) -> Any:
        """The slot is on its way to another node, which has what this one has not; nobody is waited for there."""
        if wait:
            time.sleep(min(wait, MOVING_PAUSE_S))
            return None
        if trouble.node is None or trouble.code != "ASK":
            return trouble
        return self._wire(trouble.node).exchange([("ASKING",), command])[1]

    def _send(self, commands: Sequence[Command], wait: float) -> list[Any]:
        owners = self._map()
        if isinstance(owners, Trouble):
            return [owners] * len(commands)
        groups: defaultdict[Node | None, list[int]] = defaultdict(list)
        for n, command in enumerate(commands):
            groups[owners[_slot(command)]].append(n)
        replies: list[Any] = [None] * len(commands)
        for node, places in groups.items():
            answered = self._at(node, [commands[n] for n in places], wait)
            for n, reply in zip(places, answered, strict=True):
                replies[n] = reply
        return replies

    def _at(self, node: Node | None, commands: Sequence[Command], wait: float) -> list[Any]:
        if node is None:
            return [self._uncovered()] * len(commands)
        replies = self._wire(node).exchange(commands, wait)
        if _told(replies, *_LOST):
            self._ask_last(node)
        return replies

    def _map(self) -> list[Node | None] | Trouble:
        """Who owns each slot, asked of the first node that answers; those that had trouble come last."""
        with self._lock:
            owners = self._owners
        if owners:
            return owners
        trouble = self._uncovered()
        for seed in self._seeds():
            reply = self._wire(seed).exchange([("CLUSTER", "SLOTS")])[0]
            if not isinstance(reply, Trouble) and reply:
                owners, followed = _owners(reply, seed[0])
                with self._lock:
                    self._owners, self._followed = owners, followed
                return owners
            trouble = reply if isinstance(reply, Trouble) else trouble
            self._ask_last(seed)
        return trouble

    def facts(self) -> ClusterFacts:
        """What all of its masters say of themselves; raises BrokerUnavailable when one cannot be asked."""
        self._forget()
        owners = raised(self._map())
        masters = [node for node in dict.fromkeys(owners) if node is not None]
        return ClusterFacts(
            {host_port(*node): read_facts(self._wire(node).exchange) for node in masters},
            owners.count(None),
            tuple(host_port(*node) for node in masters if node not in self._followed),
        )

    def _seeds(self) -> list[Node]:
        with self._lock:
            known = dict.fromkeys((*self._wires, *self._target.hosts))
            return sorted(known, key=lambda node: self._troubled.get(node, 0))

    def _ask_last(self, node: Node) -> None:
        with self._lock:
            self._troubles += 1
            self._troubled[node] = self._troubles

    def _uncovered(self) -> Trouble:
        return Reporter(self._target.address).uncovered()

    def _forget(self) -> None:
        with self._lock:
            self._owners = []

    def _wire(self, node: Node) -> Wire:
        with self._lock:
            if node not in self._wires:
                reporter = Reporter(host_port(*node), self._target.secrets)
                self._wires[node] = Wire(self._dial(self._target, *node), reporter, closed=self._closed)
            return self._wires[node]

    def close(self) -> None:
        """Disconnect from all nodes for good."""
        with self._lock:
            self._closed = True
            wires = list(self._wires.values())
        for wire in wires:
            wire.close()


_LOST = ("CONNECT", "TIMEOUT", "CUT", "READONLY", "CLUSTERDOWN")


def _told(replies: Sequence[Any], *codes: str) -> list[int]:
    """The places of the replies that are such a trouble."""
    return [n for n, reply in enumerate(replies) if isinstance(reply, Trouble) and reply.code in codes]


def _owners(reply: list[Any], seed_host: str) -> tuple[list[Node | None], set[Node]]:
    """The master of each slot, and those of the masters that have a replica."""
    owners: list[Node | None] = [None] * SLOTS
    followed: set[Node] = set()
    for first, last, master, *replicas in reply:
        host = master[0].decode() if master[0] else seed_host
        node = (host, int(master[1]))
        owners[first : last + 1] = [node] * (last + 1 - first)
        if replicas:
            followed.add(node)
    return owners, followed


def _slot(command: Command) -> int:
    """Keys are bytes and stand first, in an EVAL after the script; a command without a key may go anywhere."""
    place = 3 if command[0] == "EVAL" else 1
    key = command[place] if len(command) > place else b""
    return int(key_slot(key)) if isinstance(key, bytes) and key else 0
