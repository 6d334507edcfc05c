"""A relay in front of any server that can go silent as a broken network does, or answer in the server's stead."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from typing import Self

from tests.proxy import close

LOOK_S = 0.05


class Relay:
    """Listens on a port of its own; what arrives there goes to ``port`` and back, as long as nothing else is said."""

    def __init__(self, port: int) -> None:
        self.server = ("127.0.0.1", port)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.listener.getsockname()[1]
        self.silent = False
        """Swallow everything, both ways; connections stay open, and new ones are taken."""
        self.answer: bytes | None = None
        """What every request gets instead of reaching the server."""
        self._links: set[socket.socket] = set()
        self._ended = False
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._ended = True
        for link in [self.listener, *self._links]:
            close(link)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                threading.Thread(target=self._serve, args=[client], daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        """A connection that was open while it was silent is dead for good, without either side having been told."""
        server: socket.socket | None = None
        dead = False
        with contextlib.suppress(OSError):
            self._links.add(client)
            while not self._ended:
                dead = dead or self.silent
                ready = select.select([one for one in (client, server) if one], [], [], LOOK_S)[0]
                dead = dead or self.silent
                for one in ready:
                    if not (data := one.recv(1 << 16)):
                        return self._end(client, server)
                    if dead:
                        continue
                    if one is client and self.answer is not None:
                        client.sendall(self.answer)
                        continue
                    if server is None:
                        server = socket.create_connection(self.server)
                        self._links.add(server)
                    (server if one is client else client).sendall(data)
        return self._end(client, server)

    def _end(self, *links: socket.socket | None) -> None:
        for link in links:
            if link is not None:
                self._links.discard(link)
                close(link)
