"""``worker_dead``: workers that fell silent and were not replaced, and fewer workers than there should be."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Sequence
from datetime import datetime

from taskkit.alerts import Reading, ReadLevel
from taskkit.analytics.diagnosis import Action, Figure
from taskkit.center.alert_checks import NodeSign
from taskkit.names import is_drill_queue
from taskkit.watchdog.checks import most
from taskkit.watchdog.place import CheckPlace
from taskkit.watchdog.signals import WorkerDeadRule
from taskkit.watchdog.wording import Remark, said

WORKERS = "workers"
"""The object of the alert about too few of them."""
LOOK = Action("look", "taskkit status")


def check(rule: WorkerDeadRule, place: CheckPlace) -> list[Reading]:
    """A reading of each silent worker, and one of how many there are.

    Where none is left that is one alert, not one of each: the silent ones are left as they are.
    """
    signs = [one for one in place.center.checks.workers() if not _of_drill(one)]
    alive = [one for one in signs if one.beats(rule.after)]
    silent = [
        one for one in signs if one.stopped_at is None and one not in alive and not replaced(one, alive)
    ]
    enough = _enough(rule, signs, alive)
    if not alive and enough.level is ReadLevel.BREACH:
        return [enough, *(Reading(one.id, ReadLevel.NO_DATA) for one in silent)]
    held = place.center.checks.held_by_worker() if silent else {}
    silent.sort(key=lambda one: one.heartbeat_at, reverse=True)
    told = most(silent, lambda one: one.id, rule, place)
    return [enough, *(_silent(one, held.get(one.id, 0), len(alive)) for one in told)]


def replaced(gone: NodeSign, alive: Sequence[NodeSign]) -> bool:
    """Whether somebody who does its work started after its last heartbeat."""
    return any(one.started_at > gone.heartbeat_at and one.serves(gone.queues) for one in alive)


def _of_drill(worker: NodeSign) -> bool:
    return bool(worker.queues) and all(map(is_drill_queue, worker.queues))


def _enough(rule: WorkerDeadRule, signs: Sequence[NodeSign], alive: Sequence[NodeSign]) -> Reading:
    if len(alive) >= rule.expected:
        return Reading(WORKERS, ReadLevel.CLEAR, value=float(len(alive)), unit="workers")
    last = max(signs, key=_last, default=None)
    figures = (
        Figure("workers_alive", len(alive), "workers"),
        Figure("expected", rule.expected, "workers"),
        Figure("last_sign", None if last is None else last.heartbeat_age_s, "s"),
    )
    actions = (LOOK, Action("start_workers", start(last.queues if last is not None else ())))
    cause = "too_few" if alive else "none_left" if signs else "never_seen"
    return Reading(
        WORKERS,
        ReadLevel.BREACH,
        cause,
        float(len(alive)),
        "workers",
        said=said(Remark("worker_dead", cause, figures, actions=actions)),
        since=None if alive or last is None else _last(last),
    )


def start(queues: Collection[str]) -> str:
    """The command that starts a worker for these queues; without any, for those of its handlers."""
    served = shlex.quote(",".join(sorted(queues)))
    return f"python -m taskkit.worker --queue {served}" if queues else "python -m taskkit.worker"


def _last(sign: NodeSign) -> datetime:
    return max(sign.heartbeat_at, sign.stopped_at or sign.heartbeat_at)


def _silent(worker: NodeSign, held: int, alive: int) -> Reading:
    figures = (
        Figure("heartbeat_age", worker.heartbeat_age_s, "s"),
        Figure("held", held, "tasks"),
        Figure("workers_alive", alive, "workers"),
    )
    actions = (
        LOOK,
        Action("diagnose_lost", "taskkit diagnose lost"),
        Action("start_workers", start(worker.queues)),
    )
    words = {
        "worker": worker.id,
        "host": worker.host,
        "pid": str(worker.pid),
        "queues": ", ".join(sorted(worker.queues)),
    }
    return Reading(
        worker.id,
        ReadLevel.BREACH,
        "silent",
        worker.heartbeat_age_s,
        "s",
        said=said(Remark("worker_dead", "silent", figures, actions=actions, words=words)),
        since=worker.heartbeat_at,
    )
