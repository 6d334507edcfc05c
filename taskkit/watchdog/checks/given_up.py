"""``given_up``: new dead letters, by code; it ends by itself when there has been none for a while."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from itertools import groupby

from taskkit.alerts import Reading, ReadLevel
from taskkit.analytics.diagnosis import Action, Figure
from taskkit.center import alert_checks
from taskkit.center.alert_checks import NewDead
from taskkit.watchdog.checks import most
from taskkit.watchdog.place import CheckPlace
from taskkit.watchdog.signals import GivenUpRule
from taskkit.watchdog.step import CHECK
from taskkit.watchdog.wording import Remark, said

UNKNOWN = "?"


def check(rule: GivenUpRule, place: CheckPlace) -> list[Reading]:
    """A reading of each code of which more tasks gave up than may; the most frequent codes, where there are many.

    And one of each code whose alert ends: that no more gave up does not mean that those which did are well.
    """
    dead = sorted(place.center.checks.new_dead(place.ago(rule.over)), key=lambda one: one.task_code)
    by_code = [list(some) for _, some in groupby(dead, key=lambda one: one.task_code)]
    found = [some for some in by_code if _count(some) > rule.above]
    worst = sorted(found, key=_count, reverse=True)
    wrong = [_given_up(some) for some in most(worst, lambda some: some[0].task_code, rule, place)]
    known = {some[0].task_code for some in by_code}
    over = [name for name in place.told(rule.id) if name not in known and name != CHECK]
    if len(dead) >= alert_checks.MOST_DEAD:  # there may be more than were listed
        return [*wrong, *(Reading(code, ReadLevel.NO_DATA) for code in over)]
    return [*wrong, *(_no_more(code, rule, place) for code in over)]


def _no_more(code: str, rule: GivenUpRule, place: CheckPlace) -> Reading:
    left = place.center.checks.dead(code)
    figures = (Figure("dead_left", left, "tasks"), Figure("window", float(rule.over), "s"))
    actions = (Action("see_dead", f"taskkit tasks dead --code {shlex.quote(code)}"),)
    words = said(
        Remark("given_up", "no_more", figures, actions=actions if left else (), words={"code": code})
    )
    return Reading(code, ReadLevel.CLEAR, said=words)


def _count(some: Sequence[NewDead]) -> int:
    return sum(one.tasks for one in some)


def _given_up(some: Sequence[NewDead]) -> Reading:
    most = max(some, key=lambda one: (one.tasks, one.fingerprint))
    code = shlex.quote(most.task_code)
    figures = (
        Figure("new_dead", _count(some), "tasks"),
        Figure("causes", len(some), ""),
        Figure("fingerprint", most.fingerprint or UNKNOWN),
        Figure("of_cause", most.tasks, "tasks"),
    )
    actions = (
        Action("show_task", f"taskkit tasks show {most.sample_id} --all"),
        Action("see_dead", f"taskkit tasks dead --code {code}"),
        Action("retry_dead", f"taskkit tasks retry --status given_up --code {code}"),
    )
    words = {
        "code": most.task_code,
        "queue": most.queue,
        "task": str(most.sample_id),
        "error": most.error or UNKNOWN,
    }
    return Reading(
        most.task_code,
        ReadLevel.BREACH,
        most.fingerprint or "unknown",
        float(_count(some)),
        "tasks",
        said=said(Remark("given_up", "new", figures, actions=actions, words=words)),
        since=min(one.first_at for one in some),
    )
