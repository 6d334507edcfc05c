"""A server that speaks Redis and answers what a test wants: the refusals that a real one gives only in distress."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Callable
from typing import Any, Self

import hiredis

Answer = Callable[[list[bytes]], bytes | None]
"""From a command to the bytes that go back; None cuts the connection."""


class FakeRedis:
    """Listens on a port of its own while the block lasts and remembers the commands it got."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.got: list[list[bytes]] = []
        fake = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                fake.serve(self.request)

        class Server(socketserver.ThreadingTCPServer):
            allow_reuse_address = True
            daemon_threads = True

        self.server = Server(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server.server_address[1]}"

    def serve(self, sock: Any) -> None:
        reader = hiredis.Reader()
        while data := sock.recv(65536):
            reader.feed(data)
            while (command := reader.gets()) is not False:
                if command[0] == b"CLIENT":
                    sock.sendall(b"+OK\r\n")
                    continue
                self.got.append(command)
                reply = self.answer(command)
                if reply is None:
                    return
                sock.sendall(reply)

    def count(self, name: bytes) -> int:
        """How often a command came."""
        return sum(command[0] == name for command in self.got)

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()
