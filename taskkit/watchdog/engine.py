"""The engine: what a rule's check came to → steps of alerts, written with their notices in one transaction each."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from taskkit.alerts import Alert, AlertChange, AlertState, Event, Posting, Reading, Silence
from taskkit.center import TaskCenter
from taskkit.center.alerts import object_name
from taskkit.watchdog.post import Post
from taskkit.watchdog.rounds import (
    CheckState,
    Soundness,
    about_check,
    fares,
    retired,
    silenced,
    soundness,
    turns,
)
from taskkit.watchdog.signals import Rule
from taskkit.watchdog.step import Turn
from taskkit.watchdog.wording import check_said

log = logging.getLogger("taskkit.watchdog")


@dataclass(frozen=True, slots=True)
class CheckOutcome:
    """What one check came to: readings, or an error."""

    readings: tuple[Reading, ...] = ()
    error: str | None = None
    took_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Moved:
    """What became of the alerts of a rule: the steps, and those that began to fire, with their numbers."""

    turns: tuple[Turn, ...] = ()
    fired: tuple[Alert, ...] = ()


class Engine:
    """Moves alerts by the outcomes of checks; the book is the memory, so that any watchdog may go on."""

    def __init__(self, center: TaskCenter, post: Post) -> None:
        self.center, self.post = center, post

    def apply(self, rule: Rule, outcome: CheckOutcome) -> Moved:
        """Step all alerts of a rule, and tell what is to be told; returns what changed."""
        now = self.center.now()
        live = self.center.alerts.open()
        silences = self.center.alerts.silences()
        firing = [alert for alert in live if alert.state is AlertState.FIRING]
        self._tell_late_ends(rule, silences, now)
        check = self._fares(rule, outcome, now)
        about = about_check(rule, check, now, check_said(rule, check, now))
        readings = None
        if outcome.error is None:
            readings = [replace(one, object=object_name(one.object)) for one in outcome.readings]
        found = turns(rule, live, readings, now, about=about, firing=firing, silences=silences)
        return self._write(rule, [turn for turn in found if turn.changed], now)

    def retire(self, rules: Sequence[Rule]) -> None:
        """End alerts whose rule is gone or switched off, without a word, and forget how its check fared."""
        now = self.center.now()
        known = {rule.id for rule in rules if rule.enabled}
        gone = [alert for alert in self.center.alerts.open() if alert.rule not in known]
        self.center.alerts.record(
            [AlertChange(turn.before, turn.after) for turn in (retired(a, now) for a in gone)]
        )
        self.center.watchdogs.keep(known)

    def _tell_late_ends(self, rule: Rule, silences: Sequence[Silence], now: datetime) -> None:
        """Tell what ended within a silence that is over, once, with when that was; unless another silence covers it now."""
        for alert in self.center.alerts.ended_in_silence(rule.id):
            covered = silenced(silences, rule.id, alert.object, now)
            event = Event.RESOLVED if covered is None and rule.resolved else None
            turn = Turn(alert, replace(alert, silence_id=covered), event)
            self._write(rule, [turn], alert.resolved_at or now)

    def _fares(self, rule: Rule, outcome: CheckOutcome, now: datetime) -> CheckState:
        row = self.center.watchdogs.rules().get(rule.id)
        before = None
        if row is not None:
            fared: Soundness = row["state"] if row["state"] in ("failed", "no_data") else "ok"
            before = CheckState(fared, row["since"], row["error"] or "")
        state: Soundness = "failed" if outcome.error is not None else soundness(outcome.readings)
        after = fares(before, state, now, outcome.error or "")
        breach = any(reading.level == "breach" for reading in outcome.readings)
        told = "breach" if state == "ok" and breach else state
        self.center.watchdogs.note(rule.id, told, outcome.took_ms, outcome.error)
        return after

    def _postings(self, turn: Turn, rule: Rule, now: datetime) -> tuple[Posting, ...]:
        """What is told of a step; an end also where the beginning went by way of a receiver that takes over for others."""
        if turn.after is None or turn.event is None:
            return ()
        told: set[str] = set()
        if turn.event is Event.RESOLVED and rule.receivers:
            told = {str(row["receiver"]) for row in self.center.alerts.told(turn.after.id)}
        return self.post.postings(turn.after, turn.event, rule, now, told=told)

    def _write(self, rule: Rule, found: Sequence[Turn], now: datetime) -> Moved:
        fired = []
        for turn in found:
            postings = self._postings(turn, rule, now)
            after = turn.after if postings else _untold(turn)
            alert_id = self.center.alerts.record([AlertChange(turn.before, after, postings)])[0]
            if _is_news(turn, postings):
                _tell(turn, alert_id, len(postings))
                if turn.after is not None and turn.event is Event.FIRING and alert_id:
                    fired.append(replace(turn.after, id=alert_id))
        return Moved(tuple(found), tuple(fired))


def _untold(turn: Turn) -> Alert | None:
    """The alert where no receiver takes the news: nobody was told, or nobody since."""
    if turn.after is None or turn.event not in (Event.FIRING, Event.REPEAT):
        return turn.after
    return replace(turn.after, told_at=None if turn.before is None else turn.before.told_at)


def _is_news(turn: Turn, postings: Sequence[Posting]) -> bool:
    """Whether a step is to be said in the log: what no receiver takes is tried at every look, and is news once."""
    before, after = turn.before, turn.after
    if postings or before is None or after is None or before.state is not after.state:
        return True
    quiet = before.silence_id is not None or before.inhibited_by is not None
    return quiet or before.severity != after.severity


def _tell(turn: Turn, alert_id: int, postings: int) -> None:
    """Say in the log what began and what ended: also where there is no receiver."""
    alert, before = turn.after, turn.before
    if alert is None or not alert_id:
        return
    quiet = alert.silence_id is not None or alert.inhibited_by is not None
    ended = alert.state is AlertState.RESOLVED
    if turn.event is None and (not ended or quiet or before is None or before.state is not AlertState.FIRING):
        return
    said = alert.said.get("en")
    log.log(
        logging.INFO if ended else logging.WARNING,
        "%s: %s%s: %s",
        turn.event or alert.state,
        alert.rule,
        f" {alert.object}" if alert.object else "",
        said.title if said else alert.cause,
        extra={
            "alert_id": alert_id,
            "rule": alert.rule,
            "object": alert.object,
            "severity": alert.severity,
            "receivers": postings,
        },
    )
