"""What the rows of schedulers and workers mean: who is missing, whose clock is off, who lives in other time zones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from taskkit.beats import FRESH_S
from taskkit.health.facts import Facts, NodeFacts
from taskkit.health.findings import Finding, error, note, ok, untold, warning
from taskkit.names import is_drill_queue

OFF_MS, FAR_OFF_MS = 250.0, 1000.0
STILL_S = 30.0
Row = Mapping[str, Any]


def judge_nodes(facts: Facts) -> Iterator[Finding]:
    """All findings about schedulers and workers."""
    if facts.nodes is None:
        return
    schedulers, workers = _alive(facts.nodes.schedulers), _alive(facts.nodes.workers)
    yield _there("scheduler", schedulers, facts.nodes)
    yield _there("worker", workers, facts.nodes)
    yield from _silent(facts.nodes)
    if schedulers:
        yield _clocks(schedulers)
        yield _scans(schedulers)
    yield _zones(schedulers, facts.tzdata)
    drills = [queue for queue in facts.nodes.waiting if is_drill_queue(queue)]
    if drills:
        yield _drills(drills)
    if workers:
        yield _served(workers, [queue for queue in facts.nodes.waiting if queue not in drills])


def _alive(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if _lives(row)]


def _lives(row: Row) -> bool:
    """Whether its heartbeat is fresh, and nobody has declared it dead since."""
    age = row["heartbeat_age_s"]
    return age is not None and age <= FRESH_S and row.get("lost_at") is None


def _name(row: Row) -> str:
    return f"{row['host']}:{row['pid']}"


def _names(rows: Sequence[Row]) -> str:
    return ", ".join(map(_name, rows[:5])) + (", …" if rows[5:] else "")


def _there(role: str, alive: Sequence[Row], nodes: NodeFacts) -> Finding:
    if alive:
        return ok(f"node.{role}s", f"{len(alive)} {role}{'s are' if len(alive) > 1 else ' is'} alive")
    what = f"no {role} is alive"
    advice = f"start one with `taskkit up` or `python -m taskkit.{role}`"
    if nodes.waiting:
        why = f"tasks wait in {', '.join(nodes.waiting[:5])}"
        return error(f"node.{role}s", what, why, advice)
    return note(f"node.{role}s", what, "nothing waits now, and nothing would start", advice)


def _silent(nodes: NodeFacts) -> Iterator[Finding]:
    for role, rows in (("scheduler", nodes.schedulers), ("worker", nodes.workers)):
        alive = _alive(rows)
        silent = [row for row in rows if row not in alive]
        if silent:
            yield note(
                f"node.silent_{role}s",
                f"silent {role}s: {', '.join(map(_silence, silent[:5]))}",
                "killed, or cut off; what they held is recovered by a living scheduler",
                "nothing, if you know why; their rows go a week after the last heartbeat",
            )


def _silence(row: Row) -> str:
    return _name(row) + (" (declared dead)" if row.get("lost_at") else "")


def _clocks(schedulers: Sequence[Row]) -> Finding:
    silent = [row for row in schedulers if row["clock_offset_ms"] is None]
    offsets = {_name(row): float(row["clock_offset_ms"]) for row in schedulers if row not in silent}
    if not offsets:
        return untold("node.clocks", f"how far the clock of {_names(silent)} is from the database's")
    most = max(offsets, key=lambda name: abs(offsets[name]))
    what = f"the clock of {most} is {offsets[most]:+.0f} ms from the database's"
    if abs(offsets[most]) < OFF_MS:
        if silent:
            return untold("node.clocks", f"the others agree; how far the clock of {_names(silent)} is off")
        return ok("node.clocks", "the clocks of all schedulers agree with the database's")
    level = error if abs(offsets[most]) >= FAR_OFF_MS else warning
    why = "the database decides what is due; but a clock that runs off hides what happened when"
    return level("node.clocks", what, why, "let NTP (chrony, systemd-timesyncd) set it there")


def _scans(schedulers: Sequence[Row]) -> Finding:
    silent = [row for row in schedulers if row["scan_age_s"] is None]
    still = [row for row in schedulers if row not in silent and row["scan_age_s"] > STILL_S]
    if not still and silent:
        return untold("node.scans", f"no scan of {_names(silent)} was told of yet; whether it scans")
    if not still:
        return ok("node.scans", "all schedulers scan")
    what = f"{_name(still[0])} has a fresh heartbeat and has not scanned for {still[0]['scan_age_s']:.0f} s"
    return error("node.scans", what, "due tasks wait", "see its log: the broker or the database keeps it")


def _zones(schedulers: Sequence[Row], own: str) -> Finding:
    versions = {str(row["tzdata_version"]): _name(row) for row in schedulers if row["tzdata_version"]}
    if own:
        versions.setdefault(own, "this node")
    silent = [row for row in schedulers if not row["tzdata_version"]]
    if len(versions) < 2 and (silent or not own):
        return untold("node.tzdata", f"which time zone data {_names(silent) or 'this node'} has")
    if len(versions) < 2:
        return ok("node.tzdata", f"time zone data {own} everywhere")
    what = "time zone data differ: " + ", ".join(f"{version} on {name}" for version, name in versions.items())
    why = "where the rules of a zone have changed, two schedulers plan different fire times"
    return warning("node.tzdata", what, why, "pip install --upgrade tzdata on all nodes, and restart")


def _drills(queues: Sequence[str]) -> Finding:
    what = f"tasks of drills wait in {', '.join(queues[:5])}"
    why = "a drill runs just now, or was cut short and left them behind"
    return note("node.drills", what, why, "taskkit drill --clean")


def _served(workers: Sequence[Row], waiting: Sequence[str]) -> Finding:
    served = {name for row in workers for name in str(row["queues"]).split(",")}
    left = [queue for queue in waiting if queue not in served]
    if not left:
        return ok("node.queues", "every queue in which tasks wait has a worker")
    what = f"no worker serves {', '.join(left[:5])}"
    advice = f"python -m taskkit.worker --app … --queue {left[0]}"
    return warning("node.queues", what, "what waits there never starts", advice)
