"""From frames to verdicts: what a task center tells of a window, and what that means. Needs pandas.

from taskkit.analytics import LiveSource, diagnose, settings_facts
diagnose("backlog", LiveSource(kit.center, facts=settings_facts(kit.settings)))
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

try:
    import pandas  # noqa: F401 - looked for here, so that one sentence says what to install
except ImportError as error:
    from taskkit.errors import AnalyticsMissing

    raise AnalyticsMissing("analyses need pandas: pip install 'taskkit[analytics]'") from error

from taskkit.analytics.bundle import Bundle
from taskkit.analytics.diagnosis import Action, Diagnosis, Figure, Subject
from taskkit.analytics.frames import FRAMES
from taskkit.analytics.names import RULES
from taskkit.analytics.source import GivenSource, LiveSource, Source, settings_facts
from taskkit.analytics.window import Window
from taskkit.errors import InputError
from taskkit.hints import suggest

__all__ = [
    "FRAMES",
    "RULES",
    "Action",
    "Bundle",
    "Diagnosis",
    "Figure",
    "GivenSource",
    "LiveSource",
    "Source",
    "Subject",
    "Window",
    "diagnose",
    "settings_facts",
]


def diagnose(rule: str, source: Source, **options: Any) -> Diagnosis:
    """The verdict of a rule on a source's window; raises InputError when there is no such rule."""
    if rule not in RULES:
        raise InputError(
            "rule", f"there is no rule {rule!r}{suggest(rule, RULES)}; there are {', '.join(RULES)}"
        )
    found: Diagnosis = import_module(f"taskkit.analytics.rules.{rule}").diagnose(source, **options)
    return found
