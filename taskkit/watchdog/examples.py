"""An alert of each rule as it would come, made by the rule's own check from an incident such as the lab causes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from types import SimpleNamespace
from typing import Any, cast

from taskkit.alerts import Alert, AlertState, ReadLevel
from taskkit.analytics import FRAMES, GivenSource, Source, Window
from taskkit.center.alert_checks import QueueDepth
from taskkit.clock import seconds, utc_now
from taskkit.errors import InputError
from taskkit.health.glance import Glance
from taskkit.settings import Settings
from taskkit.watchdog.checks import run_check
from taskkit.watchdog.example_facts import Incident, incident
from taskkit.watchdog.place import CheckPlace
from taskkit.watchdog.rules import shipped
from taskkit.watchdog.signals import Rule
from taskkit.watchdog.step import step

EXAMPLE_ID = 17


class Scene(CheckPlace):
    """A place in which an incident goes on; everything else about a check is as ever."""

    def __init__(self, found: Incident, settings: Settings, now: datetime) -> None:
        super().__init__(_center(found), settings, now, watchdogs=lambda: found.watchdogs)
        self.incident = found

    def depths(self, queues: Sequence[str] = ()) -> list[QueueDepth]:
        """What waits."""
        return list(self.incident.depths)

    def glance(self) -> Glance:
        """How the stores look."""
        return self.incident.glance

    def _source(self, window_s: float, queues: tuple[str, ...]) -> Source:
        window = Window.last(window_s, self.now, self.settings.timezone)
        frames = {name: FRAMES[name].of(rows) for name, rows in self.incident.frames.items()}
        return GivenSource(window, frames, self.now)


def example(rule: Rule, settings: Settings, now: datetime | None = None) -> Alert:
    """An alert of this rule that has begun to fire: the figures go with the limits that are shipped."""
    at = now or utc_now()
    usual = next(one for one in shipped() if one.id == rule.signal)
    scene = Scene(incident(rule.signal, at), settings, at)
    breaches = [one for one in run_check(usual, scene) if one.level is ReadLevel.BREACH]
    if not breaches:
        raise InputError("RULE", f"there is no example of {rule.id}")
    reading = breaches[0]
    since = (
        at - seconds(float(rule.hold))
        if reading.since is None
        else min(reading.since, at - seconds(rule.hold))
    )
    turn = step(None, replace(reading, since=since), rule, at)
    assert turn.after is not None  # noqa: S101 - a breach makes an alert
    return replace(turn.after, id=EXAMPLE_ID, state=AlertState.FIRING, firing_at=at)


def _center(found: Incident) -> Any:
    """Answers of a task center, as far as checks ask for them."""
    checks = SimpleNamespace(
        workers=lambda: list(found.workers),
        schedulers=lambda: list(found.schedulers),
        held_by_worker=lambda: dict(found.held),
        outcomes=lambda *_: found.counts,
        runs_by_code=lambda *_: dict(found.by_code),
        orphans=lambda _: None,
        late=lambda *_: [],
        new_dead=lambda _: list(found.dead),
        not_fired=lambda *_: list(found.not_fired),
    )
    dispatch = SimpleNamespace(due_lists=lambda: ([], None))
    return cast(Any, SimpleNamespace(checks=checks, dispatch=dispatch, alerts=SimpleNamespace(open=list)))
