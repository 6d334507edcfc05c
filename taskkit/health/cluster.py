"""What the facts of a cluster mean: of each finding about a server the one of the master that is worst off."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from taskkit.health.facts import BrokerFacts
from taskkit.health.findings import Finding, Level, error, note, ok
from taskkit.queues.server_facts import ClusterFacts

Judge = Callable[[BrokerFacts], Iterable[Finding]]


def judge_masters(broker: BrokerFacts, judge: Judge) -> Iterator[Finding]:
    """Findings about the server, or about all masters of a cluster, named where they are not fine."""
    if broker.cluster is None:
        yield from judge(broker)
        return
    yield _whole(broker.cluster)
    worst: dict[str, Finding] = {}
    ranks = list(Level)
    for address, server in broker.cluster.masters.items():
        for found in judge(replace(broker, server=server)):
            known = worst.get(found.id)
            if known is None or ranks.index(found.level) < ranks.index(known.level):
                worst[found.id] = _of(address, found)
    yield from worst.values()


def _of(address: str, found: Finding) -> Finding:
    return found if found.level is Level.OK else replace(found, what=f"{address}: {found.what}")


def _whole(cluster: ClusterFacts) -> Finding:
    if cluster.uncovered:
        what = f"{cluster.uncovered} slots of the cluster belong to nobody"
        why = "the queues, locks and keys that fall into them are refused; tasks wait in SQL"
        return error("broker.cluster", what, why, "bring its masters back, or see CLUSTER FIX of redis-cli")
    count = len(cluster.masters)
    if cluster.alone:
        what = f"{', '.join(cluster.alone)} of {count} masters have no replica"
        why = "when one dies its queues stand still until it is back; tasks wait in SQL"
        return note("broker.cluster", what, why, "give each master a replica")
    return ok("broker.cluster", f"{count} masters cover all slots, each with a replica")
