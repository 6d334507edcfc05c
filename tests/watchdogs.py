"""What tests of the watchdog share: rules with a few keys changed, readings, and a timeline that an alert lives through."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec.structs import fields
from msgspec.structs import replace as changed

from taskkit.alerts import Alert, AlertState, Event, Reading, ReadLevel, Said
from taskkit.watchdog.rules import shipped
from taskkit.watchdog.signals import Length, Rule
from taskkit.watchdog.step import Turn, step

START = datetime(2026, 1, 1, tzinfo=UTC)


def rule(name: str = "backlog", **keys: Any) -> Any:
    """A shipped rule with these fields changed; lengths of time as in the file."""
    found = next(one for one in shipped() if one.id == name)
    kinds = {one.name: str(one.type) for one in fields(type(found))}
    values = {
        key: Length.of(value) if "Length" in kinds[key] and value is not None else value
        for key, value in keys.items()
    }
    return changed(found, **values)


def at(**after: float) -> datetime:
    """An instant after the start."""
    return START + timedelta(**after)


def breach(name: str = "", **parts: Any) -> Reading:
    said = {"en": Said(title="too much")}
    return Reading(name, ReadLevel.BREACH, **({"cause": "much", "value": 1.0, "said": said} | parts))


def clear(name: str = "") -> Reading:
    return Reading(name, ReadLevel.CLEAR)


def between(name: str = "") -> Reading:
    return Reading(name, ReadLevel.BETWEEN)


def no_data(name: str = "") -> Reading:
    return Reading(name, ReadLevel.NO_DATA)


@dataclass
class Life:
    """An alert as the store would keep it, and what was told of it and when, in seconds from the start."""

    rule: Rule
    alert: Alert | None = None
    told: list[tuple[float, Event]] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    alerts: int = 0

    def look(self, second: float, reading: Reading, **quiet: Any) -> Turn:
        """One look, so many seconds after the start."""
        turn = step(self.alert, reading, self.rule, at(seconds=second), **quiet)
        if turn.event is not None:
            self.told.append((second, turn.event))
        after = turn.after
        if after is not None and after.id == 0:
            self.alerts += 1
            after = replace(after, id=self.alerts)
        self.alert = None if after is None or after.state is AlertState.RESOLVED else after
        self.turns.append(turn)
        return turn

    def looks(self, seconds: Iterable[float], reading: Reading, **quiet: Any) -> Life:
        """The same found at each of these."""
        for second in seconds:
            self.look(second, reading, **quiet)
        return self

    @property
    def events(self) -> list[Event]:
        """What was told, in order."""
        return [event for _, event in self.told]


def of_value(value: float, above: float, mark: float) -> Reading:
    """What a check of a number says."""
    level = ReadLevel.BREACH if value > above else ReadLevel.CLEAR if value < mark else ReadLevel.BETWEEN
    return Reading("", level, "much", value)
