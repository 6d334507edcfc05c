"""The check of the stores, from what was seen to what is told; no store is needed for it."""

from __future__ import annotations

from typing import Any

import pytest

from taskkit.alerts import Reading, ReadLevel
from taskkit.health.facts import Folder
from taskkit.health.glance import Glance
from taskkit.queues.server_facts import ServerFacts
from taskkit.watchdog.checks.stores import check
from tests.towns import assert_said
from tests.watchdogs import rule

WELL = ServerFacts(
    persistence="aof", maxmemory_policy="noeviction", maxmemory=1 << 30, used_memory=1 << 20, saving=True
)
GIB = 1 << 30


class Stub:
    """A place of which only the glance is asked for."""

    def __init__(self, seen: Glance) -> None:
        self.glance = lambda: seen


def look(
    broker: dict[str, Any] | None = None, keys: dict[str, Any] | None = None, **seen: Any
) -> dict[str, Reading]:
    from dataclasses import replace

    fixed: dict[str, Any] = {
        "sql_ms": 1.0, "broker_ms": 0.5, "clocks_ms": (("", 3.0),), "broker": replace(WELL, **(broker or {})),
        "folders": (Folder("home", "/srv/x", free_bytes=100 * GIB),),
    }  # fmt: skip
    readings = check(rule("stores", **(keys or {})), Stub(Glance(**(fixed | seen))))  # type: ignore[arg-type]
    for one in readings:
        if one.level is ReadLevel.BREACH:
            assert_said(one.said)
    return {one.object: one for one in readings}


def wrong(**parts: Any) -> dict[str, str | None]:
    """The objects that are over their limit, with their own severity."""
    return {name: one.severity for name, one in look(**parts).items() if one.level is ReadLevel.BREACH}


def test_stores_that_are_well_give_no_breach() -> None:
    assert {one.level for one in look().values()} == {ReadLevel.CLEAR}


FULL = Folder("home", "/x", free_bytes=GIB // 2)
ROOMY = Folder("log_dir", "/y", free_bytes=100 * GIB)
UNKNOWN = Folder("home", "/x", free_bytes=None)


@pytest.mark.parametrize(
    ("folders", "level"),
    [
        ((UNKNOWN,), ReadLevel.NO_DATA), ((UNKNOWN, ROOMY), ReadLevel.NO_DATA), ((ROOMY,), ReadLevel.CLEAR),
        ((UNKNOWN, FULL), ReadLevel.BREACH), ((), None),
    ],
)  # fmt: skip
def test_room_that_is_not_known_is_no_end_of_an_alert(
    folders: tuple[Folder, ...], level: ReadLevel | None
) -> None:
    found = look(folders=folders).get("disk")
    assert (found and found.level) == level


@pytest.mark.parametrize(("most", "used"), [(None, 1 << 20), (GIB, None)])
def test_memory_that_redis_does_not_tell_is_no_end_of_an_alert(most: int | None, used: int | None) -> None:
    found = look(broker={"maxmemory": most, "used_memory": used})["redis_memory"]
    assert found.level is ReadLevel.NO_DATA
    assert "redis_memory" not in look(broker={"maxmemory": 0})


def test_the_embedded_default_is_well_without_persistence() -> None:
    assert wrong(broker={"persistence": "none"}, embedded_broker=True) == {}
    assert wrong(broker={"persistence": "none"}) == {"redis_persistence": "note"}
    assert wrong(broker={"persistence": "none"}, keys={"persistence": False}) == {}


@pytest.mark.parametrize(
    ("parts", "told"),
    [
        ({"sql_problem": "no"}, {"sql": "critical"}),
        ({"broker_problem": "no"}, {"redis": "critical"}),
        ({"sql_ms": 250.0}, {"sql_slow": None}),
        ({"broker_ms": 250.0}, {"redis_slow": None}),
        ({"sql_ms": 250.0, "keys": {"slow_ms": 300.0}}, {}),
        ({"broker": {"maxmemory_policy": "allkeys-lru"}}, {"redis_eviction": None}),
        ({"broker": {"maxmemory_policy": "allkeys-lru", "maxmemory": 0}}, {}),
        ({"broker": {"maxmemory_policy": "volatile-lru"}}, {}),
        ({"broker": {"used_memory": int(0.95 * GIB)}}, {"redis_memory": None}),
        ({"broker": {"saving": False}}, {"redis_saving": None}),
        ({"clocks_ms": (("", 3.0), ("host:9", -1200.0))}, {"clock": None}),
        ({"clocks_ms": (("", 1200.0),)}, {"clock": None}),
        ({"clocks_ms": (("", 900.0),)}, {}),
        ({"folders": (Folder("home", "/x", free_bytes=GIB // 2),)}, {"disk": None}),
        ({"folders": (Folder("home", "/x", free_bytes=50 << 20), Folder("log_dir", "/y", free_bytes=9 * GIB))}, {"disk": "critical"}),
        ({"folders": ()}, {}),
    ],
)  # fmt: skip
def test_what_can_hurt_is_told_as_what_it_is(parts: dict[str, Any], told: dict[str, str | None]) -> None:
    assert wrong(**parts) == told


def test_near_a_limit_is_between_the_marks() -> None:
    near = look(sql_ms=180.0, clocks_ms=(("", 900.0),), folders=(Folder("home", "/x", free_bytes=GIB + 5),))
    assert [near[name].level for name in ("sql_slow", "clock", "disk")] == [ReadLevel.BETWEEN] * 3


def test_what_a_store_that_is_away_or_says_little_cannot_tell_is_no_data() -> None:
    away = look(sql_problem="no", broker_problem="no")
    quiet = {name for name, one in away.items() if one.level is ReadLevel.NO_DATA}
    assert quiet == {
        "sql_slow",
        "clock",
        "redis_slow",
        "redis_eviction",
        "redis_memory",
        "redis_saving",
        "redis_persistence",
    }
    mute = look(broker={"persistence": None, "maxmemory_policy": None, "saving": None})
    assert [mute[f"redis_{name}"].level for name in ("persistence", "eviction", "saving")] == [
        ReadLevel.NO_DATA
    ] * 3


def test_a_clock_that_is_off_is_called_by_its_name() -> None:
    told = look(clocks_ms=(("", 3.0), ("host:9", -1200.0)))["clock"].said["en"]
    assert told.title == "the clock of host:9 is wrong"
    assert told.figures[0] == ("Off by", "-1.2 s")
    assert look(clocks_ms=(("", 1200.0),))["clock"].said["en"].title == "the watchdog's clock is wrong"
