"""While SQL is away: the one alert that says so lives in memory and is told from there; afterwards it goes into the book."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from taskkit.alerts import Alert, AlertChange, AlertState, Event, Reading, ReadLevel, Silence
from taskkit.center import TaskCenter
from taskkit.clock import monotonic, seconds
from taskkit.errors import BrokerUnavailable, StoreError, TaskkitError
from taskkit.notices import MemoryOutbox
from taskkit.queues import Asker
from taskkit.watchdog.post import Post
from taskkit.watchdog.rounds import silenced
from taskkit.watchdog.signals import Rule
from taskkit.watchdog.step import step

log = logging.getLogger("taskkit.watchdog")
PATIENCE_S = 30.0
"""A watchdog that only stood by tells this much later: the other one may have gone with SQL."""
MARK_S = 86_400
LEARN_S = 5.0
"""So often silences are read while SQL answers: one may have been set for its maintenance."""


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
    """Knows that SQL is away, tells it once, and hands it over to the book when SQL is back.

    While SQL answers it learns what the book says of silences and of an alert that still fires, since SQL may come and go.
    """

    def __init__(
        self,
        readings: Callable[[StoreError], list[Reading]],
        outbox: MemoryOutbox,
        mark: Mark,
        leads: Callable[[], bool | None],
    ) -> None:
        self._readings, self._outbox, self._mark, self._leads = readings, outbox, mark, leads
        self._alerts: dict[str, Alert] = {}
        self._since: datetime | None = None
        self._silences: Sequence[Silence] = ()
        self._booked: dict[str, Alert] = {}
        self._learnt = float("-inf")

    @property
    def known(self) -> bool:
        """Whether SQL is away as far as is known."""
        return bool(self._alerts)

    def failed(self, rule: Rule, post: Post, error: StoreError, now: datetime) -> None:
        """SQL did not answer; ``now`` is this node's clock, since the database's cannot be asked."""
        self._since = self._since or now
        for reading in (one for one in self._readings(error) if one.level is ReadLevel.BREACH):
            name = reading.object
            quiet = silenced(self._silences, rule.id, name, now)
            before = self._alerts.get(name) or self._from_book(name, rule, now)
            turn = step(before, replace(reading, since=self._since), rule, now, silence_id=quiet)
            after, event = turn.after, turn.event
            if after is None:
                continue
            if event is not None and not self._may_tell(self._since, now):
                after, event = replace(after, told_at=None if before is None else before.told_at), None
            elif event is not None or (name not in self._alerts and self._was_told(before)):
                self._mark.put()
            postings = post.postings(after, event, rule, now)
            if name not in self._alerts:
                log.error("SQL is away: %s", error)
            self._outbox.post(postings)
            self._alerts[name] = after

    def _from_book(self, name: str, rule: Rule, now: datetime) -> Alert | None:
        """The alert that fires in the book, as long as it cannot have ended there meanwhile: people know of it."""
        alert = self._booked.get(name)
        known = alert is not None and now - alert.breach_at < seconds(float(rule.keep_firing))
        return alert if known else None

    def _was_told(self, before: Alert | None) -> bool:
        """Whether this watchdog, as the one that works, has told by way of the book what goes on now."""
        return before is not None and before.told_at is not None and self._leads() is not False

    def _may_tell(self, since: datetime, now: datetime) -> bool:
        """Who worked when SQL went away tells at once; another one after a while, unless it hears that it was told."""
        if self._leads() is not False:
            return True
        return now - since >= seconds(PATIENCE_S) and not self._mark.others()

    def back(self, center: TaskCenter, rule: Rule, post: Post) -> None:
        """SQL answers again: what fires goes into the book, so that the ordinary check ends it; raises StoreError.

        What could not be written is told from memory, and written when this is called again.
        """
        self._learn(center, rule)
        if not self._alerts:
            self._since = None
            return
        self._booked = _firing_in_book(center, rule)
        for name, alert in list(self._alerts.items()):
            told = alert.state is AlertState.FIRING and alert.told_at is not None
            if not told or self._hand_over(center, name, rule, post):
                del self._alerts[name]
        if self._alerts:
            return
        log.warning("SQL answers again")
        self._mark.take_away()
        self._since = None

    def forget(self) -> None:
        """Nobody wants to know any more whether SQL is away: it ends, and nobody is told."""
        if not self._alerts:
            return
        for alert in self._alerts.values():
            self._outbox.withdraw(alert.rule, alert.object)
        self._alerts.clear()
        self._since = None
        self._mark.take_away()

    def _learn(self, center: TaskCenter, rule: Rule) -> None:
        """What has to be known when SQL cannot be asked; an alert that fires is looked at each time."""
        if not self._booked and monotonic() - self._learnt < LEARN_S:
            return
        self._silences = center.alerts.silences(coming=True)
        self._booked = _firing_in_book(center, rule)
        self._learnt = monotonic()

    def _hand_over(self, center: TaskCenter, name: str, rule: Rule, post: Post) -> bool:
        """Whether it stands in the book now, together with what was not told yet; raises StoreError."""
        alert = self._alerts[name]
        open_ones = [one for one in center.alerts.open() if (one.rule, one.object) == (rule.id, name)]
        before = open_ones[0] if open_ones else None
        if before is None and alert.id:
            return True  # it came from the book, and another watchdog has ended it there
        heard = post.postings(alert, Event.FIRING, rule, alert.breach_at)
        known = replace(alert, id=before.id if before else 0, told_at=alert.told_at if heard else None)
        untold = tuple(self._outbox.withdraw(alert.rule, alert.object))
        written = 0
        try:
            written = center.alerts.record([AlertChange(before, known, untold)])[0]
        finally:
            if not written:
                self._outbox.put_back()
        if not written:
            return False
        self._booked[name] = replace(known, id=written)
        return True


def _firing_in_book(center: TaskCenter, rule: Rule) -> dict[str, Alert]:
    found = (one for one in center.alerts.open() if one.rule == rule.id and one.state is AlertState.FIRING)
    return {one.object: one for one in found}
