"""The tables of a run, as Markdown, from its results alone."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from typing import Any

QUANTILES = (0.5, 0.95, 0.99)


def quantile(values: Sequence[float], q: float) -> float:
    """The q-quantile of the values, nearest rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))]


def spread(values: Sequence[float], digits: int = 0) -> str:
    """``median (min..max)``."""
    if not values:
        return "-"
    middle, least, most = statistics.median(values), min(values), max(values)
    return f"{middle:,.{digits}f} ({least:,.{digits}f}..{most:,.{digits}f})"


def column(rounds: Sequence[dict[str, Any]], name: str) -> list[float]:
    """One figure of all rounds that have it."""
    return [one[name] for one in rounds if name in one]


def table(title: str, head: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """A titled table; nothing where there are no rows."""
    if not rows:
        return []
    lines = [f"### {title}", "", "| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return [*lines, *("| " + " | ".join(map(str, row)) + " |" for row in rows), ""]


def markdown(results: dict[str, Any]) -> str:
    """All tables."""
    measured = {key: one for key, one in results["systems"].items() if one["rounds"]}
    lines = [heading(results), ""]
    lines += systems(results)
    lines += throughput(measured)
    lines += cost(measured)
    lines += latency(measured)
    lines += memory(measured)
    lines += crash(results)
    lines += flush(results)
    lines += aof(results)
    if results.get("errors"):
        lines += ["### Errors", "", *(f"* {error}" for error in results["errors"]), ""]
    return "\n".join(lines)


def heading(results: dict[str, Any]) -> str:
    """Where, when and how calm it was."""
    servers = ", ".join(results.get("servers", {}).values())
    return (
        f"Date {results['date']}; {results['machine']}; servers: {servers or 'none'}; "
        f"rounds {results['rounds']}; wall time {results.get('wall', 0) / 60:.1f} min; "
        f"background CPU before a round: {spread(results['background'], 1)} %"
    )


def systems(results: dict[str, Any]) -> list[str]:
    """What was measured, in which versions."""
    rows = [
        [key, one["title"], ", ".join(f"{name} {version}" for name, version in one["versions"].items())]
        for key, one in results["systems"].items()
    ]
    return table("Systems", ["system", "set-up", "versions"], rows)


def throughput(measured: dict[str, Any]) -> list[str]:
    """Executed and enqueued tasks a second."""
    rows = []
    for key, one in measured.items():
        rounds = one["rounds"]
        rows.append(
            [
                key + (" (durable)" if one.get("durable") else ""),
                spread(column(rounds, "throughput")),
                f"{statistics.median(column(rounds, 'seconds') or [0]):.1f}",
                spread(column(rounds, "enqueue")),
                spread(column(rounds, "enqueue_bulk")),
                "; ".join(incomplete(rounds)) or "each task once",
            ]
        )
    head = ["system", "executed/s", "run s", "enqueue/s, single calls", "enqueue/s, bulk", "completeness"]
    return table("a, b, d. No-op throughput and enqueue rate, tasks/s: median (min..max)", head, rows)


def incomplete(rounds: Sequence[dict[str, Any]]) -> Iterator[str]:
    """The rounds in which a task did not run, or ran twice."""
    for one in rounds:
        if one["ran"] != one["total"] or one["repeated"]:
            yield f"{one['ran']} of {one['total']} ran, {one['repeated']} repeated"


def cost(measured: dict[str, Any]) -> list[str]:
    """What one task takes."""
    rows = [
        [
            key,
            spread(column(one["rounds"], "worker_cpu_ms"), 3),
            spread(column(one["rounds"], "server_cpu_ms"), 3),
            f"{statistics.median(column(one['rounds'], 'redis_commands') or [0]):.1f}",
        ]
        for key, one in measured.items()
    ]
    title = "Cost of one executed task (worker start-up taken off; Redis commands include those inside scripts and MULTI)"
    return table(title, ["system", "worker CPU ms", "server CPU ms", "Redis commands"], rows)


def latency(measured: dict[str, Any]) -> list[str]:
    """From enqueue to start on idle workers."""
    rows = []
    for key, one in measured.items():
        found = column(one["rounds"], "latency")
        found = [values for values in found if values]
        if found:
            pooled = [value for values in found for value in values]
            per = [[quantile(values, q) for values in found] for q in QUANTILES]
            lost = sum(r.get("latency_lost", 0) for r in one["rounds"])
            rows.append([key, *(spread(p, 2) for p in per), f"{max(pooled):.1f}", len(pooled), lost])
    title = (
        "c. Latency when idle, ms from enqueue to start, one task each 20 ms: median of the rounds (min..max)"
    )
    return table(title, ["system", "p50", "p95", "p99", "max", "samples", "lost"], rows)


def memory(measured: dict[str, Any]) -> list[str]:
    """The worker tree, idle and after the run."""
    rows = []
    for key, one in measured.items():
        idle, slots = one["idle_pss"], one["slots"]
        after = statistics.median(column(one["rounds"], "pss"))
        rows.append(
            [key, slots, f"{idle:.0f}", f"{after:.0f}", f"{idle / slots:.1f}", f"{after / slots:.1f}"]
        )
    head = ["system", "slots", "idle", "after the run", "idle per slot", "after per slot"]
    return table("e. Memory of the worker tree, PSS in MiB", head, rows)


def crash(results: dict[str, Any]) -> list[str]:
    """kill -9."""
    rows: list[list[object]] = []
    for key, one in results.get("crash", {}).items():
        if "error" in one:
            rows.append([key, one["error"], *[""] * 5])
            continue
        times = f"{one['again_first']:.1f}..{one['again_last']:.1f} s" if one["in_flight_again"] else "none"
        counts = [one[name] for name in ("missing", "missing_not_started", "twice", "completed_twice")]
        rows.append([key, one["in_flight"], f"{one['in_flight_again']} ({times})", *counts])
    head = [
        "system",
        "in flight at kill",
        "of these started again",
        "tasks never finished",
        "of these never started",
        "started twice",
        "finished twice",
    ]
    title = (
        f"f. kill -9 of all workers during {results.get('naps')} tasks of 2 s, default settings, "
        f"{results.get('crash_wait')} s allowed"
    )
    return table(title, head, rows)


def flush(results: dict[str, Any]) -> list[str]:
    """FLUSHALL."""
    rows = [[key, one["ran"], one["queued"] - one["ran"]] for key, one in results.get("flush", {}).items()]
    title = f"f. FLUSHALL with 1000 tasks queued, then {results.get('flush_wait')} s with workers"
    return table(title, ["system", "ran afterwards", "did not"], rows)


def aof(results: dict[str, Any]) -> list[str]:
    """Persistence of Redis off and on."""
    rows = [
        [
            key,
            *(
                spread(column(one[mode], figure))
                for figure in ("throughput", "enqueue")
                for mode in ("off", "aof")
            ),
        ]
        for key, one in results.get("aof", {}).items()
    ]
    head = ["system", "executed/s, off", "executed/s, AOF", "enqueue/s, off", "enqueue/s, AOF"]
    return table("Redis persistence off against AOF everysec, alternating in this part", head, rows)
