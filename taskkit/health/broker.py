"""What the broker's facts mean: Redis may lose everything and no task is lost, but each such day costs something."""

from __future__ import annotations

from collections.abc import Iterator

from taskkit.health.cluster import judge_masters
from taskkit.health.facts import BrokerFacts
from taskkit.health.findings import Finding, answers, error, note, ok, size, untold, version_of, warning

LEAST = (6, 2)


def judge_broker(broker: BrokerFacts) -> Iterator[Finding]:
    """All findings about the broker."""
    yield _reachable(broker)
    yield _commands(broker)
    yield from _messages(broker)
    yield from judge_masters(broker, _server)


def _server(broker: BrokerFacts) -> Iterator[Finding]:
    if broker.server.version is None:
        yield note(
            "broker.told",
            "the broker tells nothing about itself: INFO is forbidden",
            "persistence, memory and eviction could not be looked at",
            "ACL SETUSER … +info +config|get",
        )
        return
    yield _version(broker)
    yield _role(broker)
    yield _eviction(broker)
    yield _memory(broker)
    yield _clients(broker)
    yield from _persistence(broker)


def _reachable(broker: BrokerFacts) -> Finding:
    who = "the broker" if broker.latency_ms is None else broker.server.product
    why = "every scan and every pull waits for it"
    return answers("broker.reachable", who, broker.latency_ms, why, "put it near, or look at its load")


def _commands(broker: BrokerFacts) -> Finding:
    if not broker.rehearsed:
        what = "which commands it takes could not be tried"
        return note(
            "broker.commands", what, "the prefix of the keys stands in SQL", "look again when SQL answers"
        )
    if not broker.refused:
        return ok("broker.commands", "it takes all commands of a queue")
    first = next(iter(broker.refused.values()))
    what = f"it refuses {', '.join(broker.refused)}: {first}"
    why = "what cannot be pushed or pulled waits in SQL"
    prefix = broker.prefix or "<prefix>"
    advice = "see what it says"
    if "forbids this" in first:
        advice = f"ACL SETUSER <user> ~{prefix}* +@list +@connection +type"
    return error("broker.commands", what, why, advice)


def _messages(broker: BrokerFacts) -> Iterator[Finding]:
    if broker.prefix == "":
        yield note(
            "broker.prefix",
            "key_prefix is empty",
            "two installations on one Redis would take each other's messages",
            "leave key_prefix out (then it is the installation's id), unless this Redis is for one only",
        )
    if broker.foreign:
        yield warning(
            "broker.foreign",
            f"{broker.foreign} of our lists begin with a message whose task is not in this database",
            "another installation uses the same prefix on this Redis, or rows were deleted by hand",
            "give each installation a key_prefix of its own, or leave the setting out",
        )
    elif broker.foreign is None:
        yield untold("broker.foreign", "whether messages of another installation stand under our prefix")
    else:
        yield ok("broker.foreign", "no message of another installation was seen")
    if broker.dead is None:
        yield untold("broker.dead", "whether messages were set aside in task:dead")
    elif broker.dead:
        yield note(
            "broker.dead",
            f"{broker.dead} messages were set aside in task:dead",
            "somebody pushed what could not be read, or a task was deleted before its message was taken",
            "look with LRANGE; DEL it afterwards",
        )


def _version(broker: BrokerFacts) -> Finding:
    what = f"{broker.server.product} {broker.server.version}"
    if broker.server.product == "valkey" or version_of(broker.server.version or "")[:2] >= LEAST:
        return ok("broker.version", what)
    return error(
        "broker.version", what, "it lacks commands that taskkit sends", "upgrade it to Redis 6.2 or later"
    )


def _role(broker: BrokerFacts) -> Finding:
    role = broker.server.role
    if role is None:
        return untold("broker.role", "whether it is a master")
    if role == "master":
        return ok("broker.role", "it is a master")
    advice = "point redis_url at the master, or write redis+sentinel://"
    return error("broker.role", f"it is a {role}", "a replica refuses pushes", advice)


def _eviction(broker: BrokerFacts) -> Finding:
    policy, limited = broker.server.maxmemory_policy, bool(broker.server.maxmemory)
    what = f"maxmemory-policy is {policy}"
    advice = "CONFIG SET maxmemory-policy noeviction, and in its configuration"
    if policy is None:
        return untold("broker.eviction", "its maxmemory-policy")
    if policy == "noeviction":
        return ok("broker.eviction", what)
    if policy.startswith("allkeys"):
        why = "when its memory is full it drops whole lists; recovery rings again for each task in them"
        if not limited:
            return note("broker.eviction", f"{what}, without effect while maxmemory is 0", why, advice)
        return warning("broker.eviction", what, why, advice)
    why = (
        "taskkit's lists stay, but locks and `once` have an expiry and may be dropped when its memory is full"
    )
    return note("broker.eviction", what, why, advice)


def _memory(broker: BrokerFacts) -> Finding:
    used, most = broker.server.used_memory, broker.server.maxmemory
    if used is None or most is None:
        return untold("broker.memory", "how much memory it uses and may use")
    if not most:
        return ok("broker.memory", f"{size(used)} in use, no maxmemory")
    what = f"{size(used)} of {size(most)} in use"
    why = "when it is full pushes are refused; tasks wait in SQL meanwhile"
    advice = "raise maxmemory, or see with --bigkeys who fills it"
    if used >= 0.9 * most:
        return error("broker.memory", what, why, advice)
    return warning("broker.memory", what, why, advice) if used >= 0.75 * most else ok("broker.memory", what)


def _clients(broker: BrokerFacts) -> Finding:
    used, most = broker.server.clients, broker.server.maxclients
    if used is None or not most:
        return untold("broker.clients", "how many clients it has and may have")
    what = f"{used} of {most} clients"
    why = "one that gets no connection cannot start or carry on; each worker and scheduler needs 2"
    advice = f"CONFIG SET maxclients {2 * most}, and in its configuration; see its limit of open files"
    if used >= 0.95 * most:
        return error("broker.clients", what, why, advice)
    return warning("broker.clients", what, why, advice) if used >= 0.8 * most else ok("broker.clients", what)


def _persistence(broker: BrokerFacts) -> Iterator[Finding]:
    kind = broker.server.persistence
    if kind is None:
        yield note(
            "broker.persistence", "it does not tell whether it persists", "", "ACL SETUSER … +config|get"
        )
    elif kind != "none":
        yield ok("broker.persistence", f"it persists ({kind})")
    elif broker.embedded:
        yield ok("broker.persistence", "it keeps nothing on disk, by design: SQL is the truth")
    else:
        yield note(
            "broker.persistence",
            "it keeps nothing on disk, and need not: SQL is the truth",
            "after a restart messages are rung again from SQL within half a minute; only locks and `once` in Redis "
            "are forgotten",
            "nothing; where you use those, CONFIG SET appendonly yes, and in its configuration",
        )
    if broker.server.saving is None:
        yield untold("broker.saving", "whether its last save to disk went well")
    elif not broker.server.saving:
        yield error(
            "broker.saving",
            "its last save to disk failed",
            "it refuses writes (MISCONF), or will after a restart have an old state",
            "free its disk, see its log, then BGSAVE",
        )
    if broker.server.evicted is None:
        yield untold("broker.evicted", "whether it has dropped keys")
    elif broker.server.evicted:
        what = f"it has dropped {broker.server.evicted} keys since its start"
        yield warning(
            "broker.evicted", what, "lists or locks may have been among them", "raise maxmemory; see eviction"
        )
