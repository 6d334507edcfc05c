"""``missed``: planned times of periodic tasks that did not fire: alert on absence, not only on failure."""

from __future__ import annotations

from itertools import groupby

from taskkit.alerts import Reading, ReadLevel
from taskkit.analytics.diagnosis import Action, Figure
from taskkit.center.alert_checks import NotFired
from taskkit.watchdog.checks import most
from taskkit.watchdog.place import CheckPlace
from taskkit.watchdog.signals import MissedRule
from taskkit.watchdog.wording import Remark, diagnosed, said

MEANT = ("running", "waits", "held")
"""Words of reasons for which a time is skipped as its task is set to, or as a person asked for."""
CAUSES = ("scheduler_down", "not_dispatched", "missed_by_policy")
"""Verdicts of the diagnosis that explain an absence."""


def check(rule: MissedRule, place: CheckPlace) -> list[Reading]:
    """A reading of each code with planned times that should have fired by now."""
    rows = place.center.checks.not_fired(place.ago(rule.over), place.ago(rule.after))
    wrong = [one for one in rows if _is_wrong(one)]
    by_code = [list(some) for _, some in groupby(wrong, key=lambda one: one.task_code)]
    return [_missed(rule, place, some) for some in most(by_code, lambda some: some[0].task_code, rule, place)]


def _is_wrong(one: NotFired) -> bool:
    if one.state == "planned":
        return not one.held
    return one.state == "missed" or not any(word in one.reason for word in MEANT)


def _missed(rule: MissedRule, place: CheckPlace, some: list[NotFired]) -> Reading:
    found = place.diagnosis("missed", rule.over, max_age_s=rule.every)
    first = min(some, key=lambda one: one.first_at)
    count = sum(one.occurrences for one in some)
    figures = (
        Figure("not_fired", count),
        Figure("late_for", (place.now - first.first_at).total_seconds(), "s"),
        *(one for one in found.evidence if one.name == "schedulers"),
    )
    words = {"code": first.task_code, "task": str(first.sample_id), "reason": first.reason or first.state}
    actions = found.actions or (Action("show_task", f"taskkit tasks show {first.sample_id}"),)
    explained = found.verdict in CAUSES
    told = said(Remark("missed", "absent", figures, actions=actions, words=words))
    if explained and _only(found.found, first.task_code):
        told = diagnosed(found, more=figures[:2])
    cause = found.verdict if explained else "absent"
    return Reading(
        first.task_code, ReadLevel.BREACH, cause, float(count), "", said=told, since=first.first_at
    )


def _only(found: object, code: str) -> bool:
    """Whether the diagnosis speaks of this code alone, so that its words fit."""
    subjects = [one for one in found if one.cause in CAUSES]  # type: ignore[attr-defined]
    return bool(subjects) and all(one.subject.partition(" ")[2] == code for one in subjects)
