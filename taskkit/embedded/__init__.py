"""The embedded default's Valkey server: shared by all processes of one home folder, gone with the last of them.

Every user holds a shared lock on ``valkey.users``; the kernel takes it back when a process dies. Starting and
stopping happen under ``valkey.start``, so nobody meets a server that is going. The server itself holds
``valkey.alive``. These three empty files stay; everything else is removed when the last user leaves.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
from pathlib import Path
from urllib.parse import quote

from taskkit.embedded.file_locks import FileLock, alone
from taskkit.embedded.valkey import Server, kill_server, peer_pid
from taskkit.errors import EmbeddedError
from taskkit.settings.home import home_error, make_home

START_S = 60.0
"""How long to wait for another process that is starting or stopping the server."""

log = logging.getLogger(__name__)


class Embedded:
    """The server of one home folder, as one user of it; a forked child is no user until it joins itself."""

    def __init__(self, home: Path) -> None:
        self.home = Path(home).resolve()
        self._server = Server(self.home)
        self._users: FileLock | None = None
        self._pid: int | None = None

    @property
    def joined(self) -> bool:
        """Whether this process has joined through this object."""
        return self._users is not None and self._users.held

    def url(self) -> str:
        """The server's URL; joins when this process has not yet."""
        return self._url() if self.joined else self.join()

    def join(self) -> str:
        """Become a user of the server, started if need be, and return its URL.

        Called again it makes sure that the server still answers, and starts a new one where it died.
        Raises EmbeddedError.
        """
        make_home(self.home)
        try:
            with self._starting():
                self._take_part()
                return self._url()
        except OSError as problem:
            raise home_error(self.home, problem) from None

    def leave(self) -> None:
        """Stop being a user; the last one stops the server. Does nothing in a process that has not joined."""
        atexit.unregister(self.leave)
        if not self.joined:
            return
        try:
            with self._starting() if self.home.exists() else contextlib.nullcontext():
                self._give_up()
        except (OSError, EmbeddedError) as problem:
            log.warning("leaving the embedded server of %s: %s", self.home, problem)
            self._drop()

    def peek(self) -> str | None:
        """The URL if a server answers now; starts nothing and joins nothing."""
        return self._url() if self._server.answers() else None

    def _url(self) -> str:
        return f"unix://{quote(str(self._server.socket))}"

    def _starting(self) -> contextlib.AbstractContextManager[None]:
        return alone(self.home / "valkey.start", START_S)

    def _take_part(self) -> None:
        if self._users is not None and self._users.held and not self._users.in_place:
            self._give_up()  # somebody removed the folder: the old server is of no use to anybody
        if not self.joined:
            self._users = FileLock(self.home / "valkey.users")
            self._users.share()
            atexit.register(self.leave)
        try:
            self._server.ensure()
            self._pid = peer_pid(self._server.socket)
        except BaseException:
            self._give_up()
            raise

    def _give_up(self) -> None:
        users = self._users
        try:
            if users is not None and users.held and users.try_alone():
                self._stop(users)
        finally:
            self._drop()

    def _stop(self, users: FileLock) -> None:
        """Stop the server that nobody uses any more: ours, even when the folder has another one now."""
        if users.in_place:
            self._server.stop()
        elif self._pid:
            kill_server(self._pid, self._server.socket)

    def _drop(self) -> None:
        atexit.unregister(self.leave)
        if self._users is not None:
            self._users.close()
        self._users = None
