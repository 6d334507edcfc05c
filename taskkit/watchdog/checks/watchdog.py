"""``watchdog``: another watchdog that fell silent and was not replaced. That all of them have is told by schedulers."""

from __future__ import annotations

from taskkit.alerts import Reading, ReadLevel
from taskkit.analytics.diagnosis import Action, Figure
from taskkit.center.alert_checks import NodeSign
from taskkit.watchdog.place import CheckPlace
from taskkit.watchdog.signals import WatchdogRule
from taskkit.watchdog.wording import Remark, said


def check(rule: WatchdogRule, place: CheckPlace) -> list[Reading]:
    """A reading of each silent one."""
    signs = place.watchdogs()
    alive = [one for one in signs if one.beats(rule.after)]
    others = [one for one in signs if one.id != place.own_watchdog and one.stopped_at is None]
    silent = [one for one in others if not one.beats(rule.after)]
    return [_silent(one, len(alive)) for one in silent if not _replaced(one, alive)]


def _replaced(gone: NodeSign, alive: list[NodeSign]) -> bool:
    return any(one.started_at > gone.heartbeat_at for one in alive)


def _silent(watchdog: NodeSign, alive: int) -> Reading:
    figures = (Figure("heartbeat_age", watchdog.heartbeat_age_s, "s"), Figure("watchdogs_alive", alive, ""))
    words = {"watchdog": watchdog.id, "host": watchdog.host, "pid": str(watchdog.pid)}
    actions = (Action("start_watchdog", "python -m taskkit.watchdog"),)
    return Reading(
        watchdog.id,
        ReadLevel.BREACH,
        "silent",
        watchdog.heartbeat_age_s,
        "s",
        said=said(Remark("watchdog", "silent", figures, actions=actions, words=words)),
        since=watchdog.heartbeat_at,
    )
