"""``duplicates``: tasks with more than one run that had an effect, by their causes."""

from __future__ import annotations

from taskkit.alerts import Reading, ReadLevel
from taskkit.analytics.rules.duplicates import UNREAD
from taskkit.watchdog.place import CheckPlace
from taskkit.watchdog.signals import DuplicatesRule
from taskkit.watchdog.wording import diagnosed, telling


def check(rule: DuplicatesRule, place: CheckPlace) -> list[Reading]:
    """One reading, about the causes that the rule names; where nothing ran, nothing ran twice.

    More repeated tasks than can be read may hide what they are.
    """
    found = place.diagnosis("duplicates", rule.over, causes=rule.causes)
    total = sum(int(found.figure(f"cause_{cause}") or 0) for cause in rule.causes)
    if total <= rule.above and found.verdict == UNREAD:
        return [Reading("", ReadLevel.NO_DATA, value=float(total), unit="tasks")]
    if total <= rule.above:
        return [Reading("", ReadLevel.CLEAR, value=float(total), unit="tasks")]
    return [
        Reading(
            "",
            ReadLevel.BREACH,
            found.verdict,
            float(total),
            "tasks",
            said=diagnosed(found, more=telling(found)),
        )
    ]
