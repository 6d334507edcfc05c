"""``taskkit status``: what runs, what waits, and whether the stores answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

from taskkit.cli.conduct import Failed
from taskkit.cli.front import Front, pass_front
from taskkit.cli.life import START_ALL, is_fresh, queues_of, serve
from taskkit.cli.limits import limits_of
from taskkit.cli.options import json_option
from taskkit.cli.status_alerts import NONE, alerting, lines_of, table_of, watched
from taskkit.clock import monotonic
from taskkit.errors import TaskkitError
from taskkit.names import is_drill_queue

if TYPE_CHECKING:
    from taskkit.center import TaskCenter

NAMED = 5
"""So many queues without a worker are named."""
EMPTY: dict[str, Any] = {"schedulers": [], "workers": [], "queues": [], "limits": [], "tasks": {}, **NONE}


@click.command()
@json_option
@pass_front
def command(front: Front, as_json: bool) -> None:
    """Show the stores, the schedulers, workers and watchdogs, what waits in each queue, how many tasks are in which status,
    and the alerts that are open.

    Exit code 1 when a store does not answer or the schema does not fit.

    \b
      taskkit status
      taskkit status --json
    """
    from taskkit.render import to_json

    front.must_exist()
    found = state_of(front)
    if as_json:
        click.echo(to_json(found))
    else:
        _show(found)
    if not all(store["ok"] for store in found["stores"].values()):
        raise Failed


def state_of(front: Front) -> dict[str, Any]:
    """Everything that ``--json`` prints."""
    database = _asked(front.database_shown(), lambda: _look_at_database(front))
    found: dict[str, Any] = {"stores": {"database": database, "broker": None}, **EMPTY}
    found["alerting"] = alerting(front.settings)
    if database["ok"]:
        found["stores"]["broker"] = _asked(front.broker_shown(), lambda: _look_at_broker(front))
        found |= _figures(front.kit.center)
    else:
        found["stores"]["broker"] = {"at": front.broker_shown(), "ok": False, "problem": "not asked"}
    return found


def _asked(place: str, ask: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """How a store answered: ``ok``, ``latency_ms``, or the ``problem`` in one line."""
    began = monotonic()
    try:
        learnt = ask()
    except TaskkitError as error:
        return {"at": place, "ok": False, "problem": str(error)}
    return {
        "at": place,
        "ok": True,
        "problem": None,
        "latency_ms": round((monotonic() - began) * 1000, 1),
        **learnt,
    }


def _look_at_database(front: Front) -> dict[str, Any]:
    center = front.kit.center
    began = monotonic()
    center.read.ping()
    return {"latency_ms": round((monotonic() - began) * 1000, 1), "schema": center.schema_revision()}


def _look_at_broker(front: Front) -> dict[str, Any]:
    queue = front.kit.queue
    if queue is None:
        return {"running": False, "latency_ms": None}
    began = monotonic()
    queue.ping()
    return {"running": True, "latency_ms": round((monotonic() - began) * 1000, 1)}


def _figures(center: TaskCenter) -> dict[str, Any]:
    return {
        "schedulers": [_node(node) for node in center.nodes.schedulers()],
        "workers": [_node(node) | {"queues": queues_of(node)} for node in center.nodes.workers()],
        "queues": [_backlog(backlog) for _, backlog in sorted(center.read.backlogs().items())],
        "limits": limits_of(center),
        "tasks": {status.label: count for status, count in center.read.counts().items()},
        **watched(center),
    }


def _node(node: dict[str, Any]) -> dict[str, Any]:
    shown = {name: value for name, value in node.items() if name not in {"stopped_at", "stacks"}}
    return shown | {"alive": is_fresh(node)}


def _backlog(backlog: Any) -> dict[str, Any]:
    names = ("queue", "due", "queued", "running", "oldest_age_s", "retrying", "held")
    return {name: getattr(backlog, name) for name in names}


def _show(found: dict[str, Any]) -> None:
    from taskkit.render import show, table

    stores = [(name, store["at"], _verdict(store)) for name, store in found["stores"].items()]
    show(table(("store", "where", "answer"), stores))
    if not found["stores"]["database"]["ok"]:
        return
    watchdogs = [table_of(found["watchdogs"])] if found["watchdogs"] else []
    for part in (
        _schedulers(found["schedulers"]),
        _workers(found["workers"]),
        *watchdogs,
        _queues(found["queues"]),
    ):
        show("", part)
    counts = [f"{count} {name}" for name, count in found["tasks"].items() if count]
    show("", "tasks: " + (", ".join(counts) or "none yet"))
    _advise(found)


def _verdict(store: dict[str, Any]) -> str:
    if not store["ok"]:
        return str(store["problem"])
    if store.get("running") is False:
        return "not running (starts with the first scheduler or worker)"
    schema = f", schema {store['schema']}" if "schema" in store else ""
    return f"ok, {store['latency_ms']} ms{schema}"


def _advise(found: dict[str, Any]) -> None:
    from taskkit.render import show

    for role in ("scheduler", "worker"):
        if not any(node["alive"] for node in found[f"{role}s"]):
            show(f"no {role} is alive: {START_ALL}")
    for line in (*lines_of(found), *_unserved(found), *_of_drills(found), *_limited(found)):
        show(line)
    if found["tasks"].get("given_up"):
        show("some gave up: taskkit tasks list --status given_up")


def _unserved(found: dict[str, Any]) -> Iterator[str]:
    """The queues in which tasks wait while the workers that live serve others."""
    from taskkit.render import counted

    served = {name for node in found["workers"] if node["alive"] for name in node["queues"]}
    waiting = {
        one["queue"]: one["due"] + one["queued"]
        for one in found["queues"]
        if one["queue"] and not is_drill_queue(one["queue"])
    }
    left = [queue for queue, count in waiting.items() if count and served and queue not in served]
    for queue in left[:NAMED]:
        tasks = "1 task waits" if waiting[queue] == 1 else f"{waiting[queue]} tasks wait"
        yield f"no live worker serves the queue {queue}: {tasks} there; start one: {serve(queue)}"
    if left[NAMED:]:
        more = len(left[NAMED:])
        yield f"so it is with {counted(more, 'more queue')}"


def _limited(found: dict[str, Any]) -> Iterator[str]:
    """The limits that tasks wait for."""
    waited = [one for one in found["limits"] if one["waiting"]]
    for one in waited[:NAMED]:
        tasks = "1 task waits" if one["waiting"] == 1 else f"{one['waiting']} tasks wait"
        yield f"{tasks} for the limit of {one['scope']} {one['name']} ({one['terms']}; {one['in_use']} in use)"
    if waited[NAMED:]:
        yield f"and for {len(waited) - NAMED} more: taskkit limits"


def _of_drills(found: dict[str, Any]) -> Iterator[str]:
    for backlog in found["queues"]:
        if is_drill_queue(backlog["queue"]):
            yield f"a drill runs in {backlog['queue']}, or was cut short: `taskkit drill --clean` removes what it left"


def _schedulers(nodes: list[dict[str, Any]]) -> object:
    from taskkit.render import duration, table

    rows = [
        (
            f"{node['host']}:{node['pid']}",
            _pulse(node),
            duration(node["scan_age_s"]),
            node["dispatched"],
            "-" if node["clock_offset_ms"] is None else f"{round(node['clock_offset_ms'])} ms",
        )
        for node in nodes
    ] or [("none", "", "", "", "")]
    return table(("scheduler", "heartbeat", ">last scan", ">dispatched", ">clock off"), rows)


def _workers(nodes: list[dict[str, Any]]) -> object:
    from taskkit.render import table

    rows = [
        (
            f"{node['host']}:{node['pid']}",
            _pulse(node),
            f"{node['busy']} of {node['processes']}{_range(node)}",
            node["processed"],
            node["failed"],
            _size(node["rss_bytes"]),
            ", ".join(node["queues"]),
        )
        for node in nodes
    ] or [("none", "", "", "", "", "", "")]
    return table(("worker", "heartbeat", ">busy", ">done", ">failed", ">memory", "queues"), rows)


def _range(node: dict[str, Any]) -> str:
    """Between which numbers its children are, where that follows the load."""
    return f" ({node['min_processes']} to {node['max_processes']})" if node["max_processes"] else ""


def _queues(queues: list[dict[str, Any]]) -> object:
    from taskkit.render import duration, table

    rows = [
        (
            backlog["queue"] or "(not yet adopted)",
            backlog["due"],
            backlog["queued"],
            backlog["running"],
            backlog["retrying"],
            backlog["held"],
            duration(backlog["oldest_age_s"]),
        )
        for backlog in queues
    ] or [("nothing waits or runs", "", "", "", "", "", "")]
    columns = ("queue", ">due", ">queued", ">running", ">retrying", ">held", ">oldest waits")
    return table(columns, rows)


def _pulse(node: dict[str, Any]) -> str:
    from taskkit.render import duration

    age = node["heartbeat_age_s"]
    if node["alive"]:
        return duration(age)
    return f"{'dead, ' if node.get('lost_at') else ''}silent for {duration(age)}"


def _size(count: int | None) -> str:
    return "-" if count is None else f"{count / 1_048_576:.0f} MiB"
