"""Exchanges with a Redis Cluster: every command goes to the node that owns its key."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from redis.crc import key_slot

from taskkit.queues.dial import node_dialler
from taskkit.queues.trouble import Reporter, Trouble
from taskkit.queues.wire import Command, Wire
from taskkit.settings.brokers import Target, host_port

Node = tuple[str, int]
SLOTS = 16384


class ClusterWire:
    """Exchanger over one connection to each master; the map of slots is read anew when it proves wrong."""

    def __init__(self, target: Target, dial: Callable[..., Any] = node_dialler) -> None:
        self._target = target
        self._dial = dial
        self._wires: dict[Node, Wire] = {}
        self._owners: list[Node | None] = []
        self._lock = threading.Lock()
        self._closed = False

    def exchange(self, commands: Sequence[Command], wait: float = 0.0) -> list[Any]:
        """One reply or trouble per command; what a node disowns was not carried out and is sent once more."""
        replies = self._send(commands, wait)
        moved = [n for n, reply in enumerate(replies) if isinstance(reply, Trouble) and reply.code == "MOVED"]
        if moved:
            self._forget()
            for n, reply in zip(moved, self._send([commands[n] for n in moved], wait), strict=True):
                replies[n] = reply
        if any(isinstance(reply, Trouble) and reply.code in _LOST for reply in replies):
            self._forget()
        return replies

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
        return self._wire(node).exchange(commands, wait)

    def _map(self) -> list[Node | None] | Trouble:
        """Who owns each slot, asked of the first node that answers."""
        with self._lock:
            owners = self._owners
        if owners:
            return owners
        trouble = self._uncovered()
        for seed in dict.fromkeys((*self._wires, *self._target.hosts)):
            reply = self._wire(seed).exchange([("CLUSTER", "SLOTS")])[0]
            if not isinstance(reply, Trouble) and reply:
                owners = _owners(reply, seed[0])
                with self._lock:
                    self._owners = owners
                return owners
            trouble = reply if isinstance(reply, Trouble) else trouble
        return trouble

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


_LOST = frozenset({"CONNECT", "TIMEOUT", "CUT", "READONLY", "CLUSTERDOWN"})


def _owners(reply: list[Any], seed_host: str) -> list[Node | None]:
    owners: list[Node | None] = [None] * SLOTS
    for first, last, master, *_replicas in reply:
        host = master[0].decode() if master[0] else seed_host
        owners[first : last + 1] = [(host, int(master[1]))] * (last + 1 - first)
    return owners


def _slot(command: Command) -> int:
    """Keys are bytes and stand first, in an EVAL after the script; a command without a key may go anywhere."""
    place = 3 if command[0] == "EVAL" else 1
    key = command[place] if len(command) > place else b""
    return int(key_slot(key)) if isinstance(key, bytes) and key else 0
