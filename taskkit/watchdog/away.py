"""While SQL is away: the one alert that says so lives in memory and is told from there; afterwards it goes into the book."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime

from taskkit.alerts import Alert, AlertChange, AlertState, Event, Reading
from taskkit.center import TaskCenter
from taskkit.errors import StoreError
from taskkit.notices import MemoryOutbox
from taskkit.watchdog.post import Post
from taskkit.watchdog.signals import Rule
from taskkit.watchdog.step import step

log = logging.getLogger("taskkit.watchdog")


class SqlAway:
    """Knows that SQL is away, tells it once, and hands it over to the book when SQL is back."""

    def __init__(
        self,
        readings: Callable[[StoreError], list[Reading]],
        outbox: MemoryOutbox,
        may_tell: Callable[[], bool],
    ) -> None:
        self._readings, self._outbox, self._may_tell = readings, outbox, may_tell
        self._alerts: dict[str, Alert] = {}

    @property
    def known(self) -> bool:
        """Whether SQL is away as far as is known."""
        return bool(self._alerts)

    def failed(self, rule: Rule, post: Post, error: StoreError, now: datetime) -> None:
        """SQL did not answer; ``now`` is this node's clock, since the database's cannot be asked."""
        for reading in self._readings(error):
            before = self._alerts.get(reading.object)
            turn = step(before, reading, rule, now)
            after = turn.after
            if after is None:
                continue
            event = turn.event
            if event is Event.FIRING and not self._may_tell():
                after, event = before or after, None
            postings = post.postings(after, event, rule, now)
            if before is None:
                log.error("SQL is away: %s", error)
            self._outbox.post(postings)
            self._alerts[reading.object] = after

    def back(self, center: TaskCenter, rule: Rule, post: Post) -> None:
        """SQL answers again: what fires goes into the book, so that the ordinary check ends it; raises StoreError."""
        if not self._alerts:
            return
        log.warning("SQL answers again")
        for name, alert in list(self._alerts.items()):
            if alert.state is AlertState.FIRING and alert.told_at is not None:
                untold = self._outbox.withdraw(alert.rule, alert.object)
                center.alerts.record([AlertChange(None, alert, tuple(untold))])
            del self._alerts[name]
