"""A server that a test may break, and queues on it that lose patience soon.

A test module takes them with ``pytest_plugins = ["tests.faults.redis_fixtures"]``.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from taskkit.queues import wire
from taskkit.queues.dial import dialler
from taskkit.queues.redis import RedisQueue
from taskkit.queues.trouble import Reporter
from taskkit.queues.wire import Wire
from taskkit.settings.brokers import parse
from tests.faults.redis_steps import Connect
from tests.servers import Valkey, available

PATIENCE_S = 0.3


@pytest.fixture
def server() -> Iterator[Valkey]:
    """A server that the test may break."""
    with available(Valkey) as server:
        yield server


@pytest.fixture
def admin(server: Valkey) -> Iterator[redis.Redis]:
    with redis.Redis(port=server.port, password=server.options.get("requirepass")) as client:
        yield client


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Iterator[Connect]:
    """Queues that lose patience soon, so that tests are quick."""
    monkeypatch.setattr(wire, "SLACK_S", PATIENCE_S)
    made: list[RedisQueue] = []

    def connect(url: str, prefix: str = "", lmpop: bool = True, patience: float = PATIENCE_S) -> RedisQueue:
        target = parse(url)
        reporter = Reporter(target.address, target.secrets)
        wires = [Wire(dialler(target, patience, patience), reporter) for _ in range(2)]
        made.append(RedisQueue(*wires, prefix, lmpop=lmpop))
        return made[-1]

    yield connect
    for queue in made:
        queue.close()


@pytest.fixture(params=[True, False], ids=["lmpop", "redis-6.2"])
def lmpop(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)
