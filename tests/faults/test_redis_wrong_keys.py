"""Keys that somebody made something else than a list."""

from __future__ import annotations

import logging

import pytest
import redis

from taskkit.errors import BrokerUnavailable, PushRefused
from taskkit.model import ListName, Message
from taskkit.queues import list_puller
from tests.faults.fake_redis import FakeRedis
from tests.faults.redis_steps import MAIL, MSG, Connect
from tests.servers import Valkey
from tests.waiting import wait_until

pytestmark = pytest.mark.faults
pytest_plugins = ["tests.faults.redis_fixtures"]


def test_a_key_that_is_no_list_hurts_no_other(
    server: Valkey, admin: redis.Redis, connect: Connect, caplog: pytest.LogCaptureFixture, lmpop: bool
) -> None:
    wrong = ListName("mail", 0)
    admin.set("task:queue:{mail}:0", "x")
    queue = connect(server.url, lmpop=lmpop)
    errors = queue.push({wrong: [MSG], MAIL: [MSG], ListName("b", 9): [MSG]})
    assert {name: type(error) for name, error in errors.items()} == {wrong: PushRefused}
    assert queue.depth([wrong, MAIL]) == {wrong: 0, MAIL: 1}
    assert queue.oldest([wrong]) == {wrong: None}
    assert queue.listing(wrong) == []
    assert len(queue.pull(["b", "mail"], 10, 0).messages) == 2
    assert queue.pull(["b", "mail"], 10, 0.05).messages == []
    warned = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert ["{mail}:0 is not a list" in record.getMessage() for record in warned] == [True]


def test_a_key_that_is_a_list_again_is_served_again(
    server: Valkey, admin: redis.Redis, connect: Connect, monkeypatch: pytest.MonkeyPatch, lmpop: bool
) -> None:
    monkeypatch.setattr(list_puller, "AVOID_S", 0.2)
    admin.set("task:queue:{mail}", "x")
    queue = connect(server.url, lmpop=lmpop)
    assert queue.pull(["mail"], 10, 0.01).messages == []
    admin.delete("task:queue:{mail}")
    queue.push({MAIL: [MSG]})
    wait_until(lambda: queue.pull(["mail"], 10, 0).messages, 5)


def test_a_queue_of_which_no_key_is_a_list(
    server: Valkey, admin: redis.Redis, connect: Connect, lmpop: bool
) -> None:
    for priority in range(10):
        admin.set(connect(server.url).keys.list(ListName("mail", priority)), "x")
    queue = connect(server.url, lmpop=lmpop)
    for timeout in (0, 0.1):
        with pytest.raises(BrokerUnavailable, match="list"):
            queue.pull(["mail"], 1, timeout)


def test_a_cut_while_looking_for_the_wrong_key_blames_none(connect: Connect) -> None:
    replies = iter(
        [
            b"-WRONGTYPE Operation against a key\r\n",
            None,
            b'*2\r\n$17\r\ntask:queue:{mail}\r\n*1\r\n$13\r\n{"task_id":9}\r\n',
        ]
    )
    with FakeRedis(lambda _: next(replies)) as fake:
        queue = connect(f"redis://{fake.address}")
        with pytest.raises(BrokerUnavailable):
            queue.pull(["mail"], 1, 0)
        assert queue.pull(["mail"], 1, 0).messages == [(MAIL, Message(9))]


def test_what_was_taken_before_a_cut_is_not_lost(connect: Connect) -> None:
    replies = iter([b'*2\r\n$17\r\ntask:queue:{mail}\r\n*1\r\n$13\r\n{"task_id":9}\r\n', None, None])
    with FakeRedis(lambda _: next(replies)) as fake:
        queue = connect(f"redis://{fake.address}")
        assert queue.pull(["mail"], 50, 1).messages == [(MAIL, Message(9))]


def test_a_bell_that_is_no_list(server: Valkey, admin: redis.Redis, connect: Connect) -> None:
    admin.set("task:wake", "x")
    queue = connect(server.url)
    for call in (queue.ring, lambda: queue.wait_ring(0.1)):
        with pytest.raises(BrokerUnavailable, match="something else than a list"):
            call()
