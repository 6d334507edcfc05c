"""A pooler in front of a MySQL server, of the strictest kind: each transaction gets another session, which is nobody's.

Any number of clients share a few server connections. A connection is lent from a client's first statement until the
server says that no transaction is open; then it is reset, left as another client might leave it, and put back. It speaks
what PyMySQL speaks: the greeting, COM_QUERY, COM_PING and COM_QUIT; several statements at once, and their many results.
"""

from __future__ import annotations

import contextlib
import queue
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Self
from urllib.parse import urlsplit

import pymysql
from pymysql.constants import CLIENT, COMMAND, SERVER_STATUS

from tests.databases import connect
from tests.proxy import close

OK = b"\x00\x00\x00\x02\x00\x00\x00"
COM_RESET_CONNECTION = b"\x1f"
MORE = SERVER_STATUS.SERVER_MORE_RESULTS_EXISTS
LEFT_BEHIND = (
    "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
    "SET NAMES latin1",
    "SET SESSION time_zone = '+08:00', sql_mode = 'NO_BACKSLASH_ESCAPES', innodb_lock_wait_timeout = 1, "
    "lock_wait_timeout = 86400, autocommit = 1",
)
"""What somebody else's session looks like."""


class Pooler:
    """Listens on a port of its own; ``url`` is the server's URL with that port."""

    def __init__(self, url: str, size: int = 3, left_behind: Sequence[str] = LEFT_BEHIND) -> None:
        parts = urlsplit(url)
        self.listener = socket.create_server(("127.0.0.1", 0))
        port = self.listener.getsockname()[1]
        self.url = parts._replace(netloc=f"{parts.username}:{parts.password}@127.0.0.1:{port}").geturl()
        self.lent: Counter[int] = Counter()
        """How often each server connection was lent."""
        self.clients = 0
        self._left_behind = left_behind
        self._free: queue.SimpleQueue[Lent] = queue.SimpleQueue()
        self._all = [Lent(connect(url, client_flag=CLIENT.MULTI_STATEMENTS)) for _ in range(size)]
        self.greeting = self._all[0].raw.get_server_info().encode()
        self._links: list[socket.socket] = []
        for one in self._all:
            self._put_back(one)
        self._threads: list[threading.Thread] = []
        self._begin(self._accept)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for link in [self.listener, *self._links]:
            close(link)
        for thread in self._threads:
            thread.join(10)
        for one in self._all:
            with contextlib.suppress(pymysql.Error, OSError):
                one.raw.close()

    def _begin(self, act: Callable[..., None], *arguments: Any) -> None:
        self._threads.append(threading.Thread(target=act, args=arguments, daemon=True))
        self._threads[-1].start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                link, _ = self.listener.accept()
                self._links.append(link)
                self.clients += 1
                self._begin(self._serve, link, self.clients)

    def _serve(self, link: socket.socket, number: int) -> None:
        """One client, until it leaves; a transaction that it leaves open is undone."""
        lent: Lent | None = None
        file = link.makefile("rb")
        try:
            send(link, 0, greet(self.greeting, number))
            read(file)
            send(link, 2, OK)
            while (packet := read(file)) and packet[4] != COMMAND.COM_QUIT:
                if packet[4] == COMMAND.COM_PING:
                    send(link, 1, OK)
                    continue
                lent = lent or self._lend()
                lent.pass_on(packet, link)
                if not lent.busy:
                    lent = self._put_back(lent)
        except OSError:
            pass
        finally:
            file.close()
            close(link)
            if lent is not None:
                self._put_back(lent)

    def _lend(self) -> Lent:
        one = self._free.get(timeout=60)
        self.lent[one.raw.thread_id()] += 1
        return one

    def _put_back(self, one: Lent) -> None:
        with contextlib.suppress(OSError, pymysql.Error):  # closed, since the test is over
            one.reset(self._left_behind)
            self._free.put(one)


class Lent:
    """One connection to the server; ``busy`` while a transaction is open."""

    def __init__(self, raw: Any) -> None:
        self.raw, self.busy = raw, False

    def reset(self, left_behind: Sequence[str]) -> None:
        """Roll back, forget everything, and be as another client left it."""
        send(self.raw._sock, 0, COM_RESET_CONNECTION)
        assert read(self.raw._rfile)[4] == 0
        with self.raw.cursor() as cursor:
            for statement in left_behind:
                cursor.execute(statement)
        self.busy = False

    def pass_on(self, command: bytes, link: socket.socket) -> None:
        """A command to the server, and its whole answer to the client."""
        self.raw._sock.sendall(command)
        more = True
        while more:
            more = self._pass_result(link)

    def _pass_result(self, link: socket.socket) -> bool:
        """One result; returns whether another one follows."""
        head = self._pass_packet(link)
        if head[4] == 0xFF:
            return False
        if head[4] == 0:
            return self._note(ok_status(head[4:]))
        self._pass_until_end(link)  # the columns
        return self._note(self._pass_until_end(link))

    def _pass_until_end(self, link: socket.socket) -> int:
        """Packets up to one that ends the columns or the rows; its status."""
        while True:
            packet = self._pass_packet(link)
            if packet[4] == 0xFF:
                return int(self.busy)
            if packet[4] == 0xFE and len(packet) < 13:
                return int(struct.unpack_from("<H", packet, 7)[0])

    def _note(self, status: int) -> bool:
        self.busy = bool(status & SERVER_STATUS.SERVER_STATUS_IN_TRANS)
        return bool(status & MORE)

    def _pass_packet(self, link: socket.socket) -> bytes:
        packet = read(self.raw._rfile)
        if not packet:
            raise OSError("the server has gone")
        link.sendall(packet)
        return packet


def read(file: Any) -> bytes:
    """One packet with its head; empty at the end."""
    head = file.read(4)
    return b"" if len(head) < 4 else head + file.read(int.from_bytes(head[:3], "little"))


def send(link: socket.socket, number: int, body: bytes) -> None:
    link.sendall(len(body).to_bytes(3, "little") + bytes([number]) + body)


def greet(version: bytes, number: int) -> bytes:
    """Handshake V10 for mysql_native_password; whatever password comes is taken, since this is a test."""
    flags = CLIENT.CAPABILITIES | CLIENT.CONNECT_WITH_DB | CLIENT.MULTI_STATEMENTS | CLIENT.FOUND_ROWS
    low, high = flags & 0xFFFF, flags >> 16
    fixed = struct.pack("<HBHHB10x", low, 45, SERVER_STATUS.SERVER_STATUS_AUTOCOMMIT, high, 21)
    salt = b"8 letter" + b"\0" + fixed + b"and 12 more." + b"\0" + b"mysql_native_password\0"
    return b"\x0a" + version + b"\0" + struct.pack("<I", number) + salt


def ok_status(body: bytes) -> int:
    """The status in an OK packet, behind two numbers of any length."""
    at = 1
    for _ in range(2):
        at += {0xFC: 3, 0xFD: 4, 0xFE: 9}.get(body[at], 1)
    return int(struct.unpack_from("<H", body, at)[0])
