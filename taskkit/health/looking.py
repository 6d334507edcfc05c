"""Looking: what can be learnt of an installation, gathered without changing a row; a store that is away is a fact."""

from __future__ import annotations

import os
import shutil
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from taskkit.center import TaskCenter
from taskkit.center.sql_facts import LOOKS, SqlFacts, read_facts
from taskkit.clock import monotonic, parse_instant
from taskkit.cron import tzdata_version
from taskkit.doors import key_prefix
from taskkit.embedded import Embedded
from taskkit.errors import BrokerUnavailable, SettingsError, StoreError
from taskkit.health.facts import AlertingFacts, BrokerFacts, Facts, Folder, NodeFacts
from taskkit.model import Message
from taskkit.queues import connect
from taskkit.queues.redis import RedisQueue
from taskkit.settings import Settings

BURIED = 1000
SETTLED_S = 60.0
"""A message so old stands for a row that is committed, if it stands for one of ours."""


def look(settings: Settings) -> Facts:
    """The facts of the installation that the settings mean."""
    with closing(TaskCenter(settings.sqlalchemy_url(), pool_size=2)) as center:
        facts = Facts(
            folders=tuple(folders(settings)),
            alerting=alerting(settings),
            tzdata=tzdata_version(),
            payload_bytes=settings.max_payload_bytes,
            result_bytes=settings.max_result_bytes,
        )
        facts = _with_sql(facts, center)
        return _with_broker(facts, settings, center)


def _with_sql(facts: Facts, center: TaskCenter) -> Facts:
    if center.database.absent:  # connecting would make it
        problem = f"there is no database {center.database.url.database} yet; `taskkit db upgrade` makes it"
        return replace(facts, sql_problem=problem)
    try:
        sql = read_facts(center.database)
        return replace(facts, sql=sql, nodes=_nodes(center) if _works(sql) else None)
    except StoreError as error:
        return replace(facts, sql_problem=str(error))


def _works(sql: SqlFacts | None) -> bool:
    return sql is not None and sql.schema is not None and sql.schema_problem is None


def _nodes(center: TaskCenter) -> NodeFacts | None:
    try:
        waiting = [name for name, one in center.read.backlogs().items() if name and one.due + one.queued]
        return NodeFacts(
            tuple(center.nodes.schedulers()), tuple(center.nodes.workers()), tuple(sorted(waiting))
        )
    except StoreError:  # an account that may not read them has lacking grants among its findings
        return None


def _with_broker(facts: Facts, settings: Settings, center: TaskCenter) -> Facts:
    url = settings.redis_url or Embedded(settings.home).peek()
    if url is None:
        return facts
    prefix = _prefix(facts, settings, center)
    with closing(connect(url, prefix or "")) as queue:
        if not isinstance(queue, RedisQueue):
            return facts
        try:
            return replace(facts, broker=_broker(facts, queue, prefix, settings, center))
        except BrokerUnavailable as error:
            return replace(facts, broker_problem=str(error))


def _prefix(facts: Facts, settings: Settings, center: TaskCenter) -> str | None:
    """None where only SQL knows it and does not answer."""
    if settings.key_prefix is None and not _works(facts.sql):
        return None
    try:
        return key_prefix(settings, center)
    except StoreError:
        return None


def _broker(
    facts: Facts, queue: RedisQueue, prefix: str | None, settings: Settings, center: TaskCenter
) -> BrokerFacts:
    server = queue.server_facts()
    found = BrokerFacts(
        server,
        cluster=queue.cluster_facts(),
        embedded=settings.embedded_redis,
        latency_ms=round(min(trip(queue) for _ in range(LOOKS)) * 1000, 3),
        rehearsed=prefix is not None,
        prefix=prefix,
    )
    if prefix is None:
        return found
    found = replace(found, refused=queue.refusals())
    if found.refused or not _works(facts.sql):
        return found
    return replace(found, foreign=_foreign(queue, center), dead=len(queue.buried(BURIED)))


def trip(queue: RedisQueue) -> float:
    """Seconds for a PING and its answer."""
    began = monotonic()
    queue.ping()
    return monotonic() - began


def _foreign(queue: RedisQueue, center: TaskCenter) -> int | None:
    """How many of our lists begin with a settled message for which there is no row; None where SQL does not tell."""
    try:
        return _unknown_heads(queue, center)
    except BrokerUnavailable:
        raise
    except StoreError:
        return None


def _unknown_heads(queue: RedisQueue, center: TaskCenter) -> int:
    queues = [name for name in center.read.backlogs() if name]
    names = queues + [
        str(name) for row in center.nodes.workers() for name in str(row["queues"]).split(",") if name
    ]
    lists = center.shards.refresh().all_lists(dict.fromkeys(names))
    oldest = [message for message in queue.oldest(lists).values() if message and _settled(message, center)]
    known = center.read.statuses([message.task_id for message in oldest]) if oldest else {}
    return sum(message.task_id not in known for message in oldest)


def _settled(message: Message, center: TaskCenter) -> bool:
    try:
        return (center.now() - parse_instant(message.dispatched_at)).total_seconds() > SETTLED_S
    except (ValueError, TypeError):
        return False


def alerting(settings: Settings) -> AlertingFacts:
    """The receivers of alerts, or what is wrong with them."""
    from taskkit.receivers.loading import load_receivers

    try:
        return AlertingFacts(tuple(one.name for one in load_receivers(settings)))
    except SettingsError as error:
        return AlertingFacts(problem=str(error))


def folders(settings: Settings) -> list[Folder]:
    """The folders that the settings name and that something is written to."""
    found = []
    if settings.embedded_database or settings.embedded_redis:
        found.append(_folder("home", settings.home))
    if settings.log_dir is not None:
        found.append(_folder("log_dir", settings.log_dir))
    return found


def _folder(use: str, path: Path) -> Folder:
    """The folder, or what it would be made in."""
    there = next((place for place in (path, *path.parents) if place.exists()), path)
    usable = there.is_dir() and os.access(there, os.W_OK | os.X_OK)
    private = use != "home" or there != path or not path.stat().st_mode & 0o077
    return Folder(use, str(path), usable, _free(there), open_to_others=not private)


def _free(path: Path) -> int | None:
    try:
        return shutil.disk_usage(path).free
    except OSError:
        return None
