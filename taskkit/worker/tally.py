"""What a worker counts, and the database's time as it can tell it from its own monotonic clock."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from taskkit.clock import monotonic, utc_now


@dataclass(slots=True)
class Tally:
    """Counters of one worker; each is written by one thread."""

    processed: int = 0
    failed: int = 0
    dropped: int = 0
    buried: int = 0
    superseded: int = 0
    last_progress: float | None = None
    _anchor: tuple[datetime, float] = field(default_factory=lambda: (utc_now(), monotonic()))

    def anchor(self, database_now: datetime, at: float) -> None:
        """The database said this instant at this monotonic second (or just after)."""
        self._anchor = (database_now, at)

    def instant(self, at: float) -> datetime:
        """A monotonic second as an instant on the database's clock."""
        then, mark = self._anchor
        return then + timedelta(seconds=at - mark)
