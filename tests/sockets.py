"""Who is connected to a server, seen from both ends: the server's own list, and the sockets of a process tree."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Self
from urllib.parse import urlsplit

import psutil
import redis

from tests.databases import connect
from tests.processes import Process

OPEN = {psutil.CONN_ESTABLISHED, psutil.CONN_SYN_SENT}
EVERY_S = 0.02


def sockets(pid: int, port: int) -> set[int]:
    """The local ports from which one process is connected, or connecting, to a port of this machine."""
    with contextlib.suppress(psutil.Error):
        links = psutil.Process(pid).net_connections(kind="tcp")
        return {
            link.laddr.port
            for link in links
            if link.raddr and link.raddr.port == port and link.status in OPEN
        }
    return set()


def tree(process: Process) -> list[int]:
    """A process and all its descendants."""
    return [process.pid, *(one.pid for one in process.family())]


class Census:
    """Counts, again and again while the block lasts, by how many connections each process is served."""

    def __init__(self, database_url: str, redis_url: str, **processes: Process) -> None:
        self.ports = {"sql": urlsplit(database_url).port or 3306, "redis": urlsplit(redis_url).port or 6379}
        self.most: dict[str, Counter[str]] = {store: Counter() for store in self.ports}
        self.children: Counter[str] = Counter()
        self.looks = 0
        self._processes = processes
        self._database, self._redis = database_url, redis_url
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        with connect(self._database) as link, redis.Redis.from_url(self._redis) as client:
            while not self._ended.wait(EVERY_S):
                self._look({"sql": lambda: sql_ports(link), "redis": lambda: redis_ports(client)})
                self.looks += 1

    def _look(self, listed: dict[str, Callable[[], set[int]]]) -> None:
        for store, ask in listed.items():
            known = ask()
            for name, process in self._processes.items():
                own, *rest = (len(sockets(pid, self.ports[store]) & known) for pid in tree(process))
                self.most[store][name] = max(self.most[store][name], own + sum(rest))
                self.children[store] = max(self.children[store], sum(rest))


def sql_ports(link: Any) -> set[int]:
    """The ports of all clients that use the database of this connection."""
    with link.cursor() as cursor:
        cursor.execute("SELECT HOST FROM information_schema.PROCESSLIST WHERE DB = DATABASE()")
        return {int(host.rpartition(":")[2]) for (host,) in cursor.fetchall() if ":" in host}


def redis_ports(client: redis.Redis) -> set[int]:
    """The ports of all clients."""
    return {int(one["addr"].rpartition(":")[2]) for one in client.client_list() if ":" in one["addr"]}


def watch(seconds: float, look: Callable[[], int]) -> Iterator[int]:
    """What ``look`` sees, again and again for so long."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        yield look()
        time.sleep(EVERY_S)
