"""A proxy in front of a MySQL server that loses what a test tells it to lose."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Self
from urllib.parse import urlsplit

QUERY, COMMIT = b"\x03", b"COMMIT"


class Proxy:
    """Listens on a port of its own; ``url`` is the server's URL with that port."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.server = (parts.hostname or "127.0.0.1", parts.port or 3306)
        self.listener = socket.create_server(("127.0.0.1", 0))
        port = self.listener.getsockname()[1]
        self.url = parts._replace(netloc=f"{parts.username}:{parts.password}@127.0.0.1:{port}").geturl()
        self.replaced: dict[bytes, bytes] = {}
        self.lost = False
        self._when: str | None = None
        self._for_good = self._refuses = False
        self._links: list[socket.socket] = []
        self._muted: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Take no connection any more and cut those there are."""
        close(self.listener)
        self.cut()

    def open_again(self) -> None:
        """Pass connections on again; the port was kept meanwhile, so that nobody else has it."""
        self._refuses = False

    def cut(self) -> None:
        """Cut all connections."""
        for link in self._links:
            close(link)
        self._links.clear()

    def lose_commit(self, when: str, *, for_good: bool = False) -> None:
        """Cut the next connection that commits: ``before`` the server hears of it, or ``after`` it has committed.

        ``for_good``: every connection is cut after that.
        """
        self._when, self.lost, self._for_good = when, False, for_good

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                if self._refuses:
                    close(client)
                    continue
                server = socket.create_connection(self.server)
                self._links += [client, server]
                for act in (self._up, self._down):
                    threading.Thread(target=act, args=(client, server), daemon=True).start()

    def _up(self, client: socket.socket, server: socket.socket) -> None:
        """From the client to the server; PyMySQL sends each command in one piece."""
        with contextlib.suppress(OSError):
            while data := client.recv(1 << 16):
                when = self._when if data[4:5] == QUERY and data.endswith(COMMIT) else None
                if when is not None:
                    self._when, self.lost = None, True
                    self._refuses = self._for_good
                if when == "before":
                    break
                if when == "after":
                    self._muted.add(client)
                for text, other in self.replaced.items():
                    data = data.replace(text, other)
                server.sendall(data)
        close(client)
        close(server)

    def _down(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while (data := server.recv(1 << 16)) and client not in self._muted:
                client.sendall(data)
        close(client)
        close(server)


def close(link: socket.socket) -> None:
    """Shut down and close, which also wakes a thread that waits on it."""
    with contextlib.suppress(OSError):
        link.shutdown(socket.SHUT_RDWR)
    link.close()
