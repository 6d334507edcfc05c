"""The life of an alert: what it was and what a check read → what it is, and what is to be told. Pure; the clock is given.

pending → firing → resolved. It fires when every look for ``for`` has found it over its limit; it is over when every look
for ``keep_firing`` has found it under its lower mark. What cannot be judged (no data) changes nothing, but where the rule
has ``no_data_ends``: there it is over, with a word, when it was not seen over its limit for so long.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from msgspec import structs

from taskkit.alerts import SEVERITIES, Alert, AlertState, Event, Reading, ReadLevel, Said
from taskkit.clock import seconds
from taskkit.watchdog.signals import Rule

CHECK = " (check)"
"""The object of alerts about a check that fails or finds nothing to judge by: no queue's or code's name begins with a space."""
LOOKS_MISSED = 3
"""So many looks may be missing (a watchdog that was restarted) and a breach still counts as one without a break."""
OVER = (ReadLevel.BREACH, ReadLevel.BETWEEN)


@dataclass(frozen=True, slots=True)
class Turn:
    """One step of one alert. ``after`` is None where there is none any more: a pending one that cleared."""

    before: Alert | None
    after: Alert | None
    event: Event | None = None

    @property
    def changed(self) -> bool:
        """Whether there is anything to write."""
        return self.before != self.after


def step(
    alert: Alert | None,
    reading: Reading,
    rule: Rule,
    now: datetime,
    *,
    inhibited_by: str | None = None,
    silence_id: int | None = None,
) -> Turn:
    """What becomes of an alert (None, or one that is over: there is none) with this reading of its object.

    A new one has the id 0. ``told_at`` is set here, where something is to be told: the event belongs into the outbox in
    the same transaction.
    """
    live = alert if alert is not None and alert.state is not AlertState.RESOLVED else None
    if live is None or live.state is AlertState.PENDING:
        after = _pending(live, reading, rule, now)
    else:
        after = _firing(live, reading, rule, now, held=inhibited_by is not None)
    if after is None:
        return Turn(live, None)
    after = replace(after, inhibited_by=inhibited_by, silence_id=silence_id)
    event = _event(live, after, reading, rule, now)
    if event in {Event.FIRING, Event.REPEAT}:
        after = replace(after, told_at=now)
    return Turn(live, after, event)


def _pending(alert: Alert | None, reading: Reading, rule: Rule, now: datetime) -> Alert | None:
    """A new or pending alert: each look must find it over its limit; one that does not ends it."""
    if reading.level is ReadLevel.NO_DATA:
        return alert
    if reading.level is not ReadLevel.BREACH:
        return None
    since = min(now, reading.since or now)
    hold = 0.0 if reading.object == CHECK else float(rule.hold)
    if alert is not None and now - alert.breach_at <= seconds(max(hold, LOOKS_MISSED * rule.every)):
        since = min(since, alert.since)
    found = _seen(alert or _new(reading, rule, now), reading, rule, now)
    found = replace(found, since=since)
    if now - since < seconds(hold):
        return found
    return replace(found, state=AlertState.FIRING, firing_at=now)


def _new(reading: Reading, rule: Rule, now: datetime) -> Alert:
    return Alert(
        id=0,
        rule=rule.id,
        object=reading.object,
        state=AlertState.PENDING,
        severity=reading.severity or rule.severity,
        cause=reading.cause,
        value=reading.value,
        unit=reading.unit,
        said=reading.said,
        since=now,
        breach_at=now,
    )


def _seen(alert: Alert, reading: Reading, rule: Rule, now: datetime) -> Alert:
    """With what the latest breach says. The severity of one that fires only rises."""
    severity = reading.severity or rule.severity
    if alert.state is AlertState.FIRING:
        severity = max(alert.severity, severity, key=SEVERITIES.index)
    return replace(
        alert,
        severity=severity,
        cause=reading.cause,
        value=reading.value,
        unit=reading.unit,
        said=reading.said or alert.said,
        breach_at=now,
    )


def _firing(alert: Alert, reading: Reading, rule: Rule, now: datetime, *, held: bool) -> Alert:
    """One that fires. While another alert explains it, one that was told does not end: what one reads then may be wrong."""
    held = held and alert.told_at is not None
    if reading.level is ReadLevel.NO_DATA:
        patience = getattr(rule, "no_data_ends", None)
        waits = held or patience is None or now - alert.breach_at < seconds(patience)
        return alert if waits else _over(alert, reading, now)
    if reading.level is ReadLevel.BREACH:
        flaps = alert.flaps + (alert.under_at is not None)
        return replace(_seen(alert, reading, rule, now), flaps=flaps, under_at=None)
    under = replace(alert, under_at=alert.under_at or now, breach_at=min(alert.breach_at, now))
    if reading.level is ReadLevel.BETWEEN:
        return replace(under, breach_at=now)
    keep = 0.0 if reading.object == CHECK else float(rule.keep_firing)
    if now - under.breach_at < seconds(keep) or held:
        return under
    return _over(under, reading, now)


def _over(alert: Alert, reading: Reading, now: datetime) -> Alert:
    """Its end. What the check says of it goes before what the alert has said, which stays readable below it."""
    return replace(
        alert,
        state=AlertState.RESOLVED,
        resolved_at=now,
        said=alert.said | {name: _ended(end, alert.said.get(name)) for name, end in reading.said.items()},
    )


def _ended(end: Said, before: Said | None) -> Said:
    if before is None:
        return end
    lines = filter(None, (end.text, before.title, before.text))
    return structs.replace(
        before, title=end.title, text="\n".join(lines), actions=end.actions or before.actions
    )


def _event(before: Alert | None, after: Alert, reading: Reading, rule: Rule, now: datetime) -> Event | None:
    """What is to be told: nothing while somebody or something keeps it quiet, and no end of what was not told."""
    if after.inhibited_by is not None or after.silence_id is not None:
        return None
    if after.state is AlertState.RESOLVED:
        return Event.RESOLVED if after.told_at is not None and rule.resolved else None
    if after.state is not AlertState.FIRING or reading.level not in OVER:
        return None
    if after.told_at is None:
        return Event.FIRING
    if before is not None and before.severity != after.severity:
        return Event.REPEAT
    due = rule.repeat is not None and now - after.told_at >= seconds(rule.repeat)
    return Event.REPEAT if due and after.acked_at is None else None
