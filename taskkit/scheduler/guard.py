"""The guard: a scheduler that tells the receivers when the watchdogs, whose task that is, have fallen silent."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from taskkit.alerts import Alert, AlertChange, AlertState, Event, Item, Posting, Said
from taskkit.center import TaskCenter
from taskkit.clock import monotonic, seconds
from taskkit.errors import SettingsError, StoreError
from taskkit.service import LONGEST_PAUSE
from taskkit.settings import Settings

if TYPE_CHECKING:
    from taskkit.receivers.protocol import Receiver

log = logging.getLogger("taskkit.scheduler")
LEASE, LEASE_S = "guard", 15.0
RULE = "watchdog"
LOOK_S = 5.0
BEATS = 2
"""So many heartbeats, and the longest pause after trouble with a store, a silence has to last while SQL answers."""
WORDS = {
    "en": (
        "no watchdog is alive",
        "Nobody looks after this installation: what goes wrong from now on is told by nobody. A scheduler tells this.",
        ("Last heartbeat", "Watchdogs that fell silent"),
        "Start one",
    ),
    "zh": (
        "没有存活的看门狗",
        "此刻无人值守：之后出现的问题不会再有告警。本消息由调度器代发。",
        ("上次心跳", "失联的看门狗"),
        "启动一个看门狗",
    ),
}


class WatchdogGuard:
    """A tick that looks whether a watchdog lives, if there ever was one that has not signed off."""

    def __init__(self, center: TaskCenter, settings: Settings, holder: str) -> None:
        self.center, self.settings, self.holder = center, settings, holder
        self._couriers: list[Any] | None = None
        self._silent_since: float | None = None

    def tick(self) -> float:
        """Tell that the watchdogs are dead, and deliver what waits in their place; one scheduler does it."""
        try:
            return self._look()
        except StoreError:
            self._silent_since = None  # while SQL is away nobody can beat
            raise

    def _look(self) -> float:
        known = silent_ones(self.center.watchdogs.all())
        limit = self.settings.watchdog.dead_after_s
        if not known or min(row["heartbeat_age_s"] for row in known) <= limit:
            self._couriers = self._silent_since = None
            return LOOK_S
        if (wait := self._wait()) > 0:
            return min(wait, LOOK_S)
        if not self.center.nodes.take_lease(LEASE, self.holder, LEASE_S):
            return LOOK_S
        if self._couriers is None:
            self._begin(known)
        for courier in self._couriers or ():
            while courier.tick() <= 0:
                continue
        return min(1.0, LOOK_S)

    def _wait(self) -> float:
        """How long the silence has to last until it is believed: SQL may have been away, and they only now can beat again."""
        if self._silent_since is None:
            self._silent_since = monotonic()
        believed = BEATS * self.settings.watchdog.heartbeat_s + LONGEST_PAUSE
        return self._silent_since + believed - monotonic()

    def _begin(self, known: Sequence[dict[str, Any]]) -> None:
        from taskkit.notices import couriers
        from taskkit.receivers.loading import load_receivers

        try:
            receivers = load_receivers(self.settings)
        except SettingsError as error:
            log.error("no watchdog is alive, and the receivers cannot be read: %s", error)  # noqa: TRY400 - one line says it
            receivers = ()
        self._tell(known, receivers)
        options = {"language": self.settings.watchdog.language, "zone": self.settings.timezone}
        self._couriers = couriers(self.center.outbox, receivers, self.holder, **options)

    def _silence(self) -> int | None:
        """The silence that covers it, if there is one."""
        found = self.center.alerts.silences()
        return next(
            (one.id for one in found if one.rule in (None, RULE) and one.object in (None, "*", "")), None
        )

    def _tell(self, known: Sequence[dict[str, Any]], receivers: Sequence[Receiver]) -> None:
        now = self.center.now()
        age = min(row["heartbeat_age_s"] for row in known)
        log.error("no watchdog is alive: the last heartbeat was %.0f s ago", age)
        before = next((one for one in self.center.alerts.open() if one.rule == RULE and not one.object), None)
        if before is not None and before.state is AlertState.FIRING:
            return
        after = replace(alert_of(known, now, age), silence_id=self._silence())
        if after.silence_id is not None:
            after, receivers = replace(after, told_at=None), ()
        item = item_of(after if before is None else replace(after, id=before.id), now)
        postings = tuple(Posting(one.name, item, RULE) for one in receivers if one.options.takes(item))
        self.center.alerts.record(
            [AlertChange(before, after if before is None else replace(after, id=before.id), postings)]
        )


def silent_ones(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Watchdogs that have not signed off, but for those in whose place another one was started later."""
    starts = [row["started_at"] for row in rows]
    return [
        row
        for row in rows
        if row["stopped_at"] is None and not any(start > row["heartbeat_at"] for start in starts)
    ]


def alert_of(known: Sequence[dict[str, Any]], now: datetime, age: float) -> Alert:
    """The alert about watchdogs that fell silent, as it fires."""
    since = now - seconds(age)
    return Alert(
        id=0,
        rule=RULE,
        object="",
        state=AlertState.FIRING,
        severity="critical",
        cause="silent",
        value=round(age, 1),
        unit="s",
        said={language: _said(language, known, age) for language in WORDS},
        since=since,
        breach_at=now,
        firing_at=now,
        told_at=now,
    )


def item_of(alert: Alert, now: datetime) -> Item:
    """The same for the outbox."""
    return Item(
        alert_id=alert.id,
        event=Event.FIRING,
        rule=alert.rule,
        object=alert.object,
        severity=alert.severity,
        since=alert.since,
        at=now,
        said=alert.said,
        cause=alert.cause,
        runbook=f"runbooks/{RULE}.md",
    )


def _said(language: str, known: Sequence[dict[str, Any]], age: float) -> Said:
    from taskkit.receivers.words import lasting

    title, text, names, step = WORDS[language]
    silent = ", ".join(str(row["watchdog_id"]) for row in known[:3])
    figures = ((names[0], lasting(age, language)), (names[1], silent))
    return Said(title=title, text=text, figures=figures, actions=((step, "python -m taskkit.watchdog"),))
