"""Rings for whose answer nobody waits: what is wrong is told by a later one, and no other call is disturbed."""

from __future__ import annotations

import time

import pytest

from taskkit.errors import BrokerUnavailable
from taskkit.model import NO_TASK
from taskkit.queues import wire
from taskkit.queues.redis import RedisQueue
from tests.faults.fake_redis import FakeRedis
from tests.faults.redis_steps import Connect, works
from tests.servers import Valkey
from tests.waiting import wait_until

pytestmark = pytest.mark.faults
pytest_plugins = ["tests.faults.redis_fixtures"]


def told(queue: RedisQueue) -> str:
    """What the next rings say, as soon as one says something."""

    def ring() -> str:
        try:
            queue.ring(wait=False)
        except BrokerUnavailable as error:
            return str(error)
        return ""

    return str(wait_until(ring, 10))


def test_redis_06_a_refusal_is_told_by_a_later_ring(connect: Connect) -> None:
    with FakeRedis(lambda c: b"-OOM command not allowed\r\n" if c[0] == b"RPUSH" else b"+PONG\r\n") as fake:
        queue = connect(f"redis://{fake.address}")
        queue.ring(wait=False)
        queue.ping()
        assert "out of memory" in told(queue)
        queue.ping()


def test_redis_03_a_server_that_hangs_holds_nobody_up_and_is_noticed(
    server: Valkey, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "SILENT_S", 0.5)
    queue = connect(server.url, patience=5)
    queue.ring()
    assert queue.wait_ring(0) == NO_TASK
    server.pause()
    try:
        began = time.monotonic()
        for _ in range(20):
            queue.ring(wait=False)
        assert time.monotonic() - began < 4  # no answer was waited for, which takes five seconds
        time.sleep(0.6)
        with pytest.raises(BrokerUnavailable, match="did not answer in time"):
            queue.ring(wait=False)
        assert time.monotonic() - began < 4, "nor is it dialled anew, which takes as long"
    finally:
        server.resume()
    assert works(queue)
    assert queue.wait_ring(5) == NO_TASK


def test_redis_03_a_restart_between_two_rings_is_survived(server: Valkey, connect: Connect) -> None:
    queue = connect(server.url)
    queue.ring(wait=False)
    server.kill()
    assert "redis" in told(queue)
    server.start()
    wait_until(lambda: works(queue))
    queue.ring(wait=False)
    assert queue.wait_ring(5) == NO_TASK


def test_a_ring_just_before_the_end_is_heard(server: Valkey, connect: Connect) -> None:
    queue, other = connect(server.url), connect(server.url)
    queue.ring(wait=False)
    queue.close()
    assert other.wait_ring(5) == NO_TASK


def test_after_close_a_ring_says_so(server: Valkey, connect: Connect) -> None:
    queue = connect(server.url)
    queue.close()
    with pytest.raises(BrokerUnavailable, match="closed"):
        queue.ring(wait=False)
