"""How fast a crowd of failed tasks is started again, and when to stop because the failures come back. Pure.

Two brakes. The rate: so many starts a second. And the room: at first at most ``window`` of the started ones may be
without an answer; each that succeeds makes room for one more, so that a cause that is not mended is met by a few
dozen tasks and not by all of them, however slowly the answers come.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

BURST_S = 0.5
"""Seconds whose starts may be made up for at once, when the one who starts was held up."""


@dataclass(frozen=True, slots=True)
class PaceRules:
    """``rate`` starts a second; stop when at least ``share`` of the last ``window`` ends failed, ``least`` at least."""

    rate: float = 10.0
    share: float = 0.5
    least: int = 5
    window: int = 20


class Pace:
    """Says how many more may be started, and learns how the started ones ended; it reads no clock."""

    def __init__(self, rules: PaceRules) -> None:
        self.rules = rules
        self.started = self.succeeded = self.failed = self.neither = 0
        self._latest: deque[bool] = deque(maxlen=rules.window)
        self._credit, self._credited_at = 1.0, 0.0

    @property
    def unanswered(self) -> int:
        """Those that were started and of which no end is known."""
        return self.started - self.succeeded - self.failed - self.neither

    @property
    def room(self) -> int:
        """How many more may be started before more is known; the first failures make none."""
        early = self.failed if len(self._latest) < self.rules.least else 0
        return max(0, self.rules.window + self.succeeded - self.unanswered - early)

    @property
    def failing(self) -> str:
        """Why to stop, in words; empty while the failures do not come back."""
        count, failed = len(self._latest), sum(self._latest)
        if count < self.rules.least or failed < self.rules.share * count or not failed:
            return ""
        return f"{failed} of the last {count} that ended failed again"

    def due(self, now: float) -> int:
        """How many may be started at ``now``, in seconds since the beginning; none once the failures are back."""
        rules = self.rules
        most = max(1.0, rules.rate * BURST_S)
        self._credit = min(most, self._credit + max(0.0, now - self._credited_at) * rules.rate)
        self._credited_at = max(now, self._credited_at)
        return 0 if self.failing else min(int(self._credit + 1e-9), self.room)

    def start(self) -> None:
        """One was started."""
        self.spend()
        self.started += 1

    def spend(self) -> None:
        """One that was due could not be started: its turn has passed all the same."""
        self._credit -= 1

    def end(self, failed: bool | None) -> None:
        """One of the started ones has ended; ``failed`` None for one that a person took out of the way."""
        if failed is None:
            self.neither += 1
            return
        self._latest.append(failed)
        self.failed += failed
        self.succeeded += not failed
