"""The judgement: facts → findings, the worst first; a pure function."""

from __future__ import annotations

from collections.abc import Iterable

from taskkit.health.broker import judge_broker
from taskkit.health.facts import Facts
from taskkit.health.findings import Finding, Level, error, note
from taskkit.health.nodes import judge_nodes
from taskkit.health.places import judge_places
from taskkit.health.sql import judge_sql


def judge(facts: Facts) -> list[Finding]:
    """One finding for everything that could be looked at, what is fine too; the worst first."""
    found = [*_sql(facts), *_broker(facts), *judge_nodes(facts), *judge_places(facts)]
    ranks = list(Level)
    return sorted(found, key=lambda finding: ranks.index(finding.level))


def _sql(facts: Facts) -> Iterable[Finding]:
    if facts.sql is not None:
        return judge_sql(facts.sql, facts)
    if facts.sql_problem is None:
        return []
    why = "SQL is the truth: nothing is written, dispatched or finished without it"
    return [
        error(
            "sql.reachable",
            facts.sql_problem,
            why,
            "make it answer; nothing else about it could be looked at",
        )
    ]


def _broker(facts: Facts) -> Iterable[Finding]:
    if facts.broker is not None:
        return judge_broker(facts.broker)
    if facts.broker_problem is not None:
        why = "nothing reaches a worker without it; tasks wait in SQL meanwhile and none is lost"
        return [error("broker.reachable", facts.broker_problem, why, "make it answer, then look again")]
    if facts.sql is None:
        return []
    what = "the embedded broker is not running"
    return [note("broker.reachable", what, "tasks wait until it is", "it starts with `taskkit up`")]
