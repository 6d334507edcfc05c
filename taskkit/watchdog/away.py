"""While SQL is away: the one alert that says so lives in memory and is told from there; afterwards it goes into the book."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any

from taskkit.alerts import Alert, AlertChange, AlertState, Event, Reading
from taskkit.center import TaskCenter
from taskkit.clock import seconds
from taskkit.errors import BrokerUnavailable, StoreError, TaskkitError
from taskkit.notices import MemoryOutbox
from taskkit.queues import Asker
from taskkit.watchdog.post import Post
from taskkit.watchdog.signals import Rule
from taskkit.watchdog.step import step

log = logging.getLogger("taskkit.watchdog")
PATIENCE_S = 30.0
"""A watchdog that only stood by tells this much later: the other one may have gone with SQL."""
MARK_S = 86_400


class Mark:
    """A word in Redis that SQL being away was told, so that another watchdog need not; without Redis each tells."""

    def __init__(self, open_asker: Callable[[], Asker], holder: str) -> None:
        self._open, self._holder = open_asker, holder
        self._asker: Asker | None = None

    def prepare(self) -> None:
        """Open the way to Redis while SQL, which knows the prefix of the keys, can be asked."""
        if self._asker is None:
            with contextlib.suppress(TaskkitError):
                self._asker = self._open()

    def others(self) -> bool:
        """Whether another watchdog has told it; False where nobody knows."""
        value = self._ask("GET")
        return value is not None and value != self._holder.encode()

    def put(self) -> None:
        """This one tells it."""
        self._ask("SET", self._holder, "EX", MARK_S)

    def take_away(self) -> None:
        """SQL is back."""
        self._ask("DEL")

    def close(self) -> None:
        """Disconnect."""
        if self._asker is not None:
            self._asker.close()

    def _ask(self, verb: str, *more: str | int) -> Any:
        if self._asker is None:
            return None
        try:
            return self._asker.ask(verb, f"{self._asker.keys.prefix}watchdog:sql-away", *more)
        except BrokerUnavailable as error:
            log.debug("the broker was not asked whether SQL being away was told: %s", error)
            return None


class SqlAway:
    """Knows that SQL is away, tells it once, and hands it over to the book when SQL is back."""

    def __init__(
        self,
        readings: Callable[[StoreError], list[Reading]],
        outbox: MemoryOutbox,
        mark: Mark,
        leads: Callable[[], bool | None],
    ) -> None:
        self._readings, self._outbox, self._mark, self._leads = readings, outbox, mark, leads
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
            if event is Event.FIRING and not self._may_tell(after, now):
                after, event = before or after, None
            elif event is Event.FIRING:
                self._mark.put()
            postings = post.postings(after, event, rule, now)
            if before is None:
                log.error("SQL is away: %s", error)
            self._outbox.post(postings)
            self._alerts[reading.object] = after

    def _may_tell(self, alert: Alert, now: datetime) -> bool:
        """Who worked when SQL went away tells at once; another one after a while, unless it hears that it was told."""
        if self._leads() is not False:
            return True
        return now - alert.since >= seconds(PATIENCE_S) and not self._mark.others()

    def back(self, center: TaskCenter, rule: Rule, post: Post) -> None:
        """SQL answers again: what fires goes into the book, so that the ordinary check ends it; raises StoreError."""
        if not self._alerts:
            return
        log.warning("SQL answers again")
        self._mark.take_away()
        for name, alert in list(self._alerts.items()):
            if alert.state is AlertState.FIRING and alert.told_at is not None:
                untold = self._outbox.withdraw(alert.rule, alert.object)
                heard = post.postings(alert, Event.FIRING, rule, alert.told_at)
                known = alert if heard else replace(alert, told_at=None)
                center.alerts.record([AlertChange(None, known, tuple(untold))])
            del self._alerts[name]
