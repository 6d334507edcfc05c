"""One look of one rule, for all its objects at once: who is kept quiet by what, and what becomes of each alert. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Literal

from taskkit.alerts import Alert, AlertState, Reading, ReadLevel, Said, Silence
from taskkit.clock import seconds
from taskkit.watchdog.signals import Rule
from taskkit.watchdog.step import CHECK, Turn, step

Soundness = Literal["ok", "no_data", "failed"]


@dataclass(frozen=True, slots=True)
class CheckState:
    """How a rule's check fares, and since when; ``error`` is what it failed with."""

    state: Soundness
    since: datetime
    error: str = ""


def turns(
    rule: Rule,
    live: Sequence[Alert],
    readings: Iterable[Reading] | None,
    now: datetime,
    *,
    about: Reading | None = None,
    firing: Iterable[Alert] = (),
    silences: Sequence[Silence] = (),
) -> list[Turn]:
    """A turn for each object that was read or has a live alert; ``firing`` are the alerts of all rules that fire.

    ``readings`` is None where the check failed: then its alerts stay as they are. An object of which a check that came to
    its end says nothing is clear, unless the check had nothing to judge by. ``about`` is the reading of the check itself.
    """
    mine = {alert.object: alert for alert in live if alert.rule == rule.id}
    found = {} if readings is None else _all_read(mine, readings)
    if about is not None:
        found[about.object] = about
    root = inhibitor(rule, firing)
    return [
        step(
            mine.get(name),
            one,
            rule,
            now,
            inhibited_by=root,
            silence_id=silenced(silences, rule.id, name, now),
        )
        for name, one in sorted(found.items())
    ]


def _all_read(mine: Iterable[str], readings: Iterable[Reading]) -> dict[str, Reading]:
    found = {reading.object: reading for reading in readings}
    blind = "" in found and found[""].level is ReadLevel.NO_DATA
    rest = found[""] if blind else Reading("", ReadLevel.CLEAR)
    return {name: replace(rest, object=name) for name in mine if name != CHECK} | found


def inhibitor(rule: Rule, firing: Iterable[Alert]) -> str | None:
    """Which alert explains those of this rule now: the first of its ``inhibited_by`` that fires, as written there."""
    names = {
        name
        for alert in firing
        if alert.state is AlertState.FIRING
        for name in (alert.rule, f"{alert.rule}:{alert.object}")
    }
    return next((name for name in rule.inhibited_by if name in names), None)


def silenced(silences: Iterable[Silence], rule: str, name: str, now: datetime) -> int | None:
    """The id of the silence that covers an object of a rule at this instant."""
    for one in silences:
        covers = one.rule in {None, rule} and (one.object is None or fnmatchcase(name.strip(), one.object))
        if covers and one.starts_at <= now < one.ends_at:
            return one.id
    return None


def fares(before: CheckState | None, state: Soundness, now: datetime, error: str = "") -> CheckState:
    """How a check fares after a look; what it was already keeps its beginning."""
    if before is not None and before.state == state:
        return replace(before, error=error)
    return CheckState(state, now, error)


def soundness(readings: Sequence[Reading]) -> Soundness:
    """What a check that came to its end says of itself: no data, where it had nothing at all to judge by."""
    return "no_data" if readings and all(one.level is ReadLevel.NO_DATA for one in readings) else "ok"


def about_check(rule: Rule, check: CheckState, now: datetime, said: Mapping[str, Said]) -> Reading:
    """What the state of a check means for the alert about it: one that has lasted too long is a breach."""
    if check.state == "ok" or (check.state == "no_data" and rule.no_data == "ignore"):
        return Reading(CHECK, ReadLevel.CLEAR)
    patience = rule.failed_after if check.state == "failed" else rule.no_data_after
    lasted = now - check.since
    if lasted < seconds(patience):
        return Reading(CHECK, ReadLevel.BETWEEN)
    return Reading(
        CHECK,
        ReadLevel.BREACH,
        cause=check.state,
        value=lasted.total_seconds(),
        unit="s",
        severity="warning",
        said=dict(said),
        since=check.since,
    )


def retired(alert: Alert, now: datetime) -> Turn:
    """An alert whose rule is gone or switched off: it ends, and nobody is told."""
    if alert.state is AlertState.PENDING:
        return Turn(alert, None)
    return Turn(alert, replace(alert, state=AlertState.RESOLVED, resolved_at=now))
