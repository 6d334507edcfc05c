"""Locks under fire: holders that are stopped or killed, stores that are flushed, restarted, frozen or cut."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from sqlalchemy.exc import OperationalError

from taskkit import Settings, Taskkit
from taskkit.center import TaskCenter
from taskkit.errors import DatabaseUnavailable, LockLost, StoreError
from tests.centers import sql
from tests.peers import FLAVOURS, Peer, lock_of
from tests.proxy import Proxy
from tests.schemas import build
from tests.servers import MariaDB, Valkey, available
from tests.waiting import wait_until

pytestmark = pytest.mark.faults
pytest_plugins = ["tests.center_fixtures"]


@pytest.fixture
def kit(center_url: str, redis_url: str, key_prefix: str, tmp_path: Path) -> Iterator[Taskkit]:
    opened = Taskkit(
        Settings(home=tmp_path, database_url=center_url, redis_url=redis_url, key_prefix=key_prefix)
    )
    yield opened
    opened.close()


@pytest.fixture
def own_redis(sqlite_center_url: str, tmp_path: Path) -> Iterator[tuple[Taskkit, Valkey]]:
    """A Redis of the test's own, with SQL on SQLite."""
    with available(Valkey) as server:
        settings = Settings(home=tmp_path, database_url=sqlite_center_url, redis_url=server.url)
        kit = Taskkit(settings)
        yield kit, server
        server.resume()
        kit.close()


@pytest.fixture
def own_mariadb(tmp_path: Path) -> Iterator[tuple[Taskkit, MariaDB]]:
    """A MariaDB of the test's own."""
    with available(MariaDB) as server:
        url = f"{server.url}?ssl_disabled=1"
        kit = Taskkit(Settings(home=tmp_path, database_url=url))
        build(url)
        yield kit, server
        server.resume()
        kit.close()


# the holder


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_a_process_that_was_stopped_learns_that_it_lost_the_lock_before_it_acts(
    kit: Taskkit, flavour: str
) -> None:
    """Its order waits in its pipe: it is the first thing it does when it wakes up."""
    with Peer(kit.settings, flavour, "nightly", 1) as peer:
        assert peer.ask("acquire", 30) == "True"
        old = int(peer.ask("fence"))
        peer.signal(signal.SIGSTOP)
        with lock_of(kit, flavour, "nightly", timeout=30) as lock:
            peer.tell("check")
            peer.signal(signal.SIGCONT)
            assert peer.hear() == "LockLost"
            assert peer.ask("release") == "LockLost"
            assert lock.fence > old, "what the lock guards can refuse the old one"
            lock.check()
            assert peer.ask("acquire", 0) == "False"


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_a_process_that_was_stopped_past_the_life_has_lost_it_even_if_nobody_else_came(
    kit: Taskkit, flavour: str
) -> None:
    with Peer(kit.settings, flavour, "nightly", 1) as peer:
        assert peer.ask("acquire", 30) == "True"
        peer.signal(signal.SIGSTOP)
        time.sleep(1.2)
        peer.tell("check")
        peer.signal(signal.SIGCONT)
        assert peer.hear() == "LockLost"


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_a_short_stop_does_no_harm(kit: Taskkit, flavour: str) -> None:
    with Peer(kit.settings, flavour, "nightly", 20) as peer:
        assert peer.ask("acquire", 30) == "True"
        peer.signal(signal.SIGSTOP)
        time.sleep(0.5)
        peer.signal(signal.SIGCONT)
        assert peer.ask("check") == "None"
        assert peer.ask("release") == "None"


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_a_lock_whose_owner_was_killed_is_free_when_its_life_is_over(kit: Taskkit, flavour: str) -> None:
    with Peer(kit.settings, flavour, "nightly", 1) as peer:
        assert peer.ask("acquire", 30) == "True"
        old = int(peer.ask("fence"))
        peer.kill()
        with lock_of(kit, flavour, "nightly", timeout=30) as lock:
            assert lock.fence > old


# Redis


def test_rule_25_a_flush_gives_the_lock_to_a_second_holder_with_a_larger_number(
    own_redis: tuple[Taskkit, Valkey],
) -> None:
    """What the docs say of locks in Redis: they are lost with Redis, and the number tells."""
    kit, server = own_redis
    one, two = kit.redis_lock("nightly", ttl=0.9), kit.redis_lock("nightly")
    one.acquire()
    with redis.Redis.from_url(server.url) as client:
        client.flushall()
    assert two.acquire(blocking=False)
    assert two.fence > one.fence
    wait_until(lambda: one.lost)
    two.release()


def test_the_default_lock_outlives_a_flush_and_a_redis_that_is_away(
    own_redis: tuple[Taskkit, Valkey],
) -> None:
    kit, server = own_redis
    with kit.lock("nightly", ttl=3) as lock:
        with redis.Redis.from_url(server.url) as client:
            client.flushall()
        server.kill()
        assert not kit.lock("nightly").acquire(timeout=4)
        lock.check()


def test_a_restart_of_redis_without_its_data_is_learnt(own_redis: tuple[Taskkit, Valkey]) -> None:
    kit, server = own_redis
    with pytest.raises(LockLost, match="taken away"), kit.redis_lock("nightly", ttl=30) as lock:
        server.restart()
        lock._held.tenure._renewed()  # type: ignore[union-attr] - what the thread does every ten seconds


@pytest.mark.parametrize("how", ["kill", "pause"])
def test_a_redis_that_is_away_or_frozen_is_learnt_within_the_life(
    own_redis: tuple[Taskkit, Valkey], how: str
) -> None:
    kit, server = own_redis
    told: list[str] = []
    lock = kit.redis_lock("nightly", ttl=1.5, on_lost=told.append)
    lock.acquire()
    getattr(server, how)()
    wait_until(lambda: told, 20)
    assert "could not be renewed within its 1.5 s" in told[0]
    with pytest.raises(LockLost):
        lock.check()


def test_a_redis_that_is_away_for_a_moment_costs_nothing(own_redis: tuple[Taskkit, Valkey]) -> None:
    """Frozen for one renewal."""
    kit, server = own_redis
    with kit.redis_lock("nightly", ttl=9) as lock:
        server.pause()
        time.sleep(2.5)
        server.resume()
        assert not kit.redis_lock("nightly").acquire(timeout=8)
        lock.check()


def test_a_lock_that_cannot_be_released_ends_by_itself(
    own_redis: tuple[Taskkit, Valkey], caplog: pytest.LogCaptureFixture
) -> None:
    kit, server = own_redis
    with kit.redis_lock("nightly", ttl=30):
        server.kill()
    assert "lock nightly was not released and ends by itself" in caplog.text


# SQL


def test_a_killed_connection_costs_the_holder_nothing(kit: Taskkit) -> None:
    if kit.center.database.sqlite:
        pytest.skip("has no connections that could be killed")
    with kit.lock("nightly", ttl=5) as lock:
        killer = TaskCenter(str(kit.settings.database_url))
        for _ in range(20):
            mine, name = sql(killer, "SELECT CONNECTION_ID(), DATABASE()")[0]
            for row in sql(killer, "SHOW PROCESSLIST"):
                if row[0] != mine and row[3] == name:
                    with contextlib.suppress(OperationalError):  # it has gone by itself
                        sql(killer, f"KILL {row[0]}")
            time.sleep(0.3)
        killer.close()
        lock.check()
        assert not kit.lock("nightly").acquire(blocking=False)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_lost_reply_to_a_commit_neither_loses_nor_doubles_the_lock(
    mariadb_center_url: str, tmp_path: Path, when: str
) -> None:
    with Proxy(mariadb_center_url) as proxy:
        kit = Taskkit(Settings(home=tmp_path, database_url=proxy.url))
        kit.center.now()
        proxy.lose_commit(when)
        lock = kit.lock("nightly")
        assert lock.acquire(blocking=False)
        assert proxy.lost
        assert lock.fence == 1
        assert not kit.lock("nightly").acquire(blocking=False)
        proxy.lose_commit(when)
        lock.release()
        assert proxy.lost
        with kit.lock("nightly", timeout=0):
            pass
        proxy.lose_commit(when)
        assert kit.center.locks.next_fence("nightly") in {3, 4}
        kit.close()


def test_a_restart_of_the_database_keeps_the_lock(own_mariadb: tuple[Taskkit, MariaDB]) -> None:
    kit, server = own_mariadb
    with kit.lock("nightly", ttl=60) as lock:
        server.restart()
        lock._held.tenure._renewed()  # type: ignore[union-attr] - what the thread does every twenty seconds
        lock.check()
        assert not kit.lock("nightly").acquire(blocking=False)


def test_a_frozen_database_is_learnt_within_the_life_though_the_renewal_hangs(
    own_mariadb: tuple[Taskkit, MariaDB],
) -> None:
    kit, server = own_mariadb
    told: list[str] = []
    lock = kit.lock("nightly", ttl=1.5, on_lost=told.append)
    lock.acquire()
    server.pause()
    wait_until(lambda: told, 20)
    with pytest.raises(LockLost, match="could not be renewed"):
        lock.check()
    server.resume()
    with pytest.raises(LockLost):
        lock.release()
    with kit.lock("nightly", timeout=30) as again:
        assert again.fence == 2


def test_a_database_that_is_away_is_an_error_not_a_lock(own_mariadb: tuple[Taskkit, MariaDB]) -> None:
    kit, server = own_mariadb
    assert kit.center.locks
    server.kill()
    with pytest.raises(StoreError) as caught, kit.lock("nightly"):
        pytest.fail("must not get here")
    assert isinstance(caught.value, DatabaseUnavailable)
    assert "taskkit:taskkit" not in str(caught.value)
