"""A diagnosis: a verdict with its evidence, forecast and actions. Its words stand in texts/, never in here."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

Value = float | int | str | None
SEVERITIES = ("ok", "note", "warning", "critical")
CONFIDENCES = ("low", "medium", "high")


@dataclass(frozen=True, slots=True)
class Figure:
    """One number with its unit; None is n/a. The catalogue names it for people."""

    name: str
    value: Value
    unit: str = ""

    def __post_init__(self) -> None:
        if isinstance(self.value, float) and not math.isfinite(self.value):
            object.__setattr__(self, "value", None)


@dataclass(frozen=True, slots=True)
class Action:
    """One thing to do, and the exact command for it."""

    name: str
    command: str


@dataclass(frozen=True, slots=True)
class Subject:
    """One subject of a rule (a task, a worker, a code) with a cause of its own from the rule's list."""

    cause: str
    subject: str
    figures: tuple[Figure, ...] = ()


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What an analysis found. ``verdict`` is one of the rule's documented names; ``evidence`` has three figures or more.

    ``found`` lists single subjects, at most fifty; the same data give the same words.
    """

    rule: str
    verdict: str
    severity: str
    confidence: str
    since: datetime
    until: datetime
    now: datetime
    zone: str = "UTC"
    evidence: tuple[Figure, ...] = ()
    forecast: tuple[Figure, ...] = ()
    actions: tuple[Action, ...] = ()
    found: tuple[Subject, ...] = ()
    details: dict[str, Value] = field(default_factory=dict)

    @property
    def healthy(self) -> bool:
        """Whether nobody need do anything."""
        return self.severity in {"ok", "note"}

    def figure(self, name: str) -> Value:
        """The value of a figure of evidence or forecast; None when it is n/a or not there."""
        named = (one.value for one in (*self.evidence, *self.forecast) if one.name == name)
        return next(named, self.details.get(name))

    def text(self, language: str = "en") -> str:
        """For a terminal without colours."""
        from taskkit.analytics.rendering import as_text

        return as_text(self, language)

    def markdown(self, language: str = "en") -> str:
        """For a chat robot of WeCom or DingTalk: headings, bold, quotes and inline code only."""
        from taskkit.analytics.rendering import as_markdown

        return as_markdown(self, language)

    def html(self, language: str = "en") -> str:
        """A fragment that needs nothing from outside."""
        from taskkit.analytics.rendering import as_html

        return as_html(self, language)

    def as_dict(self, language: str = "en") -> dict[str, Any]:
        """Names and values for programs, and the words beside them."""
        from taskkit.analytics.rendering import as_dict

        return as_dict(self, language)

    def _repr_html_(self) -> str:
        return self.html()

    def __str__(self) -> str:
        return self.text()

    def __rich__(self) -> object:
        from taskkit.analytics.rendering import as_rich

        return as_rich(self)
