"""``stores``: SQL and Redis away or slow, what makes Redis forget, clocks that differ, little room on a disk."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from taskkit.alerts import Reading, ReadLevel
from taskkit.analytics.diagnosis import Action, Figure
from taskkit.health.findings import size
from taskkit.health.glance import Glance
from taskkit.queues.server_facts import ServerFacts
from taskkit.watchdog.place import CheckPlace
from taskkit.watchdog.signals import StoresRule
from taskkit.watchdog.wording import Remark, said

SQL, REDIS, CLOCK, DISK = "sql", "redis", "clock", "disk"
DOCTOR = Action("doctor", "taskkit doctor")
SEE_STORES = Action("see_stores", "taskkit doctor")
NEAR = 0.75
"""From this part of a limit on it is between the marks."""
FULL = 0.9
NO_ROOM = 100 << 20
BLIND = {
    SQL: ("sql_slow", CLOCK),
    REDIS: ("redis_slow", "redis_eviction", "redis_memory", "redis_saving", "redis_persistence"),
}
"""What cannot be looked at while a store is away."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A number against its limit."""

    name: str
    value: float
    limit: float
    unit: str = ""

    @property
    def level(self) -> ReadLevel:
        """Over it, near it, or far from it."""
        if self.value > self.limit:
            return ReadLevel.BREACH
        return ReadLevel.BETWEEN if self.value > NEAR * self.limit else ReadLevel.CLEAR


def check(rule: StoresRule, place: CheckPlace) -> list[Reading]:
    """A reading of each store and each thing that can hurt it; never raises StoreError."""
    seen = place.glance()
    return [*_sql(rule, seen), *_redis(rule, seen), *_disk(rule, seen)]


def sql_away(error: Exception) -> list[Reading]:
    """The readings for who learns from a StoreError that SQL does not answer."""
    return list(_away(SQL, str(error)))


def _away(store: str, problem: str) -> Iterator[Reading]:
    remark = Remark("stores", f"{store}_away", actions=(SEE_STORES,), words={"problem": problem})
    yield Reading(store, ReadLevel.BREACH, "away", severity="critical", said=said(remark))
    for name in BLIND[store]:
        yield Reading(name, ReadLevel.NO_DATA)


def _sql(rule: StoresRule, seen: Glance) -> Iterator[Reading]:
    if seen.sql_problem is not None:
        yield from _away(SQL, seen.sql_problem)
        return
    yield Reading(SQL, ReadLevel.CLEAR)
    yield _slow(SQL, rule, seen.sql_ms)
    name, off = max(seen.clocks_ms, key=lambda one: abs(one[1]), default=("", 0.0))
    skew = Measured(CLOCK, abs(off), rule.clock_skew * 1000, "ms")
    figures = (Figure("offset", off, "ms"), Figure("clock_skew", skew.limit, "ms"))
    yield _against(skew, "clock_here" if not name else "clock", figures, {"node": name})


def _redis(rule: StoresRule, seen: Glance) -> Iterator[Reading]:
    if seen.broker_problem is not None:
        yield from _away(REDIS, seen.broker_problem)
        return
    yield Reading(REDIS, ReadLevel.CLEAR)
    if seen.broker is not None:
        yield _slow(REDIS, rule, seen.broker_ms)
        yield from _memory(seen.broker)
        yield _wrong("redis_saving", seen.broker.saving is False, seen.broker.saving is None)
        keeps_nothing = seen.broker.persistence == "none" and not seen.embedded_broker
        wanted = rule.persistence and keeps_nothing
        yield _wrong("redis_persistence", wanted, seen.broker.persistence is None, severity="note")


def _memory(server: ServerFacts) -> Iterator[Reading]:
    policy, most, used = server.maxmemory_policy, server.maxmemory, server.used_memory
    evicts = bool(policy and policy.startswith("allkeys") and most)
    yield _wrong("redis_eviction", evicts, policy is None, words={"policy": policy or ""})
    if most and used is not None:
        figures = (Figure("used", size(used)), Figure("most", size(most)))
        full = Measured("redis_memory", used / most, FULL)
        yield _against(full, "redis_memory", figures, {})
    elif most is None or most:
        yield Reading("redis_memory", ReadLevel.NO_DATA)


def _slow(store: str, rule: StoresRule, took_ms: float | None) -> Reading:
    if took_ms is None:
        return Reading(f"{store}_slow", ReadLevel.NO_DATA)
    figures = (Figure("answers_in", took_ms, "ms"), Figure("slow_ms", rule.slow_ms, "ms"))
    return _against(Measured(f"{store}_slow", took_ms, rule.slow_ms, "ms"), f"{store}_slow", figures, {})


def _disk(rule: StoresRule, seen: Glance) -> Iterator[Reading]:
    """The folder with the least room; there is none where all stores are elsewhere. One that does not tell may be full."""
    known = [(one.free_bytes, one.path) for one in seen.folders if one.free_bytes is not None]
    free, path = min(known, default=(rule.disk_left, ""))
    if free >= rule.disk_left and len(known) < len(seen.folders):
        yield Reading(DISK, ReadLevel.NO_DATA)
        return
    if not known:
        return
    level = (
        ReadLevel.BREACH
        if free < rule.disk_left
        else ReadLevel.BETWEEN
        if NEAR * free < rule.disk_left
        else ReadLevel.CLEAR
    )
    figures = (Figure("free", size(free)), Figure("disk_left", size(rule.disk_left)))
    actions = (Action("see_disk", f"df -h {path}"), Action("prune", "taskkit prune"))
    remark = Remark("stores", "disk", figures, actions=actions, words={"path": path})
    yield Reading(
        DISK,
        level,
        "disk",
        float(free),
        "B",
        severity="critical" if free < NO_ROOM else None,
        said=said(remark) if level is ReadLevel.BREACH else {},
    )


def _against(one: Measured, cause: str, figures: tuple[Figure, ...], words: dict[str, str]) -> Reading:
    remark = Remark("stores", cause, figures, actions=(DOCTOR,), words=words)
    told = said(remark) if one.level is ReadLevel.BREACH else {}
    return Reading(one.name, one.level, cause, one.value, one.unit, said=told)


def _wrong(
    name: str, wrong: bool, unknown: bool, *, words: dict[str, str] | None = None, severity: str | None = None
) -> Reading:
    if not wrong:
        return Reading(name, ReadLevel.NO_DATA if unknown else ReadLevel.CLEAR)
    remark = Remark("stores", name, actions=(DOCTOR,), words=words)
    return Reading(name, ReadLevel.BREACH, name, severity=severity, said=said(remark))
