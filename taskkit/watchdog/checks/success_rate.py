"""``success_rate``: how many of the runs of the last minutes ended well."""

from __future__ import annotations

from taskkit.alerts import Reading, ReadLevel
from taskkit.analytics.diagnosis import Figure
from taskkit.watchdog.place import CheckPlace
from taskkit.watchdog.signals import SuccessRateRule
from taskkit.watchdog.wording import QUIET, Remark, diagnosed, said, too_few


def check(rule: SuccessRateRule, place: CheckPlace) -> list[Reading]:
    """One reading; with fewer runs than the rule wants there is nothing to judge by."""
    counts = place.center.checks.outcomes(place.ago(rule.over), place.now)
    if counts.judged < rule.min_runs:
        return [Reading("", ReadLevel.NO_DATA, unit="%", said=too_few(rule))]
    rate = 100.0 * counts.succeeded / counts.judged
    if rate >= rule.below:
        return [Reading("", ReadLevel.CLEAR, value=rate, unit="%")]
    found = place.diagnosis("success_rate", rule.over, max_age_s=rule.every)
    if found.verdict not in QUIET:
        return [Reading("", ReadLevel.BREACH, found.verdict, rate, "%", said=diagnosed(found))]
    figures = (
        Figure("success_runs", rate, "%"),
        Figure("runs_judged", counts.judged, "runs"),
        Figure("runs_failed", counts.failed, "runs"),
        Figure("below", rule.below, "%"),
    )
    return [
        Reading("", ReadLevel.BREACH, "below", rate, "%", said=said(Remark("success_rate", "below", figures)))
    ]
