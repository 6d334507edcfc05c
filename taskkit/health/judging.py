"""The judgement: facts → findings, the worst first; a pure function."""

from __future__ import annotations

from collections.abc import Iterable

from taskkit.health.broker import judge_broker
from taskkit.health.facts import Facts
from taskkit.health.findings import Finding, Level, error, note, ok, warning
from taskkit.health.nodes import judge_nodes
from taskkit.health.places import judge_places
from taskkit.health.sql import judge_sql


def judge(facts: Facts) -> list[Finding]:
    """One finding for everything that could be looked at, what is fine too; the worst first."""
    found = [*_sql(facts), *_broker(facts), *judge_nodes(facts), *judge_places(facts), *_alerting(facts)]
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


def _alerting(facts: Facts) -> Iterable[Finding]:
    """Nothing where nobody is to be told: an installation need not be watched."""
    names, problem = facts.alerting.receivers, facts.alerting.problem
    if problem is not None:
        why = "alerts reach nobody: no watchdog starts with it, and no scheduler can tell that the watchdogs are dead"
        advice = (
            "correct it until `taskkit watchdog check` is content; its variables must be set where schedulers "
            "and watchdogs run, and here for this look"
        )
        return [warning("alerting.receivers", f"the receivers cannot be read here: {problem}", why, advice)]
    return [ok("alerting.receivers", f"alerts go to {', '.join(names)}")] if names else []
