"""``slow``: codes that take longer than they use to."""

from __future__ import annotations

from dataclasses import replace

from taskkit.alerts import Reading, ReadLevel
from taskkit.analytics import Diagnosis
from taskkit.analytics.diagnosis import Figure, Subject
from taskkit.analytics.measures import ratio
from taskkit.watchdog.checks import most
from taskkit.watchdog.place import CheckPlace
from taskkit.watchdog.signals import SlowRule
from taskkit.watchdog.wording import diagnosed, too_few


def check(rule: SlowRule, place: CheckPlace) -> list[Reading]:
    """A reading of each code that ran; one with too few runs cannot be judged, one without any is not slow."""
    runs = place.center.checks.runs_by_code(place.ago(rule.over), place.now)
    blind = Reading("", ReadLevel.NO_DATA, said=too_few(rule))
    readings = {
        code: Reading(code, ReadLevel.CLEAR) if n >= rule.min_runs else replace(blind, object=code)
        for code, n in runs.items()
    }
    if not any(one.level is ReadLevel.CLEAR for one in readings.values()):
        return [blind, *readings.values()]
    found = place.diagnosis("slow", rule.over)
    slow = [
        one for one in found.found if runs.get(one.subject, 0) >= rule.min_runs and _times(one) >= rule.factor
    ]
    told = {one.subject: _slow(found, one) for one in most(slow, lambda one: one.subject, rule, place)}
    return [*(readings | told).values()]


def _times(code: Subject) -> float:
    now, normal = (float(one.value or 0.0) for one in code.figures[:2])
    return ratio(now, normal) or 0.0


def _slow(found: Diagnosis, code: Subject) -> Reading:
    times = _times(code)
    figures = (*code.figures, Figure("slower", times, "times"))
    return Reading(
        code.subject, ReadLevel.BREACH, found.verdict, times, "times", said=diagnosed(found, more=figures)
    )
