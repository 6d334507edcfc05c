"""``lost``: how much recovery had to ring again or take back, and what nobody takes back."""

from __future__ import annotations

from taskkit.alerts import Reading, ReadLevel
from taskkit.analytics.diagnosis import Action, Figure
from taskkit.watchdog.place import CheckPlace
from taskkit.watchdog.signals import LostRule
from taskkit.watchdog.wording import QUIET, Remark, diagnosed, said, telling

NOT_RECOVERED = "not_recovered"


def check(rule: LostRule, place: CheckPlace) -> list[Reading]:
    """One reading of the losses of the last minutes, and one of what is lost and not recovered."""
    return [_losses(rule, place), _left(rule, place)]


def _losses(rule: LostRule, place: CheckPlace) -> Reading:
    counts = place.center.checks.outcomes(place.ago(rule.over), place.now)
    lost = counts.lost_running + counts.lost_messages
    if lost <= rule.above:
        return Reading("", ReadLevel.CLEAR, value=float(lost), unit="tasks")
    found = place.diagnosis("lost", rule.over, max_age_s=rule.every)
    figures = (
        Figure("lost_messages", counts.lost_messages, "runs"),
        Figure("lost_running", counts.lost_running, "runs"),
        Figure("above", rule.above, "tasks"),
    )
    words = (
        said(Remark("lost", "above", figures))
        if found.verdict in QUIET
        else diagnosed(found, more=telling(found))
    )
    return Reading("", ReadLevel.BREACH, found.verdict, float(lost), "tasks", said=words)


def _left(rule: LostRule, place: CheckPlace) -> Reading:
    """Running tasks of a worker that was given time to be declared dead, and the rule's time on top of it."""
    patience = rule.not_recovered + place.settings.scheduler.dead_after_s
    left = place.center.checks.orphans(patience)
    if left is None:
        return Reading(NOT_RECOVERED, ReadLevel.CLEAR, value=0.0, unit="tasks")
    age = None if left.oldest_at is None else (place.now - left.oldest_at).total_seconds()
    figures = (Figure("orphaned", left.tasks, "tasks"), Figure("claimed_ago", age, "s"))
    actions = (
        Action("look", "taskkit status"),
        Action("start_scheduler", "python -m taskkit.scheduler"),
        Action("show_task", f"taskkit tasks show {left.sample_id}"),
    )
    words = {"worker": left.worker_id, "task": str(left.sample_id)}
    return Reading(
        NOT_RECOVERED,
        ReadLevel.BREACH,
        NOT_RECOVERED,
        float(left.tasks),
        "tasks",
        said=said(Remark("lost", NOT_RECOVERED, figures, actions=actions, words=words)),
    )
