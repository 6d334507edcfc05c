"""``forecast``: at the present rates a promised waiting time will be broken, when, and how many slots would keep it."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from taskkit.alerts import Reading, ReadLevel
from taskkit.analytics import Diagnosis
from taskkit.analytics.diagnosis import Action, Figure
from taskkit.clock import seconds
from taskkit.watchdog.place import CheckPlace
from taskkit.watchdog.signals import ForecastRule
from taskkit.watchdog.wording import Remark, clock_time, said

WINDOW_S = 3600.0
FRICTION = 0.9
"""What is left of the ideal rate in the field, as in the diagnosis of a backlog."""
LOOK = Action("diagnose_backlog", "taskkit diagnose backlog")
AGE_LOOKS = 2
BETWEEN = 1.25


@dataclass(frozen=True, slots=True)
class WaitAhead:
    """What will become of the wait in a queue: seconds until the promise is broken (None: it is kept), and the slots wanted."""

    breaks_in_s: float | None
    wait_s: float | None
    slots: int
    wanted: int | None

    @property
    def more(self) -> int:
        """So many slots more."""
        return max(1, (self.wanted or self.slots + 1) - self.slots)


def check(rule: ForecastRule, place: CheckPlace) -> list[Reading]:
    """One reading of all queues, or one of each that the rule names."""
    groups: Sequence[tuple[str, ...]] = [(name,) for name in rule.queues] or [()]
    return [_read(rule, place, "".join(queues), queues) for queues in groups]


def _read(rule: ForecastRule, place: CheckPlace, name: str, queues: tuple[str, ...]) -> Reading:
    waiting = max((one.waiting for one in place.depths(queues)), default=0)
    if waiting < rule.min_waiting:
        return Reading(name, ReadLevel.CLEAR)
    found = place.diagnosis("backlog", WINDOW_S, queues=queues, max_age_s=AGE_LOOKS * rule.every)
    outlook = look_ahead(found, rule.promise)
    breaks = outlook.breaks_in_s
    if breaks is None or breaks > BETWEEN * rule.horizon:
        return Reading(name, ReadLevel.CLEAR, value=outlook.wait_s, unit="s")
    if breaks > rule.horizon:
        return Reading(name, ReadLevel.BETWEEN, value=outlook.wait_s, unit="s")
    return _breach(rule, place, name, found, outlook)


def look_ahead(backlog: Diagnosis, promise_s: float) -> WaitAhead:
    """From the figures of a backlog's diagnosis: what arrives now waits for what stands before it."""
    waiting, arriving = _number(backlog, "waiting") or 0.0, _number(backlog, "arrival_per_s") or 0.0
    served, best = _number(backlog, "service_per_s"), _number(backlog, "capacity_per_s")
    slots, mean = int(_number(backlog, "slots") or 0), _number(backlog, "service_mean")
    rate = max(served or 0.0, FRICTION * (best or 0.0))
    wanted = (
        math.ceil(max(arriving, waiting / promise_s) * mean / 1000 / FRICTION) if mean and promise_s else None
    )
    if not rate:
        left = promise_s - (_number(backlog, "oldest_age") or 0.0)
        return WaitAhead(max(0.0, left) if waiting else None, None, slots, wanted)
    wait = waiting / rate
    if wait >= promise_s:
        return WaitAhead(0.0, wait, slots, wanted)
    growing = arriving - rate
    return WaitAhead((promise_s * rate - waiting) / growing if growing > 0 else None, wait, slots, wanted)


def _number(found: Diagnosis, name: str) -> float | None:
    value = found.figure(name)
    return None if value is None or isinstance(value, str) else float(value)


def _breach(
    rule: ForecastRule, place: CheckPlace, name: str, found: Diagnosis, outlook: WaitAhead
) -> Reading:
    remark = _rates(rule, place, name, found, outlook)
    if outlook.wait_s is None:
        remark = _no_rate(rule, place, name, found, outlook)
    return Reading(name, ReadLevel.BREACH, remark.cause, outlook.wait_s, "s", said=said(remark))


def _no_rate(
    rule: ForecastRule, place: CheckPlace, name: str, found: Diagnosis, outlook: WaitAhead
) -> Remark:
    """Nothing has ended that tells how fast it goes: only when the oldest will have waited too long is known."""
    known = {one.name: one for one in found.evidence}
    figures = (known["waiting"], known["oldest_age"], known["slots"], Figure("promise", rule.promise, "s"))
    breaks, words = _breaks(place, outlook), _words(place, name, found)
    cause = "nothing_done" if outlook.breaks_in_s else "nothing_done_broken"
    return Remark("forecast", cause, figures, breaks, (LOOK,), words)


def _rates(rule: ForecastRule, place: CheckPlace, name: str, found: Diagnosis, outlook: WaitAhead) -> Remark:
    """What the present rates come to."""
    known = {one.name: one for one in found.evidence}
    figures = (
        Figure("wait_now", outlook.wait_s, "s"),
        known["arrival_per_s"],
        known["capacity_per_s"],
        known["waiting"],
        known["slots"],
        Figure("promise", rule.promise, "s"),
    )
    forecast = (
        *_breaks(place, outlook),
        Figure("slots_wanted", outlook.wanted, "slots"),
        Figure("slots_more", outlook.more, "slots"),
    )
    words = _words(place, name, found)
    command = f"python -m taskkit.worker --queue {shlex.quote(words['queue'])} --processes {outlook.more}"
    cause = "will_break" if outlook.breaks_in_s else "broken"
    return Remark("forecast", cause, figures, forecast, (LOOK, Action("add_workers", command)), words)


def _breaks(place: CheckPlace, outlook: WaitAhead) -> tuple[Figure, Figure]:
    """When the promise is broken."""
    breaks = outlook.breaks_in_s or 0.0
    at = clock_time(place.now + seconds(breaks), place.settings.timezone)
    return Figure("broken_at", at), Figure("breaks_in", breaks, "s")


def _words(place: CheckPlace, name: str, found: Diagnosis) -> dict[str, str]:
    return {"queue": str(found.details.get("queue") or name), "zone": place.settings.timezone}
