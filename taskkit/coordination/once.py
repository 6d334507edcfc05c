"""``once`` in Redis: running while somebody does it, done for a time after that. Lost with Redis."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from taskkit.coordination.lock import LONGEST_NAME, LONGEST_TTL, SHORTEST_TTL, check_timeout
from taskkit.coordination.tenure import HOLDER_BYTES, Tenure, instant
from taskkit.coordination.tokens import Tokens
from taskkit.errors import LockError, LockLost, OnceRunning, StoreError
from taskkit.identity import new_identity
from taskkit.names import check_name, check_seconds

log = logging.getLogger("taskkit.coordination")
RUNNING, DONE = "running:", "done:"
LONGEST_KEEP = 366 * 86_400.0
PAUSE = 0.1
MARKS, MARK_PAUSE = 3, 0.2


class Once:
    """``with kit.redis_once(key) as once: if once.first: …``: the first to come does it, the others see it done.

    While somebody else does it, entering waits up to ``timeout`` seconds and then raises OnceRunning. An exception
    in the body frees the key, and the death of its process does when ``life`` seconds have passed.
    """

    def __init__(
        self,
        open_tokens: Callable[[], tuple[Tokens, Callable[[str], bytes]]],
        key: str,
        *,
        keep: float = 86_400.0,
        life: float = 30.0,
        timeout: float | None = 0.0,
    ) -> None:
        self.key = check_name(key, "key", LONGEST_NAME)
        self._keep = check_seconds(keep, "keep", SHORTEST_TTL, LONGEST_KEEP)
        self._life = check_seconds(life, "life", SHORTEST_TTL, LONGEST_TTL)
        self._timeout = check_timeout(timeout)
        self._open_tokens = open_tokens
        self._running: _Running | None = None
        self._entered = False

    def __repr__(self) -> str:
        state = "running here" if self._running else "done before" if self._entered else "not looked at"
        return f"<Once {self.key!r} {state}>"

    @property
    def first(self) -> bool:
        """Whether it is for us to do; False when it was done before."""
        if not self._entered:
            raise LockError(f"once {self.key}: look at it inside of its with statement")
        return self._running is not None

    def __bool__(self) -> bool:
        return self.first

    def check(self) -> None:
        """Raise LockLost when it is not for us to do any more: call it right before the effect."""
        if self._running is None:
            raise LockError(f"once {self.key} is not running here")
        self._running.tenure.check()

    def __enter__(self) -> Self:
        if self._entered:
            raise LockError(f"once {self.key} is entered already; make one for each use")
        tokens, key = self._open_tokens()
        deadline = None if self._timeout is None else time.monotonic() + self._timeout
        while not self._look(tokens, key(self.key)):
            if deadline is not None and time.monotonic() >= deadline:
                raise OnceRunning(f"once {self.key}: somebody is doing it right now; try again")
            time.sleep(PAUSE)
        self._entered = True
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        running, self._running, self._entered = self._running, None, False
        if running is not None:
            running.fail() if error is not None else running.finish(self._keep)

    def _look(self, tokens: Tokens, key: bytes) -> bool:
        """Whether it is ours to do, or done; False while somebody else is at it."""
        token, since = RUNNING + new_identity(HOLDER_BYTES), instant()
        try:
            taken = tokens.take(key, token, self._life)
        except BaseException:  # a SET that was cut may have been done
            with contextlib.suppress(StoreError):
                tokens.drop(key, token)
            raise
        if taken:
            self._running = _Running(tokens, self.key, key, token, self._life, since)
            return True
        return (tokens.read(key) or "").startswith(DONE)


class _Running:
    """One that was first, from its start to its end."""

    def __init__(self, tokens: Tokens, title: str, key: bytes, token: str, life: float, since: float) -> None:
        self.tokens, self.title, self.key, self.token = tokens, title, key, token
        self.done = DONE + token.removeprefix(RUNNING)
        self.tenure = Tenure(f"once {title}", life, since, lambda: tokens.swap(key, token, token, life))

    def fail(self) -> None:
        """It was not done: the next one may try."""
        self.tenure.end()
        try:
            self.tokens.drop(self.key, self.token)
        except StoreError as error:
            log.warning("once %s was not freed and ends by itself: %s", self.title, error)

    def finish(self, keep: float) -> None:
        """It was done. Raises LockLost when somebody else may have done it as well."""
        self.tenure.end()
        for attempt in range(1, MARKS + 1):
            try:
                done = self._mark(keep)
                break
            except StoreError as error:
                if attempt == MARKS:  # raising would have the handler do it once more
                    log.warning("once %s was done, but that is not noted: %s", self.title, error)
                    return
                time.sleep(MARK_PAUSE * attempt)
        if not done:
            raise LockLost(f"once {self.title} was lost: somebody else began it as well")

    def _mark(self, keep: float) -> bool:
        """From running to done; also where nothing is there any more and nobody else has begun.

        Tried again after a lost reply, it finds what it wrote itself, which names us and nobody else.
        """
        return (
            self.tokens.swap(self.key, self.token, self.done, keep)
            or self.tokens.take(self.key, self.done, keep)
            or self.tokens.read(self.key) == self.done
        )
