"""Opening the doors that the settings describe: the task center and the broker, embedded ones included."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from typing import Any

from taskkit.center import PlanRules, TaskCenter
from taskkit.center.locks import once
from taskkit.embedded import Embedded
from taskkit.errors import BrokerUnavailable, DatabaseUnavailable, StoreError
from taskkit.queues import Asker, Order, Queue, connect, connect_asker
from taskkit.queues.redis import RedisQueue
from taskkit.service import Stop, Ticker
from taskkit.settings import Settings
from taskkit.settings.home import make_home

log = logging.getLogger("taskkit.service")
KEEP_SECONDS = 1.0


def open_center(
    settings: Settings,
    *,
    pool_size: int = 5,
    overflow: int = 2,
    upgrade: bool = False,
    away: Callable[[DatabaseUnavailable], None] | None = None,
) -> TaskCenter:
    """The task center of these settings; an empty embedded one gets its schema, any other must have it.

    It has at most ``pool_size`` + ``overflow`` connections.
    ``upgrade`` lets an existing embedded database of an older taskkit be brought up to date as well. With ``away`` a
    server that cannot be reached is no error: it is told, and the schema is left unchecked.
    """
    scheduler = settings.scheduler
    rules = PlanRules(
        default_zone=settings.timezone,
        default_queue=settings.default_queue,
        misfire_grace=scheduler.misfire_grace_s,
        ahead_hours=scheduler.plan_ahead_h,
        ahead_most=scheduler.plan_ahead_max,
    )
    if settings.embedded_database:
        make_home(settings.home)
    center = TaskCenter(settings.sqlalchemy_url(), rules=rules, pool_size=pool_size, overflow=overflow)
    if settings.embedded_database and (upgrade or center.schema_revision() is None):
        center.upgrade_schema()
    try:
        center.check_schema()
    except DatabaseUnavailable as error:
        if away is None:
            raise
        away(error)
    return center


def key_prefix(settings: Settings, center: TaskCenter) -> str:
    """The prefix of all keys: set, or this installation's id, so that two installations can share one Redis."""
    if settings.key_prefix is not None:
        return settings.key_prefix
    return f"tk:{center.nodes.installation_id()}:"


def peek_queue(settings: Settings, center: TaskCenter) -> Queue | None:
    """The broker for a producer: an embedded one only while somebody runs it."""
    url = settings.redis_url or Embedded(settings.home).peek()
    return None if url is None else connect(url, key_prefix(settings, center))


def open_asker(settings: Settings, center: TaskCenter) -> Asker:
    """The broker for locks and ``once``; an embedded one must be running already."""
    url = settings.redis_url or Embedded(settings.home).peek()
    if url is None:
        raise BrokerUnavailable(
            "the embedded broker is not running, and locks and once in Redis need it: start `taskkit up`"
        )
    return connect_asker(url, key_prefix(settings, center))


def once_within(connection: Any, key: str) -> bool:
    """``once`` in the caller's transaction; opens nothing of ours."""
    return once(connection, key)


def join_queue(settings: Settings, center: TaskCenter, order: Order | None = None) -> Queue:
    """The broker for a scheduler or a worker: an embedded one is started, and stopped when the last one leaves.

    ``order`` is the one of :func:`order_of`, for a worker that changes it on its way.
    """
    url = settings.redis_url or Embedded(settings.home).join()
    queue = connect(url, key_prefix(settings, center), order=order or order_of(settings))
    _warn_of_eviction(queue)
    return queue


def order_of(settings: Settings) -> Order:
    """From which list a worker takes next."""
    return Order(strict=settings.scheduler.strict_priority, in_order=settings.worker.strict_queues)


def _warn_of_eviction(queue: Queue) -> None:
    """A server that drops whole lists when its memory is full costs every message in them a recovery."""
    if not isinstance(queue, RedisQueue):
        return
    with contextlib.suppress(BrokerUnavailable):
        policy = queue.server_facts().maxmemory_policy or ""
        if policy.startswith("allkeys"):
            log.warning(
                "the broker drops messages when its memory is full (maxmemory-policy %s); set it to noeviction",
                policy,
            )


def embedded_tickers(settings: Settings, stop: Stop) -> list[Ticker]:
    """For a process on the embedded default: what starts the server again should somebody have killed it."""
    if not settings.embedded_redis:
        return []
    embedded = Embedded(settings.home)

    def keep() -> float:
        embedded.join()
        return KEEP_SECONDS

    return [Ticker("embedded server", keep, stop)]


def run_and_close(run: Callable[[], None], queue: Queue, center: TaskCenter) -> int:
    """Run a process whose doors are open, close them, and return its exit code; an error of a store is 1."""
    try:
        run()
    except StoreError as error:
        log.error("ended by an error: %s", error)  # noqa: TRY400 - one line says it
        return 1
    finally:
        queue.close()
        center.close()
    return 0
