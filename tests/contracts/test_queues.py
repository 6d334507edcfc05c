"""Every queue keeps the promises of queue_contract.py."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
import redis

from taskkit.errors import BrokerUnavailable, PushRefused, SettingsError
from taskkit.model import NO_TASK, ListName
from taskkit.queues import MemoryQueue, MemoryStore, Queue, connect
from taskkit.queues.keys import Keys
from taskkit.queues.order import Order
from taskkit.settings.brokers import parse
from taskkit.shards import Portion
from tests.contracts.queue_broker import Broker, message, task_ids
from tests.contracts.queue_contract import QueueContract
from tests.servers import Valkey, available, free_port
from tests.waiting import wait_until

KINDS = ["redis", "redis-6.2", "cluster", "memory"]


@pytest.fixture(scope="session")
def cluster() -> Iterator[str]:
    """The URL of a cluster of two masters."""
    with (
        cluster_node() as one,
        cluster_node() as two,
        redis.Redis(port=one.port) as a,
        redis.Redis(port=two.port) as b,
    ):
        for number, link, slots in ((1, a, (0, 8191)), (2, b, (8192, 16383))):
            link.execute_command("CLUSTER SET-CONFIG-EPOCH", number)
            link.execute_command("CLUSTER ADDSLOTSRANGE", *slots)
        a.execute_command("CLUSTER MEET", "127.0.0.1", two.port, two.options["cluster_port"])
        wait_until(lambda: all(is_whole(link) for link in (a, b)), 20)
        yield f"redis+cluster://127.0.0.1:{one.port}"


def is_whole(link: redis.Redis) -> bool:
    return bool(link.execute_command("CLUSTER INFO")["cluster_state"] == "ok")


def cluster_node() -> Valkey:
    return available(
        Valkey, cluster_enabled="yes", cluster_port=free_port(), databases=1, cluster_node_timeout=2000
    )


@pytest.fixture(params=KINDS)
def broker(request: pytest.FixtureRequest, key_prefix: str) -> Iterator[Broker]:
    made: list[Queue] = []
    connected, push_raw = BUILDERS[request.param](request, key_prefix)

    def remembered(**options: Any) -> Queue:
        made.append(connected(**options))
        return made[-1]

    yield Broker(remembered, push_raw)
    for queue in made:
        queue.close()


Built = tuple[Callable[..., Queue], Callable[..., None]]


def ordered(shares: Mapping[str, Portion] | None = None, **options: bool) -> Order:
    order = Order(**options)
    order.share(shares or {})
    return order


def memory_broker(_request: pytest.FixtureRequest, _prefix: str) -> Built:
    store = MemoryStore()
    return lambda **options: MemoryQueue(store, order=ordered(**options)), MemoryQueue(store).push_raw


def redis_broker(request: pytest.FixtureRequest, prefix: str) -> Built:
    valkey: Valkey = request.getfixturevalue("valkey")
    lmpop = request.param != "redis-6.2"

    def push_raw(name: ListName, *raws: bytes) -> None:
        with redis.Redis(port=valkey.port) as client:
            client.rpush(Keys(prefix).list(name), *raws)

    return lambda **options: connect(valkey.url, prefix, lmpop=lmpop, order=ordered(**options)), push_raw


def cluster_broker(request: pytest.FixtureRequest, prefix: str) -> Built:
    url: str = request.getfixturevalue("cluster")
    (host,) = parse(url).hosts

    def push_raw(name: ListName, *raws: bytes) -> None:
        client = redis.RedisCluster(*host)
        client.rpush(Keys(prefix).list(name), *raws)
        client.close()

    return lambda **options: connect(url, prefix, order=ordered(**options)), push_raw


BUILDERS = {
    "redis": redis_broker,
    "redis-6.2": redis_broker,
    "cluster": cluster_broker,
    "memory": memory_broker,
}


class TestQueues(QueueContract):
    """The promises, on every adapter."""


def test_rule_27_two_prefixes_on_one_server_do_not_mix(valkey: Valkey, key_prefix: str) -> None:
    one, two = connect(valkey.url, key_prefix + "a"), connect(valkey.url, key_prefix + "b")
    one.ring()
    assert two.wait_ring(0) is None
    assert one.wait_ring(0) == NO_TASK
    one.close()
    two.close()


def test_memory_urls_of_one_name_share_their_lists(key_prefix: str) -> None:
    one, two = connect("memory://x", key_prefix), connect("memory://x", key_prefix)
    one.ring()
    assert connect("memory://y", key_prefix).wait_ring(0) is None
    assert two.wait_ring(0) == NO_TASK


def test_the_client_library_is_loaded_only_for_its_urls() -> None:
    code = "import sys; from taskkit.queues import connect; connect('memory://'); sys.exit('redis' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_connecting_makes_no_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        connect(f"redis://127.0.0.1:{server.getsockname()[1]}/0").close()
        server.settimeout(0.2)
        with pytest.raises(TimeoutError):
            server.accept()


def test_a_wrong_url_is_refused() -> None:
    with pytest.raises(SettingsError, match="mysql:// is no broker"):
        connect("mysql://h/0")


def test_redis_07_a_slot_that_moves_is_followed(cluster: str, key_prefix: str) -> None:
    queue = connect(cluster, key_prefix)
    name = ListName("moving")
    key = Keys(key_prefix).list(name)
    assert queue.push({name: [message(1)]}) == {}
    assert task_ids(queue.pull(["moving"], 1, 0)) == [1]
    with redis.RedisCluster(*parse(cluster).hosts[0]) as client:
        owner = client.get_node_from_key(key.decode())
        other = next(node for node in client.get_primaries() if node != owner)
        old_id, new_id = (client.cluster_myid(node).decode() for node in (owner, other))
        # as redis-cli does it: without IMPORTING a belated word of the old owner would undo it
        for node, steps in ((other, ("IMPORTING", old_id)), (owner, ("MIGRATING", new_id))):
            client.execute_command("CLUSTER SETSLOT", client.keyslot(key), *steps, target_nodes=node)
        for node in (other, owner):
            client.execute_command("CLUSTER SETSLOT", client.keyslot(key), "NODE", new_id, target_nodes=node)
    assert queue.push({name: [message(2)], ListName("elsewhere"): [message(3)]}) == {}
    assert sorted(task_ids(queue.pull(["moving", "elsewhere"], 2, 1))) == [2, 3]
    queue.close()


def test_redis_07_a_cluster_behind_a_plain_url_is_named(cluster: str, key_prefix: str) -> None:
    queue = connect(cluster.replace("redis+cluster", "redis"), key_prefix)
    errors = queue.push({ListName(name): [message()] for name in "abcdefgh"})
    assert errors
    assert {type(error) for error in errors.values()} == {PushRefused}
    assert all("redis+cluster://" in str(error) for error in errors.values())
    with pytest.raises(BrokerUnavailable, match=r"redis\+cluster://"):
        queue.pull(list("abcdefgh"), 1, 0.1)
    queue.close()


def test_one_seed_of_a_cluster_is_enough(cluster: str, key_prefix: str) -> None:
    queue = connect(cluster.replace("://", f"://127.0.0.1:{free_port()},"), key_prefix)
    queue.ping()
    queue.close()
    lost = connect(f"redis+cluster://127.0.0.1:{free_port()}", key_prefix)
    with pytest.raises(BrokerUnavailable, match="Connection refused"):
        lost.ping()
    assert {type(error) for error in lost.push({ListName("a"): [message()]}).values()} == {PushRefused}
