"""The guard: a scheduler that tells the receivers when the watchdogs, whose task that is, have fallen silent."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from taskkit.alerts import Alert, AlertChange, AlertState, Event, Item, Posting, Said
from taskkit.center import TaskCenter
from taskkit.clock import monotonic, seconds
from taskkit.errors import SettingsError, StoreError
from taskkit.service import LONGEST_PAUSE
from taskkit.settings import Settings
from taskkit.settings.alerting import own_keys, receivers_file

if TYPE_CHECKING:
    from taskkit.receivers.protocol import Receiver

log = logging.getLogger("taskkit.scheduler")
LEASE, LEASE_S = "guard", 15.0
RULE = "watchdog"
LOOK_S = 5.0
DELIVER_S = 1.0
READ_S = 30.0
"""Rules and receivers are read anew so often while the watchdogs are dead."""
BEATS = 2
"""So many heartbeats, and the longest pause after trouble with a store, a silence has to last while SQL answers."""
WORDS = {
    "en": (
        "no watchdog is alive",
        "Nobody looks after this installation: what goes wrong from now on is told by nobody. A scheduler tells this.",
        ("Last heartbeat", "Watchdogs that fell silent"),
        "Start one",
        "Nobody could be told of it, since the receivers cannot be read: ",
    ),
    "zh": (
        "没有存活的看门狗",
        "此刻无人值守：之后出现的问题不会再有告警。本消息由调度器代发。",
        ("上次心跳", "失联的看门狗"),
        "启动一个看门狗",
        "无法发出告警，因为接收器配置读取失败：",
    ),
}


class WatchdogGuard:
    """A tick that looks whether a watchdog lives, if there ever was one that has not signed off."""

    def __init__(self, center: TaskCenter, settings: Settings, holder: str) -> None:
        self.center, self.settings, self.holder = center, settings, holder
        self._policy: GuardPolicy | None = None
        self._couriers: list[Any] | None = None
        self._read_at = 0.0
        self._silent_since: float | None = None

    def tick(self) -> float:
        """Tell that the watchdogs are dead, and deliver what waits in their place; one scheduler does it."""
        if self._policy is None:
            self._read()
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
        self._tell(known, self._begin(known))
        return self._deliver()

    def _deliver(self) -> float:
        """One message of each robot: between two of them a stop is heard, the lease renewed, and a watchdog seen that is back."""
        until = monotonic() + LEASE_S / 2
        more, waiting = False, self._couriers or []
        for _ in range(len(waiting)):
            if monotonic() >= until:
                return 0.0
            courier = waiting.pop(0)
            waiting.append(courier)  # the next time it is the others' turn first
            more = courier.tick() <= 0 or more
        return 0.0 if more else DELIVER_S

    def _wait(self) -> float:
        """How long the silence has to last until it is believed: SQL may have been away, and they only now can beat again."""
        if self._silent_since is None:
            self._silent_since = monotonic()
        believed = BEATS * self.settings.watchdog.heartbeat_s + LONGEST_PAUSE
        return self._silent_since + believed - monotonic()

    def _begin(self, known: Sequence[dict[str, Any]]) -> GuardPolicy:
        """Rules and receivers, read when it begins and again and again, since somebody may mend them meanwhile."""
        if self._couriers is None:
            age = min(row["heartbeat_age_s"] for row in known)
            log.error("no watchdog is alive: the last heartbeat was %.0f s ago", age)
        elif self._policy is not None and monotonic() - self._read_at < READ_S:
            return self._policy
        from taskkit.notices import couriers

        policy = self._read()
        options = {"language": self.settings.watchdog.language, "zone": self.settings.timezone}
        self._couriers = couriers(self.center.outbox, policy.receivers, self.holder, **options)
        return policy

    def _read(self) -> GuardPolicy:
        """What is wrong with the receivers is said when it is found, at the start too: later nobody could tell it."""
        before, self._policy = self._policy, read_policy(self.settings)
        self._read_at = monotonic()
        if self._policy.problem and (before is None or before.problem != self._policy.problem):
            told = (
                "the receivers cannot be read, so it could be told to nobody that all watchdogs are dead: %s"
            )
            log.error(told, self._policy.problem)
        return self._policy

    def _silence(self) -> int | None:
        """The silence that covers it, if there is one."""
        found = self.center.alerts.silences()
        return next(
            (one.id for one in found if one.rule in (None, RULE) and one.object in (None, "*", "")), None
        )

    def _tell(self, known: Sequence[dict[str, Any]], policy: GuardPolicy) -> None:
        """Put it into the book, and tell it as soon as there is somebody to tell and no silence."""
        before = next((one for one in self.center.alerts.open() if one.rule == RULE and not one.object), None)
        if not policy.enabled or (before is not None and before.told_at is not None):
            return
        now = self.center.now()
        age = min(row["heartbeat_age_s"] for row in known)
        after = replace(alert_of(known, now, age, policy.problem), silence_id=self._silence())
        if before is not None:
            after = replace(after, id=before.id, since=before.since, firing_at=before.firing_at or now)
        item = item_of(after, now)
        hearers = [] if after.silence_id is not None else policy.hearers(item)
        if hearers:
            after = replace(after, told_at=now)
        elif before is not None and _same(before, after):
            return
        postings = tuple(Posting(one.name, item, RULE) for one in hearers)
        self.center.alerts.record([AlertChange(before, after, postings)])


@dataclass(frozen=True, slots=True)
class GuardPolicy:
    """What people decided of this one alert: whether it is told, and to whom; or why that is not known."""

    receivers: Sequence[Receiver] = ()
    problem: str = ""
    enabled: bool = True
    names: Sequence[str] = ()
    """Of the receivers that the rule names; none: all."""

    def hearers(self, item: Item) -> list[Receiver]:
        """Whom to tell."""
        named = [one for one in self.receivers if one.name in self.names] or self.receivers
        from taskkit.receivers.protocol import hearers

        return hearers(named, item)


def read_policy(settings: Settings) -> GuardPolicy:
    """What rules.toml and receivers.toml say; never raises for what is wrong in them."""
    own = own_keys(settings, RULE)
    names = own.get("receivers")
    policy = GuardPolicy(
        enabled=own.get("enabled") is not False, names=names if isinstance(names, list) else ()
    )
    try:
        if receivers_file(settings) is None:
            return policy
        # not before there is a file: it takes time and memory
        from taskkit.receivers.loading import load_receivers

        return replace(policy, receivers=load_receivers(settings))
    except SettingsError as error:
        return replace(policy, problem=str(error))


def _same(before: Alert, after: Alert) -> bool:
    return (before.state, before.silence_id, before.said["en"].text) == (
        after.state,
        after.silence_id,
        after.said["en"].text,
    )


def silent_ones(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Watchdogs that have not signed off, but for those in whose place another one was started later."""
    starts = [row["started_at"] for row in rows]
    return [
        row
        for row in rows
        if row["stopped_at"] is None and not any(start > row["heartbeat_at"] for start in starts)
    ]


def alert_of(known: Sequence[dict[str, Any]], now: datetime, age: float, problem: str = "") -> Alert:
    """The alert about watchdogs that fell silent, as it fires; ``problem`` is why nobody can be told."""
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
        said={language: _said(language, known, age, problem) for language in WORDS},
        since=since,
        breach_at=now,
        firing_at=now,
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


def _said(language: str, known: Sequence[dict[str, Any]], age: float, problem: str) -> Said:
    from taskkit.receivers.words import lasting

    title, text, names, step, untold = WORDS[language]
    silent = ", ".join(str(row["watchdog_id"]) for row in known[:3])
    figures = ((names[0], lasting(age, language)), (names[1], silent))
    return Said(
        title=title,
        text=f"{text}\n{untold}{problem}" if problem else text,
        figures=figures,
        actions=((step, "python -m taskkit.watchdog"),),
    )
