"""Seeing that something does not move: by looks, so that a process that was itself stopped begins anew."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass

from taskkit.clock import monotonic

log = logging.getLogger("taskkit.worker")
Pulse = Callable[[], Hashable | None]
"""Something that changes whenever a thing moves; None while it need not."""


class Call:
    """Marks what a thread is waiting for, so that another can see a call that does not return."""

    def __init__(self) -> None:
        self._number = 0
        self.inside: str | None = None

    @contextlib.contextmanager
    def __call__(self, what: str) -> Iterator[None]:
        """Around one call."""
        self._number += 1
        self.inside = what
        try:
            yield
        finally:
            self.inside = None

    def pulse(self) -> Hashable | None:
        """The number of the call under way."""
        return self._number if self.inside is not None else None


@dataclass(slots=True)
class Watched:
    """One thing, and for how many seconds it has been seen with the same pulse."""

    what: Callable[[], str]
    pulse: Pulse
    last: Hashable | None = None
    still: float = 0.0

    def look(self, passed: float) -> float:
        """Look once, ``passed`` seconds after the last time; returns for how long it has not moved."""
        pulse = self.pulse()
        self.still = self.still + passed if pulse is not None and pulse == self.last else 0.0
        self.last = pulse
        return self.still


class Watcher:
    """A thread that looks at things and tells once, in words, when one of them has not moved for ``limit`` seconds."""

    def __init__(self, things: Sequence[Watched], limit: float, tell: Callable[[str], None]) -> None:
        self.things, self.limit, self.tell = things, limit, tell
        self.pause = min(1.0, limit / 10)
        self._end = threading.Event()

    def start(self) -> None:
        """Begin to look; a limit of 0 never does."""
        if self.limit > 0:
            threading.Thread(target=self._run, name="watcher", daemon=True).start()

    def end(self) -> None:
        """Look no more."""
        self._end.set()

    def look(self, passed: float) -> str | None:
        """One look at everything; what has not moved for too long, in words."""
        found = [thing.what() for thing in self.things if thing.look(passed) >= self.limit]
        return "; ".join(found) or None

    def _run(self) -> None:
        last = monotonic()
        while not self._end.wait(self.pause):
            now = monotonic()
            said = self._carefully(min(now - last, 2 * self.pause))
            last = now
            if said is not None:
                self.tell(said)
                return

    def _carefully(self, passed: float) -> str | None:
        """One look that no surprise may end: a child that dies while it is looked at is one."""
        try:
            return self.look(passed)
        except Exception:
            log.exception("a look at this worker failed; looking again")
            return None
