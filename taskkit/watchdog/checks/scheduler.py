"""``scheduler``: no scheduler scans, or due tasks stand undispatched while there is room for them."""

from __future__ import annotations

from collections.abc import Sequence

from taskkit.alerts import Reading, ReadLevel
from taskkit.analytics.diagnosis import Action, Figure
from taskkit.center.alert_checks import LateList, NodeSign
from taskkit.names import is_drill_queue
from taskkit.watchdog.place import CheckPlace
from taskkit.watchdog.signals import SchedulerRule
from taskkit.watchdog.wording import Remark, said

SCAN, DUE = "scan", "due"
ROOM = 0.8
"""A window that is fuller than this has no room that counts: it is filled as fast as the workers empty it."""
BEATS = 3
"""A scheduler that has missed so many heartbeats is not taken for one that lives and only does not scan."""
LOOK = Action("look", "taskkit status")
START = Action("start_scheduler", "python -m taskkit.scheduler")


def check(rule: SchedulerRule, place: CheckPlace) -> list[Reading]:
    """One reading of the scans, one of the due tasks."""
    patience = min(float(rule.no_scan), BEATS * place.settings.scheduler.heartbeat_s)
    return [_scan(rule, place.center.checks.schedulers(), patience), _due(rule, place)]


def _scan(rule: SchedulerRule, signs: Sequence[NodeSign], patience: float) -> Reading:
    ages = [one.scan_age_s for one in signs if one.stopped_at is None and one.scan_age_s is not None]
    if ages and min(ages) <= rule.no_scan:
        return Reading(SCAN, ReadLevel.CLEAR, value=min(ages), unit="s")
    scans = [one.last_scan_at for one in signs if one.last_scan_at is not None]
    every = [one.scan_age_s for one in signs if one.scan_age_s is not None]
    alive = sum(one.beats(patience) for one in signs)
    figures = (
        Figure("scan_age", min(every, default=None), "s"),
        Figure("schedulers", alive, ""),
        Figure("no_scan", rule.no_scan, "s"),
    )
    cause = "stands_still" if alive else "gone" if signs else "never_seen"
    actions = (LOOK, Action("doctor", "taskkit doctor"), START) if alive else (LOOK, START)
    return Reading(
        SCAN,
        ReadLevel.BREACH,
        cause,
        min(every, default=None),
        "s",
        said=said(Remark("scheduler", cause, figures, actions=actions)),
        since=max(scans, default=None),
    )


def _due(rule: SchedulerRule, place: CheckPlace) -> Reading:
    lists, now = place.center.dispatch.due_lists()
    ours = [one for one in lists if not is_drill_queue(one.queue)]
    found = [] if now is None else place.center.checks.late(ours, now, rule.due_for)
    late = [one for one in found if _has_room(one, place)]
    if now is None or not late:
        return Reading(DUE, ReadLevel.CLEAR, value=0.0, unit="tasks")
    first = min(late, key=lambda one: one.since)
    tasks = sum(one.tasks for one in late)
    figures = (
        Figure("late", tasks, "tasks"),
        Figure("due_for", (now - first.since).total_seconds(), "s"),
        Figure("dispatched", first.dispatched_queue, "tasks"),
    )
    words = {"queue": first.queue, "queues": ", ".join(sorted({one.queue for one in late}))}
    actions = (LOOK, Action("doctor", "taskkit doctor"), START)
    return Reading(
        DUE,
        ReadLevel.BREACH,
        "undispatched",
        float(tasks),
        "tasks",
        said=said(Remark("scheduler", "undispatched", figures, actions=actions, words=words)),
    )


def _has_room(late: LateList, place: CheckPlace) -> bool:
    """Whether a scheduler would dispatch more into this list, as far as SQL knows what stands in it."""
    window = place.settings.scheduler
    return late.dispatched_list < ROOM * window.window and late.dispatched_queue < ROOM * window.queue_window
