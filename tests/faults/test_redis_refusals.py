"""Every way in which Redis says no reaches the caller as what it is."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis

from taskkit.errors import BrokerUnavailable, PushRefused, PushUnknown
from taskkit.model import DeadMessage, ListName, Message
from tests.faults.fake_redis import FakeRedis
from tests.faults.redis_steps import MAIL, MSG, Connect, blocked, push_error, works
from tests.servers import Valkey, available, free_port
from tests.waiting import wait_until

pytestmark = pytest.mark.faults
pytest_plugins = ["tests.faults.redis_fixtures"]


REFUSALS = [
    (b"-OOM command not allowed when used memory > 'maxmemory'.", "out of memory"),
    (b"-READONLY You can't write against a read only replica.", "read-only replica"),
    (b"-LOADING Redis is loading the dataset in memory", "loading its data"),
    (
        b"-MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
        "save to disk",
    ),
    (b"-NOPERM User w has no permissions to run the 'rpush' command", "ACL SETUSER"),
    (b"-NOAUTH Authentication required.", "asks for a password"),
    (b"-WRONGPASS invalid username-password pair or user is disabled.", "refuses user or password"),
    (b"-MASTERDOWN Link with MASTER is down", "lost its master"),
    (b"-CLUSTERDOWN The cluster is down", "cluster that is down"),
    (b"-MOVED 3999 127.0.0.1:6381", "redis+cluster://"),
    (b"-ASK 3999 127.0.0.1:6381", "moving this slot"),
    (b"-TRYAGAIN Multiple keys request during rehashing of slot", "moving this slot"),
    (b"-CROSSSLOT Keys in request don't hash to the same slot", "redis+cluster://"),
    (b"-WRONGTYPE Operation against a key holding the wrong kind of value", "something else than a list"),
    (b"-NOREPLICAS Not enough good replicas to write.", "too few replicas"),
    (b"-BUSY Redis is busy running a script.", "busy with a script"),
    (b"-ERR unknown command 'RPUSH', with args beginning with: 'x'", "does not know this command"),
]


@pytest.mark.parametrize(("reply", "words"), REFUSALS, ids=[reply[:12].decode() for reply, _ in REFUSALS])
def test_rule_04_a_definite_refusal_is_told_as_one(connect: Connect, reply: bytes, words: str) -> None:
    with FakeRedis(lambda _: reply + b"\r\n") as fake:
        queue = connect(f"redis://{fake.address}")
        error = push_error(queue)
        assert type(error) is PushRefused
        assert words in str(error)
        assert fake.address in str(error)
        assert "task:queue:{mail}" in str(error)
        assert fake.count(b"RPUSH") == 1
        for call in (
            queue.ping,
            queue.ring,
            lambda: queue.pull(["mail"], 1, 0.1),
            lambda: queue.wait_ring(0.1),
        ):
            with pytest.raises(BrokerUnavailable):
                call()


def test_rule_04_an_error_that_nobody_knows_proves_nothing(connect: Connect) -> None:
    with FakeRedis(lambda _: b"-ERR upstream failure\r\n") as fake:
        error = push_error(connect(f"redis://{fake.address}"))
    assert type(error) is PushUnknown
    assert "upstream failure" in str(error)


def test_rule_04_a_push_that_is_cut_may_have_arrived_and_is_sent_once(connect: Connect) -> None:
    with FakeRedis(lambda command: None if command[0] == b"RPUSH" else b"+PONG\r\n") as fake:
        queue = connect(f"redis://{fake.address}")
        queue.ping()
        assert type(push_error(queue)) is PushUnknown
        assert fake.count(b"RPUSH") == 1
        queue.ping()


def test_each_list_has_its_own_answer(connect: Connect) -> None:
    answers = {
        b"task:queue:{a}": b":1\r\n",
        b"task:queue:{b}": b"-OOM command not allowed\r\n",
        b"task:queue:{c}": None,
    }
    with FakeRedis(lambda command: answers[command[1]]) as fake:
        errors = connect(f"redis://{fake.address}").push({ListName(q): [MSG] for q in "abc"})
    assert {name.queue: type(error) for name, error in errors.items()} == {"b": PushRefused, "c": PushUnknown}


def test_nothing_listens(connect: Connect) -> None:
    port = free_port()
    queue = connect(f"redis://user:s3cret@127.0.0.1:{port}")
    errors = queue.push({MAIL: [MSG], ListName("b"): [MSG]})
    assert [type(error) for error in errors.values()] == [PushRefused, PushRefused]
    assert f"redis 127.0.0.1:{port} cannot be reached (Connection refused): is it running" in str(
        errors[MAIL]
    )
    calls: list[Callable[[], object]] = [
        queue.ping,
        queue.ring,
        queue.server_facts,
        lambda: queue.pull(["mail"], 1, 5),
        lambda: queue.wait_ring(5),
        lambda: queue.depth([MAIL]),
        lambda: queue.oldest([MAIL]),
        lambda: queue.listing(MAIL),
        lambda: queue.bury([DeadMessage(b"", "", "")]),
    ]
    for call in calls:
        with pytest.raises(BrokerUnavailable, match="Connection refused") as caught:
            call()
        assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("unix:///nowhere/redis.sock", "/nowhere/redis.sock cannot be reached (No such file or directory)"),
        ("redis://no-such-host.invalid", "no-such-host.invalid:6379 cannot be reached"),
        (f"redis://{'x' * 70}.com", "cannot be reached"),
    ],
)
def test_there_is_no_such_place(connect: Connect, url: str, words: str) -> None:
    error = push_error(connect(url))
    assert type(error) is PushRefused
    assert words in str(error)


def test_a_port_that_speaks_something_else(connect: Connect) -> None:
    answer = b"HTTP/1.1 400 Bad Request\r\n\r\n"
    with FakeRedis(lambda _: answer) as fake, pytest.raises(BrokerUnavailable, match="does not speak Redis"):
        connect(f"redis://{fake.address}/1").ping()


@pytest.mark.parametrize(
    "echo", [b"-ERR unknown command 'AUTH', with args beginning with: '%s'", b"-ERR what is %s?"]
)
def test_a_password_that_the_server_echoes_is_not_shown(connect: Connect, echo: bytes) -> None:
    with FakeRedis(lambda command: echo % command[-1] + b"\r\n") as fake:
        with pytest.raises(BrokerUnavailable) as caught:
            connect(f"redis://:s3cret@{fake.address}").ping()
        assert "s3cret" not in str(caught.value)
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None


def test_rule_04_redis_06_full_memory_refuses_pushes_and_lets_pulls_pass(
    server: Valkey, admin: redis.Redis, connect: Connect
) -> None:
    queue = connect(server.url)
    queue.push({MAIL: [MSG] * 5})
    admin.config_set("maxmemory", "1mb")
    error = push_error(queue)
    assert type(error) is PushRefused
    assert "out of memory" in str(error)
    assert len(queue.pull(["mail"], 5, 1).messages) == 5
    admin.config_set("maxmemory", "0")
    assert works(queue)


def test_rule_04_a_server_that_became_a_replica_refuses(
    server: Valkey, admin: redis.Redis, connect: Connect
) -> None:
    queue = connect(server.url)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(queue.pull, ["mail"], 1, 20)
        wait_until(lambda: blocked(admin))
        admin.replicaof("127.0.0.1", str(free_port()))
        with pytest.raises(BrokerUnavailable, match="replica"):
            waiting.result(5)
    assert "read-only replica" in str(push_error(queue))
    with pytest.raises(BrokerUnavailable):
        queue.pull(["mail"], 1, 0)
    admin.replicaof("NO", "ONE")
    assert works(queue)


def test_a_user_who_may_only_use_its_own_keys(server: Valkey, admin: redis.Redis, connect: Connect) -> None:
    admin.execute_command("ACL SETUSER w on >pw ~shop:* resetchannels -@all +@list +@connection")
    url = f"redis://w:pw@127.0.0.1:{server.port}"
    assert works(connect(url, "shop"))
    other = connect(url, "other")
    assert type(push_error(other)) is PushRefused
    with pytest.raises(BrokerUnavailable, match="forbids"):
        other.pull(["mail"], 1, 0)
    facts = connect(url, "shop").server_facts()
    assert (facts.version, facts.persistence, facts.maxmemory_policy) == (None, None, None)


def test_a_user_who_may_not_use_lmpop(server: Valkey, admin: redis.Redis, connect: Connect) -> None:
    admin.execute_command("ACL SETUSER w on >pw ~* -@all +@list +@connection -lmpop -blmpop")
    queue = connect(f"redis://w:pw@127.0.0.1:{server.port}")
    assert works(queue)
    assert queue.pull(["mail"], 1, 0.05).messages == []


@pytest.mark.parametrize(
    ("account", "words"),
    [("", "asks for a password"), (":wr0ng@", "refuses user or password"), ("u:wr0ng@", "refuses user")],
)
def test_who_is_not_let_in(connect: Connect, account: str, words: str) -> None:
    with available(Valkey, requirepass="right") as server:
        error = push_error(connect(f"redis://{account}127.0.0.1:{server.port}"))
        assert type(error) is PushRefused
        assert words in str(error)
        assert "wr0ng" not in str(error)
        assert works(connect(f"redis://:right@127.0.0.1:{server.port}/3"))


def test_rule_27_a_server_without_lmpop(connect: Connect) -> None:
    waiting = [json.dumps({"task_id": 5}).encode()]

    def answer(command: list[bytes]) -> bytes:
        mine = len(command) > 1 and command[1] == b"task:queue:{mail}"
        if command[0] == b"LLEN":
            return b":%d\r\n" % (mine and len(waiting))
        if command[0] == b"LPOP":
            raw = waiting.pop()
            return b"*1\r\n$%d\r\n%s\r\n" % (len(raw), raw)
        return (
            b"*-1\r\n" if command[0] == b"BLPOP" else b"-ERR unknown command `%s`, with args\r\n" % command[0]
        )

    with FakeRedis(answer) as fake:
        queue = connect(f"redis://{fake.address}")
        assert queue.pull(["mail"], 10, 1).messages == [(MAIL, Message(5))]
        assert queue.pull(["mail"], 10, 1).messages == []
        assert fake.count(b"LMPOP") == 1


def test_no_connection_is_left(connect: Connect) -> None:
    with available(Valkey, maxclients=2) as server:
        held = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(2)]
        error = push_error(connect(server.url))
        for one in held:
            one.close()
    assert type(error) is PushRefused
    assert "maxclients" in str(error)
