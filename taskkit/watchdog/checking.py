"""Looking without touching: what is wrong in rules and receivers, and what every check finds at this moment."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from taskkit.alerts import Alert, AlertState, Reading, ReadLevel
from taskkit.center import TaskCenter
from taskkit.errors import SettingsError
from taskkit.receivers import config
from taskkit.receivers.loading import load_receivers
from taskkit.receivers.protocol import Receiver
from taskkit.settings import Settings
from taskkit.settings.alerting import alerting_folder
from taskkit.watchdog.engine import CheckOutcome
from taskkit.watchdog.looking import Looker
from taskkit.watchdog.policy import strangers
from taskkit.watchdog.rounds import turns
from taskkit.watchdog.rules import load_rules
from taskkit.watchdog.signals import Rule
from taskkit.watchdog.step import Turn

HEADER = re.compile(r"^\s*\[\[\s*receiver\s*\]\]", re.MULTILINE)


def problems(settings: Settings, environment: Mapping[str, str] | None) -> list[str]:
    """Everything that is wrong in rules.toml and receivers.toml, each with file and line; empty when both are right.

    Without an environment, in which the secrets stand, receivers are not looked at.
    """
    folder = alerting_folder(settings)
    rules: Sequence[Rule] = ()
    found: list[str] = []
    try:
        rules = load_rules(folder)
    except SettingsError as error:
        found += str(error).splitlines()
    if environment is None:
        return found
    receivers: Sequence[Receiver] = ()
    try:
        receivers = load_receivers(settings, environment)
    except SettingsError as error:
        return found + (_of_each(folder / config.FILE, environment) if folder else []) or [*found, str(error)]
    return found + list(strangers(folder, rules, [one.name for one in receivers]))


def _of_each(path: Path, environment: Mapping[str, str]) -> list[str]:
    """What is wrong with each receiver for itself: the others are taken out, and lines stay where they are."""
    text = path.read_text(encoding="utf-8")
    starts = [match.start() for match in HEADER.finditer(text)]
    found: list[str] = []
    for begin, end in zip(starts, [*starts[1:], len(text)], strict=True):
        alone = re.sub(r"[^\n]", "", text[:begin]) + text[begin:end]
        try:
            config.read(alone, environment, place=str(path))
        except SettingsError as error:
            found.append(str(error))
    try:
        config.read(text, environment, place=str(path))
    except SettingsError as error:
        found += [] if found else [str(error)]
    return found


@dataclass(frozen=True, slots=True)
class Looked:
    """What the check of one rule came to, and what a watchdog would make of it now."""

    rule: Rule
    outcome: CheckOutcome
    now: datetime
    turns: list[Turn] = field(default_factory=list)

    @property
    def blind(self) -> bool:
        """Whether it had nothing at all to judge by."""
        readings = self.outcome.readings
        return bool(readings) and all(one.level is ReadLevel.NO_DATA for one in readings)

    @property
    def wrong(self) -> list[Turn]:
        """Those about objects that are over their limit."""
        breached = {one.object for one in self.outcome.readings if one.level is ReadLevel.BREACH}
        return [turn for turn in self.turns if turn.after is not None and turn.after.object in breached]


def look(settings: Settings, center: TaskCenter, rules: Sequence[Rule]) -> list[Looked]:
    """Run the checks of these rules once, each within its limit; nothing is written."""
    from taskkit.watchdog.checks import run_check
    from taskkit.watchdog.place import CheckPlace, signs

    def read(rule: Rule) -> list[Reading]:
        return run_check(rule, CheckPlace(center, settings, center.now(), watchdogs=lambda: signs(center)))

    looker = Looker(read)
    looked = [Looked(rule, looker.look(rule), center.now()) for rule in rules]
    live, silences = center.alerts.open(), center.alerts.silences()
    firing = [alert for alert in live if alert.state is AlertState.FIRING]

    def steps(one: Looked, explains: Sequence[Alert]) -> Looked:
        if one.outcome.error is not None:
            return one
        found = turns(one.rule, live, one.outcome.readings, one.now, firing=explains, silences=silences)
        return Looked(one.rule, one.outcome, one.now, found)

    first = [steps(one, firing) for one in looked]
    also = [turn.after for one in first for turn in one.wrong if turn.after is not None]
    return [steps(one, [*firing, *(a for a in also if a.state is AlertState.FIRING)]) for one in first]
