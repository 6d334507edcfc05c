"""``backlog``: what waits, in all queues together or in each; and how long it would take."""

from __future__ import annotations

from collections.abc import Sequence

from taskkit.alerts import Reading, ReadLevel
from taskkit.analytics import Diagnosis
from taskkit.analytics.diagnosis import Action, Figure
from taskkit.center.alert_checks import QueueDepth
from taskkit.watchdog.place import CheckPlace
from taskkit.watchdog.signals import BacklogRule
from taskkit.watchdog.wording import QUIET, Remark, diagnosed, said

WINDOW_S = 3600.0
AGE_LOOKS = 4
"""A diagnosis of so many looks ago is good enough: a backlog lasts, and to measure it costs more than to count it."""
MARK = 0.8
MOST_DIAGNOSED = 5
"""Of many queues only the longest have a diagnosis of their own: each costs."""
LOOK = Action("look", "taskkit status")
DIAGNOSE = Action("diagnose_backlog", "taskkit diagnose backlog")


def check(rule: BacklogRule, place: CheckPlace) -> list[Reading]:
    """One reading of all queues, or one of each queue in which something waits."""
    depths = place.depths(rule.queues)
    if rule.per == "queue":
        worst = sorted(depths, key=lambda one: one.waiting, reverse=True)
        looked = [_read(rule, place, one.queue, one.waiting, (one.queue,)) for one in worst[:MOST_DIAGNOSED]]
        return looked + _rest(rule, place, worst[MOST_DIAGNOSED:])
    return [_read(rule, place, "", sum(one.waiting for one in depths), rule.queues)]


def _level(rule: BacklogRule, waiting: int) -> ReadLevel:
    if waiting > rule.above:
        return ReadLevel.BREACH
    return ReadLevel.CLEAR if waiting < rule.mark else ReadLevel.BETWEEN


def _rest(rule: BacklogRule, place: CheckPlace, rest: Sequence[QueueDepth]) -> list[Reading]:
    """The shorter queues: counted, but for those that have an alert which only the time they need can end."""
    unsure = [one.queue for one in rest if _by_time_only(rule, one.waiting)]
    live = place.live(rule.id) if unsure else set()
    again = [name for name in unsure if name in live]
    return [
        _read(rule, place, one.queue, one.waiting, (one.queue,))
        if one.queue in again[:MOST_DIAGNOSED]
        else Reading(one.queue, ReadLevel.NO_DATA, value=float(one.waiting), unit="tasks")
        if one.queue in again
        else _counted(rule, one.queue, one.waiting)
        for one in rest
    ]


def _by_time_only(rule: BacklogRule, waiting: int) -> bool:
    return rule.drain_above is not None and rule.drain_from <= waiting <= rule.above


def _counted(rule: BacklogRule, name: str, waiting: int) -> Reading:
    """A queue of which only the number is looked at: where many are too long, the longest tell why."""
    level = _level(rule, waiting)
    if level is not ReadLevel.BREACH:
        return Reading(name, level, value=float(waiting), unit="tasks")
    figures = (Figure("waiting", waiting, "tasks"), Figure("above", rule.above, "tasks"))
    words = said(Remark("backlog", "above", figures, actions=(DIAGNOSE,)))
    return Reading(name, level, "above", float(waiting), "tasks", said=words)


def _read(rule: BacklogRule, place: CheckPlace, name: str, waiting: int, queues: Sequence[str]) -> Reading:
    level = _level(rule, waiting)
    if level is ReadLevel.BREACH:
        return _breach(rule, name, waiting, _diagnosis(rule, place, queues))
    slow = rule.drain_above is not None and waiting >= rule.drain_from
    if slow:
        found = _diagnosis(rule, place, queues)
        by_time = _by_time(rule, found)
        if by_time is ReadLevel.BREACH:
            return _breach(rule, name, waiting, found, "drain")
        level = ReadLevel.BETWEEN if by_time is ReadLevel.BETWEEN else level
    return Reading(name, level, value=float(waiting), unit="tasks")


def _diagnosis(rule: BacklogRule, place: CheckPlace, queues: Sequence[str]) -> Diagnosis:
    return place.diagnosis("backlog", WINDOW_S, queues=queues, max_age_s=AGE_LOOKS * rule.every)


def _by_time(rule: BacklogRule, found: Diagnosis) -> ReadLevel:
    """Whether what waits needs too long at the present rates; None of a forecast means that it never ends."""
    drain = found.figure("drain_now")
    if found.verdict in QUIET or rule.drain_above is None:
        return ReadLevel.CLEAR
    seconds = float("inf") if drain is None else float(drain)
    if seconds > rule.drain_above:
        return ReadLevel.BREACH
    return ReadLevel.BETWEEN if seconds > MARK * rule.drain_above else ReadLevel.CLEAR


def _breach(rule: BacklogRule, name: str, waiting: int, found: Diagnosis, cause: str = "above") -> Reading:
    figures = (
        (Figure("waiting_all", waiting, "tasks"),) if not name and found.figure("waiting") != waiting else ()
    )
    if found.verdict in QUIET:
        actions = found.actions or (LOOK,)
        words = said(Remark("backlog", cause, _own(rule, waiting, found), found.forecast, actions))
    else:
        words = diagnosed(found, more=figures)
    verdict = cause if found.verdict in QUIET else found.verdict
    return Reading(name, ReadLevel.BREACH, verdict, float(waiting), "tasks", said=words)


def _own(rule: BacklogRule, waiting: int, found: Diagnosis) -> Sequence[Figure]:
    shown = [
        one for one in found.evidence if one.name in {"service_per_s", "oldest_age"} and one.value is not None
    ]
    limits = [Figure("above", rule.above, "tasks"), Figure("drain_above", rule.drain_above, "s")]
    return [Figure("waiting", waiting, "tasks"), *shown, *limits]
