"""One connection to Redis: opened when it is needed, dropped after any trouble, one exchange at a time."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import Any, Protocol

import redis

from taskkit import clock
from taskkit.queues.dial import Dial, Link
from taskkit.queues.trouble import REPLY_ERRORS, STALE, Reporter, Trouble

SLACK_S = 2.0
"""How much longer than the server a blocking command is waited for."""

SILENT_S, MOST_OWED = 2.0, 20_000
"""A server that owes replies to what it was told for so long, or so many of them, does not answer."""

Command = tuple[str | bytes | int, ...]


class Exchanger(Protocol):
    """Sends commands together and reads their replies; a trouble stands where there is none.

    What is told is sent, and its replies are not waited for: the troubles that come back are those of earlier ones.
    """

    def exchange(self, commands: Sequence[Command], wait: float = 0.0) -> list[Any]: ...

    def tell(self, commands: Sequence[Command]) -> list[Trouble]: ...

    def close(self) -> None: ...


class Wire:
    """Exchanger over one connection; never sends anything twice."""

    def __init__(self, dial: Dial, reporter: Reporter, *, closed: bool = False) -> None:
        self._dial = dial
        self._reporter = reporter
        self._closed = closed
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._link: Link | None = None
        self._owed, self._owed_since = 0, 0.0
        self._heard: list[Trouble] = []

    def exchange(self, commands: Sequence[Command], wait: float = 0.0) -> list[Any]:
        """One reply or trouble per command; ``wait`` is how long the server may block before the first reply."""
        if self._pid != os.getpid():  # the parent's connection must not be shared by a fork
            self._begin()
        if not commands:
            return []
        with self._lock:
            if self._closed:
                return [self._reporter.closed()] * len(commands)
            try:
                link = self._ready()
            except (redis.RedisError, OSError, UnicodeError) as error:
                return [self._reporter.unreachable(error)] * len(commands)
            return self._talk(link, commands, wait)

    def tell(self, commands: Sequence[Command]) -> list[Trouble]:
        """Send commands without waiting; what the server refused of those told before, or why these were not sent."""
        if self._pid != os.getpid():
            self._begin()
        with self._lock:
            if self._closed:
                return [self._reporter.closed()]
            silent = self._look_for_owed()
            heard, self._heard = self._heard, []
            if silent is not None:
                return [silent, *heard]
            try:
                link = self._link if self._owed and self._link is not None else self._ready()
                if not self._owed:
                    self._owed_since = clock.monotonic()
                # before they are sent: an interrupt must not leave replies uncounted
                self._owed += len(commands)
                link.send_packed_command(link.pack_commands(commands), check_health=False)
            except (redis.RedisError, OSError, UnicodeError) as error:
                self._drop()
                return [self._reporter.unreachable(error), *heard]
            except BaseException:
                self._drop()
                raise
            return heard

    def _look_for_owed(self) -> Trouble | None:
        """Read the replies that are owed if they have come; the trouble of a server that stays silent, which is left."""
        if not self._owed or self._link is None:
            return None
        error: Exception | None = None
        if _is_stale(self._link):  # something has come
            error = self._settle()
        elif self._owed > MOST_OWED or clock.monotonic() - self._owed_since > SILENT_S:
            self._drop()
            error = redis.TimeoutError()
        return self._reporter.cut(error) if isinstance(error, redis.TimeoutError) else None

    def _settle(self) -> Exception | None:
        """Read the replies that are owed; refusals are kept for whoever tells next. The error of a cut is returned.

        What was told over a connection that was cut is over: it was a word, and the next one goes another way.
        """
        link = self._link
        if link is None:
            self._owed = 0
            return None
        try:
            replies = [self._reply(link) for _ in range(self._owed)]
            self._owed = 0
        except (redis.RedisError, OSError) as error:
            self._drop()
            return error
        except BaseException:
            self._drop()
            raise
        troubles = [reply for reply in replies if isinstance(reply, Trouble)]
        self._heard += troubles[:1]
        if any(trouble.code in STALE for trouble in troubles):
            self._drop()
        return None

    def _ready(self) -> Link:
        """A live connection: a cut one is noticed here, before anything is sent over it.

        Raises what is wrong: also that a server owes replies and does not give them, which is no time to dial anew.
        """
        if self._owed and isinstance(error := self._settle(), redis.TimeoutError):
            raise error
        if self._link is not None and _is_stale(self._link):
            self._drop()
        if self._link is None:
            self._link = self._dial()
        return self._link

    def _talk(self, link: Link, commands: Sequence[Command], wait: float) -> list[Any]:
        replies: list[Any] = []
        try:
            link.send_packed_command(link.pack_commands(commands), check_health=False)
            if wait and not link.can_read(wait + SLACK_S):
                raise redis.TimeoutError
            for _ in commands:
                replies.append(self._reply(link))
        except (redis.RedisError, OSError) as error:
            self._drop()
            replies += [self._reporter.cut(error)] * (len(commands) - len(replies))
        except BaseException:  # an interrupt in the middle leaves replies behind that belong to nobody
            self._drop()
            raise
        if any(isinstance(reply, Trouble) and reply.code in STALE for reply in replies):
            self._drop()
        return replies

    def _reply(self, link: Link) -> Any:
        try:
            return link.read_response(disconnect_on_error=False)
        except REPLY_ERRORS as error:
            return self._reporter.reply(error)

    def _drop(self) -> None:
        link, self._link, self._owed = self._link, None, 0
        if link is not None:
            link.disconnect()

    def close(self) -> None:
        """Disconnect for good, after an exchange that is under way."""
        with self._lock:
            self._closed = True
            self._drop()


def _is_stale(link: Link) -> bool:
    """Whether the peer has closed the connection, or bytes lie there that no command asked for."""
    try:
        return bool(link.can_read(0))
    except (redis.RedisError, OSError):
        return True
