"""Everything that doctor judges, in one frozen object: gathered by looking, made up by tests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from taskkit.center.sql_facts import SqlFacts
from taskkit.queues.server_facts import ClusterFacts, ServerFacts


@dataclass(frozen=True, slots=True)
class BrokerFacts:
    """The broker as we see it: its own facts, commands it refused, messages that no row of ours stands for.

    None: it could not be looked at.
    """

    server: ServerFacts
    embedded: bool = False
    latency_ms: float | None = None
    refused: Mapping[str, str] = field(default_factory=dict)
    rehearsed: bool = True
    prefix: str | None = None
    foreign: int | None = None
    cluster: ClusterFacts | None = None
    dead: int | None = None


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """Rows of ``task_scheduler`` and ``task_worker``, and the queues in which something waits."""

    schedulers: tuple[Mapping[str, Any], ...] = ()
    workers: tuple[Mapping[str, Any], ...] = ()
    waiting: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder of the settings: ``use`` is what it is for; None where it was not to be learnt."""

    use: str
    path: str
    writable: bool = True
    free_bytes: int | None = None
    open_to_others: bool = False


@dataclass(frozen=True, slots=True)
class AlertingFacts:
    """Who is told of alerts, as this node reads ``receivers.toml``; ``problem`` is why it cannot be read."""

    receivers: tuple[str, ...] = ()
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """All facts. A store that did not answer has its sentence in ``…_problem`` instead."""

    sql: SqlFacts | None = None
    sql_problem: str | None = None
    broker: BrokerFacts | None = None
    broker_problem: str | None = None
    nodes: NodeFacts | None = None
    folders: tuple[Folder, ...] = ()
    alerting: AlertingFacts = AlertingFacts()
    tzdata: str = ""
    payload_bytes: int = 262_144
    result_bytes: int = 65_536
