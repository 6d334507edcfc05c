"""A glance at the stores: whether they answer and how fast, and what of them can hurt soon. Cheap enough for every few seconds.

Doctor looks at everything (looking.py); this leaves out what grows with the tasks.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import Any

from taskkit.center import TaskCenter
from taskkit.center.sql_facts import LOOKS
from taskkit.clock import monotonic, utc_now
from taskkit.embedded import Embedded
from taskkit.errors import BrokerUnavailable, StoreError
from taskkit.health.facts import Folder
from taskkit.health.looking import folders, trip
from taskkit.queues import connect
from taskkit.queues.redis import RedisQueue
from taskkit.queues.server_facts import ServerFacts
from taskkit.settings import Settings


@dataclass(frozen=True, slots=True)
class Glance:
    """What was seen. A store that did not answer has its sentence in ``…_problem``; None: it was not to be learnt."""

    sql_problem: str | None = None
    sql_ms: float | None = None
    clocks_ms: tuple[tuple[str, float], ...] = ()
    """How far each clock is from the database's: this node's is called "", the others by ``host:pid``."""
    broker_problem: str | None = None
    broker_ms: float | None = None
    broker: ServerFacts | None = None
    embedded_broker: bool = False
    folders: tuple[Folder, ...] = ()


def glance(settings: Settings, center: TaskCenter, fresh_s: float = 15.0) -> Glance:
    """Look at the stores that the settings mean; ``center`` is the open task center. Never raises StoreError."""
    sql = _sql(center, fresh_s)
    broker = _broker(settings)
    return Glance(folders=tuple(folders(settings)), embedded_broker=settings.embedded_redis, **sql, **broker)


def _sql(center: TaskCenter, fresh_s: float) -> dict[str, Any]:
    try:
        center.read.ping()  # connecting is no part of how fast it answers
        looks = [_clock(center) for _ in range(LOOKS)]
        took, own = min(looks)
        others = [
            one
            for one in center.checks.schedulers()
            if one.beats(fresh_s) and one.clock_offset_ms is not None
        ]
    except StoreError as error:
        return {"sql_problem": str(error)}
    clocks = [("", own), *((f"{one.host}:{one.pid}", float(one.clock_offset_ms or 0.0)) for one in others)]
    return {"sql_ms": took, "clocks_ms": tuple(clocks)}


def _clock(center: TaskCenter) -> tuple[float, float]:
    began, before = monotonic(), utc_now()
    there = center.now()
    took = monotonic() - began
    return took * 1000, ((before - there).total_seconds() + took / 2) * 1000


def _broker(settings: Settings) -> dict[str, Any]:
    url = settings.redis_url or Embedded(settings.home).peek()
    if url is None:
        return {"broker_problem": "the embedded broker is not running; it starts with `taskkit up`"}
    with closing(connect(url)) as queue:
        if not isinstance(queue, RedisQueue):
            return {}
        try:
            queue.ping()
            return {
                "broker_ms": min(trip(queue) for _ in range(LOOKS)) * 1000,
                "broker": queue.server_facts(),
            }
        except BrokerUnavailable as error:
            return {"broker_problem": str(error)}
