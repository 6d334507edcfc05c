"""``zombies``: workers that beat and make no progress while work waits for them; each with where it is stuck."""

from __future__ import annotations

from taskkit.alerts import Reading, ReadLevel
from taskkit.analytics import Diagnosis
from taskkit.analytics.diagnosis import Figure, Subject
from taskkit.beats import FRESH_S
from taskkit.clock import seconds
from taskkit.watchdog.place import CheckPlace
from taskkit.watchdog.signals import ZombiesRule
from taskkit.watchdog.wording import diagnosed

WINDOW_S = 3600.0
DEAD = "dead"
"""Of a worker without a heartbeat another rule tells."""
FIRST = ("progress_age", "cpu", "heartbeat_age")


def check(rule: ZombiesRule, place: CheckPlace) -> list[Reading]:
    """A reading of each worker that looks alive; the diagnosis is made only where one has stood still for long enough."""
    signs = [one for one in place.center.checks.workers() if one.stopped_at is None]
    beating = [one for one in signs if one.beats(FRESH_S * place.pace)]
    if not beating:
        return [Reading("", ReadLevel.NO_DATA)]
    if not any((one.progress_age_s or 0.0) >= rule.after for one in beating):
        return []
    found = place.diagnosis("zombies", WINDOW_S)
    ill = [one for one in found.found if one.cause != DEAD and _still(one) >= rule.after]
    return [_zombie(found, one, place) for one in ill]


def _still(worker: Subject) -> float:
    """For how long it has made no progress; one that never made any has stood still since its start."""
    age = _figures(worker).get("progress_age")
    return float("inf") if age is None or age.value is None else float(age.value)


def _figures(worker: Subject) -> dict[str, Figure]:
    return {one.name: one for one in worker.figures}


def _zombie(found: Diagnosis, worker: Subject, place: CheckPlace) -> Reading:
    known = _figures(worker)
    figures = [known[name] for name in FIRST if name in known and known[name].value is not None]
    where = known.get("stack") or known.get("runs_now")
    still = _still(worker)
    finite = still != float("inf")
    return Reading(
        worker.subject,
        ReadLevel.BREACH,
        worker.cause,
        still if finite else None,
        "s",
        said=diagnosed(found, cause=worker.cause, more=figures, tail=where),
        since=place.now - seconds(still) if finite else None,
    )
