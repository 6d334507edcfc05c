"""Several Redis servers that are one broker: a cluster with replicas, and a master that sentinels watch."""

from __future__ import annotations

import contextlib
from typing import Any, Self

import redis
from redis.crc import key_slot

from tests.servers import Valkey, available, free_port
from tests.waiting import wait_until

SLOTS = 16384
NODE_TIMEOUT_MS, DOWN_AFTER_MS = 1000, 500


class Cluster:
    """Masters that share the slots, each with a replica."""

    def __init__(self, masters: int = 3) -> None:
        self.nodes = [
            available(
                Valkey,
                cluster_enabled="yes",
                cluster_port=free_port(),
                cluster_node_timeout=NODE_TIMEOUT_MS,
                cluster_replica_validity_factor=0,
                databases=1,
            )
            for _ in range(2 * masters)
        ]
        self.masters, self.replicas = self.nodes[:masters], self.nodes[masters:]

    @property
    def url(self) -> str:
        return "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)

    def __enter__(self) -> Self:
        for node in self.nodes:
            node.start()
        first, *others = self.nodes
        for number, node in enumerate(self.masters):
            each = SLOTS // len(self.masters)
            last = SLOTS - 1 if node is self.masters[-1] else (number + 1) * each - 1
            ask(node, "CLUSTER", "ADDSLOTSRANGE", number * each, last)
            ask(node, "CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        for node in others:
            ask(first, "CLUSTER", "MEET", "127.0.0.1", node.port, node.options["cluster_port"])
        wait_until(
            lambda: all(info(node)["cluster_known_nodes"] == str(len(self.nodes)) for node in self.nodes), 20
        )
        for master, replica in zip(self.masters, self.replicas, strict=True):
            name = ask(master, "CLUSTER", "MYID").decode()
            wait_until(lambda r=replica, n=name: replicates(r, n), 20)  # type: ignore[misc]
        wait_until(self.is_whole, 20)
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.nodes:
            node.close()

    def is_whole(self) -> bool:
        """Whether all nodes that run know that every slot is covered, and each replica follows its master."""
        running = [node for node in self.nodes if node.running]
        linked = all(b"master_link_status:down" not in ask(node, "INFO", "replication") for node in running)
        return linked and all(info(node)["cluster_state"] == "ok" for node in running)

    def owner(self, key: bytes) -> Valkey:
        """The node that owns a key's slot now."""
        slot = key_slot(key)
        for node in self.nodes:
            if node.running:
                for first, last, (_, port, *_rest), *_replicas in ask(node, "CLUSTER", "SLOTS"):
                    if first <= slot <= last:
                        return next(one for one in self.nodes if one.port == port)
        raise AssertionError(f"nobody owns slot {slot}")

    def begin_move(self, key: bytes, source: Valkey, target: Valkey) -> None:
        """Begin to move a key's slot: from now on what the source has not is asked of the target."""
        slot = key_slot(key)
        names = [ask(node, "CLUSTER", "MYID").decode() for node in (source, target)]
        ask(target, "CLUSTER", "SETSLOT", slot, "IMPORTING", names[0])
        ask(source, "CLUSTER", "SETSLOT", slot, "MIGRATING", names[1])

    def end_move(self, key: bytes, source: Valkey, target: Valkey) -> None:
        """Hand the slot over for good, with its keys."""
        slot, name = key_slot(key), ask(target, "CLUSTER", "MYID").decode()
        for found in ask(source, "CLUSTER", "GETKEYSINSLOT", slot, 100):
            ask(source, "MIGRATE", "127.0.0.1", target.port, found, 0, 5000)
        for node in (target, source):
            ask(node, "CLUSTER", "SETSLOT", slot, "NODE", name)


class Sentinel(Valkey):
    """Watches one master under the name ``main``; alone it decides by itself."""

    name = "sentinel"

    def __init__(self, master_port: int, **options: Any) -> None:
        super().__init__(**options)
        self.conf = self.folder / "sentinel.conf"
        self.conf.write_text(
            f"port {self.port}\nbind 127.0.0.1\nunixsocket {self.socket}\ndir {self.folder}\n"
            f"sentinel monitor main 127.0.0.1 {master_port} 1\n"
            f"sentinel down-after-milliseconds main {DOWN_AFTER_MS}\nsentinel failover-timeout main 3000\n"
        )

    def command(self) -> list[str]:
        return [self.program, str(self.conf), "--sentinel"]


class Watched:
    """A master with a replica, and a sentinel that makes the replica master when it dies."""

    def __init__(self) -> None:
        self.nodes = [available(Valkey) for _ in range(2)]

    @property
    def url(self) -> str:
        return f"redis+sentinel://127.0.0.1:{self.sentinel.port}/main/0"

    def __enter__(self) -> Self:
        master, replica = (node.start() for node in self.nodes)
        ask(replica, "REPLICAOF", "127.0.0.1", master.port)
        wait_until(lambda: b"master_link_status:up" in ask(replica, "INFO", "replication"))
        self.sentinel = available(Sentinel, master_port=master.port).start()
        wait_until(lambda: b"slaves=1" in ask(self.sentinel, "INFO", "sentinel"), 20)
        return self

    def __exit__(self, *_: object) -> None:
        for node in (*self.nodes, self.sentinel):
            node.resume()
            node.close()

    def master(self) -> Valkey:
        """The one that the sentinel names now."""
        port = int(ask(self.sentinel, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", "main")[1])
        return next(node for node in self.nodes if node.port == port)


def ask(node: Valkey, *command: object) -> Any:
    """The raw reply of one server."""
    link = redis.Connection(port=node.port, protocol=2)
    try:
        link.connect()
        link.send_command(*command)
        return link.read_response()
    finally:
        link.disconnect()


def info(node: Valkey) -> dict[str, str]:
    lines = ask(node, "CLUSTER", "INFO").decode().splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)


def replicates(replica: Valkey, master: str) -> bool:
    """Make it a replica; it may not know the master yet."""
    with contextlib.suppress(redis.ResponseError):
        ask(replica, "CLUSTER", "REPLICATE", master)
        return True
    return False
