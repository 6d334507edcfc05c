"""The servers that other tests lean on do what their names say."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pymysql
import pytest
import redis

from tests.servers import MariaDB, Valkey, available, connect
from tests.waiting import wait_until


@pytest.fixture
def own_valkey() -> Iterator[Valkey]:
    with available(Valkey) as server:
        yield server


def test_the_account_owns_its_databases_and_no_others(mariadb: MariaDB) -> None:
    with connect(mariadb.url) as link, link.cursor() as cursor:
        cursor.execute("SELECT COUNT(*) FROM information_schema.processlist")
        with pytest.raises(pymysql.err.OperationalError, match="denied"):
            cursor.execute("CREATE DATABASE other")


def test_a_commit_survives_kill_9(mariadb: MariaDB) -> None:
    with connect(mariadb.url) as link, link.cursor() as cursor:
        cursor.execute("CREATE TABLE kept (n INT) ENGINE=InnoDB")
        cursor.execute("INSERT INTO kept VALUES (7)")
    mariadb.kill()
    mariadb.start()
    assert mariadb.admin("SELECT n FROM taskkit_test.kept") == [(7,)]
    mariadb.admin("DROP TABLE taskkit_test.kept")


@pytest.mark.parametrize("turn", [1, 2])
def test_every_test_has_an_empty_database(database_url: str, tmp_path: Path, turn: int) -> None:
    if database_url.startswith("sqlite"):
        assert database_url == f"sqlite:///{tmp_path}/taskkit.db"
        return
    with connect(database_url) as link, link.cursor() as cursor:
        assert cursor.execute("SHOW TABLES") == 0
        cursor.execute("CREATE TABLE t (n INT)")


@pytest.mark.parametrize("turn", [1, 2])
def test_every_test_has_an_empty_redis(redis_url: str, turn: int) -> None:
    with redis.Redis.from_url(redis_url) as client:
        assert client.dbsize() == 0
        client.set("left", "behind")


def test_a_server_can_be_killed_and_started_on_its_port(own_valkey: Valkey) -> None:
    url, pid = own_valkey.url, own_valkey.pid
    own_valkey.kill()
    assert not own_valkey.answers()
    own_valkey.start()
    assert (own_valkey.url, own_valkey.answers()) == (url, True)
    assert own_valkey.pid != pid


def test_a_paused_server_accepts_and_never_answers(own_valkey: Valkey) -> None:
    own_valkey.pause()
    with socket.create_connection(("127.0.0.1", own_valkey.port), 1) as link:
        link.settimeout(0.1)
        link.sendall(b"PING\r\n")
        with pytest.raises(TimeoutError):
            link.recv(64)
        own_valkey.resume()
        link.settimeout(5)
        assert link.recv(64) == b"+PONG\r\n"


def test_closing_leaves_no_process_and_no_folder(own_valkey: Valkey) -> None:
    pid = own_valkey.pid
    own_valkey.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert not own_valkey.folder.exists()


def test_no_setting_of_the_developer_reaches_a_test(tmp_path: Path) -> None:
    assert not [key for key in os.environ if key.startswith("TASKKIT_")]
    assert Path.cwd() == tmp_path


def test_wait_until_returns_the_value_and_keeps_its_deadline() -> None:
    answers = iter([0, 0, 5])
    assert wait_until(lambda: next(answers)) == 5
    with pytest.raises(AssertionError, match="within 0"):
        wait_until(lambda: False, 0)
