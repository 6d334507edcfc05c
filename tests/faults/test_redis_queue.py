"""The Redis queue while its server is cut off, stopped or restarted; and its connections."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis

from taskkit.errors import BrokerUnavailable, PushRefused, PushUnknown
from taskkit.model import ListName, Message
from tests.faults.redis_steps import MAIL, MSG, Connect, blocked, push_error, works
from tests.servers import Valkey
from tests.waiting import wait_until

pytestmark = pytest.mark.faults
pytest_plugins = ["tests.faults.redis_fixtures"]


def test_redis_03_a_waiting_pull_survives_being_killed(
    server: Valkey, admin: redis.Redis, connect: Connect
) -> None:
    queue = connect(server.url)
    for _ in range(3):
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(queue.pull, ["mail"], 1, 20)
            wait_until(lambda: blocked(admin))
            admin.client_kill_filter(_type="normal", skipme=True)
            with pytest.raises(BrokerUnavailable, match="cut the connection"):
                waiting.result(5)
    assert works(queue)


def test_redis_03_a_connection_that_died_while_idle_is_replaced_before_the_push(
    server: Valkey, admin: redis.Redis, connect: Connect
) -> None:
    queue = connect(server.url)
    for _ in range(3):
        assert works(queue)
        admin.client_kill_filter(_type="normal", skipme=True)
        wait_until(lambda: len(admin.client_list()) == 1)


def test_redis_03_a_restart_is_survived(server: Valkey, connect: Connect) -> None:
    queue = connect(server.url)
    assert works(queue)
    server.kill()
    assert type(push_error(queue)) is PushRefused
    with pytest.raises(BrokerUnavailable):
        queue.pull(["mail"], 1, 5)
    server.start()
    assert works(queue)


def test_redis_03_a_pull_that_waits_through_a_crash_comes_back_at_once(
    server: Valkey, admin: redis.Redis, connect: Connect
) -> None:
    queue = connect(server.url)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(queue.pull, ["mail"], 1, 20)
        wait_until(lambda: blocked(admin))
        server.kill()
        with pytest.raises(BrokerUnavailable):
            waiting.result(5)
    server.start()
    assert works(queue)


def test_rule_04_a_push_to_a_stopped_server_is_unknown_and_never_doubled(
    server: Valkey, admin: redis.Redis, connect: Connect
) -> None:
    queue = connect(server.url)
    queue.ping()
    server.pause()
    error = push_error(queue)
    server.resume()
    assert type(error) is PushUnknown
    assert not error.can_retry
    assert "did not answer in time" in str(error)
    wait_until(lambda: queue.depth([MAIL])[MAIL] == 1)
    assert queue.push({MAIL: [Message(2)]}) == {}
    assert [m.task_id for _, m in queue.pull(["mail"], 9, 1).messages] == [1, 2]


def test_rule_04_a_stopped_server_that_was_not_connected_has_got_nothing(
    server: Valkey, connect: Connect
) -> None:
    server.pause()
    error = push_error(connect(server.url))
    server.resume()
    assert type(error) is PushRefused
    assert "timed out" in str(error)


def test_redis_03_a_pull_from_a_stopped_server_ends_soon(
    server: Valkey, admin: redis.Redis, connect: Connect
) -> None:
    queue = connect(server.url)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(queue.pull, ["mail"], 1, 0.5)
        wait_until(lambda: blocked(admin))
        server.pause()
        with pytest.raises(BrokerUnavailable, match="did not answer in time"):
            waiting.result(5)
    server.resume()
    assert works(queue)


def test_an_answer_that_comes_late_is_not_taken_for_the_next(server: Valkey, connect: Connect) -> None:
    queue = connect(server.url)
    queue.push({MAIL: [MSG] * 7})
    server.pause()
    with pytest.raises(BrokerUnavailable):
        queue.ping()
    server.resume()
    assert queue.depth([MAIL]) == {MAIL: 7}


def test_an_interrupt_leaves_no_answer_behind(server: Valkey, connect: Connect) -> None:
    queue = connect(server.url, patience=20)
    queue.push({MAIL: [MSG] * 7})
    queue.ping()
    server.pause()
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(KeyboardInterrupt):
            queue.ping()
    finally:
        signal.signal(signal.SIGALRM, before)
    threading.Timer(0.1, server.resume).start()
    assert queue.depth([MAIL]) == {MAIL: 7}


def test_a_server_that_accepts_and_never_answers(connect: Connect) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        queue = connect(f"redis://127.0.0.1:{mute.getsockname()[1]}")
        began = time.monotonic()
        with pytest.raises(BrokerUnavailable, match="timed out"):
            queue.pull(["mail"], 1, 20)
        assert time.monotonic() - began < 15


def test_there_are_two_connections_at_most(server: Valkey, admin: redis.Redis, connect: Connect) -> None:
    queue = connect(server.url)
    with ThreadPoolExecutor(8) as pool:
        waiting = pool.submit(queue.pull, ["none"], 1, 2)
        wait_until(lambda: blocked(admin))
        results = list(pool.map(lambda n: queue.depth([ListName(str(n))]), range(50)))
        assert len(admin.client_list()) == 1 + 2
        assert [list(result.values()) for result in results] == [[0]] * 50
        queue.push({ListName("none"): [MSG]})
        assert waiting.result(5).messages


def test_a_fork_does_not_share_the_connection(server: Valkey, admin: redis.Redis, connect: Connect) -> None:
    queue = connect(server.url)
    queue.push({MAIL: [MSG] * 3})
    wait, go = os.pipe()
    child = os.fork()
    if child == 0:
        right = queue.depth([MAIL]) == {MAIL: 3}
        os.close(go)
        os.read(wait, 1)
        os._exit(0 if right else 1)
    wait_until(lambda: len(admin.client_list()) == 1 + 2)
    os.close(go)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    os.close(wait)
    assert queue.listing(MAIL) == [MSG] * 3


def test_a_list_too_long_to_list_proves_nothing(
    server: Valkey, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("taskkit.queues.redis.LISTING_MAX", 5)
    queue = connect(server.url)
    queue.push({MAIL: [MSG] * 5})
    assert queue.listing(MAIL) == [MSG] * 5
    queue.push({MAIL: [MSG]})
    assert queue.listing(MAIL) is None


def test_the_socket_of_a_server(server: Valkey, connect: Connect) -> None:
    assert works(connect(f"unix://{server.socket}?db=1"))


def test_what_the_server_says_of_itself(server: Valkey, admin: redis.Redis, connect: Connect) -> None:
    facts = connect(server.url).server_facts()
    assert (facts.product, facts.lmpop, facts.persistence, facts.role) == ("valkey", True, "none", "master")
    assert (facts.maxmemory_policy, facts.maxmemory) == ("noeviction", 0)
    assert facts.version
    assert facts.maxclients
    admin.config_set("appendonly", "yes")
    admin.config_set("save", "60 1")
    admin.config_set("maxmemory-policy", "allkeys-lru")
    facts = connect(server.url).server_facts()
    assert (facts.persistence, facts.maxmemory_policy) == ("rdb+aof", "allkeys-lru")
