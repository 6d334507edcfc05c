"""What is alive: schedulers and workers by their heartbeats, and which worker serves which queue."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from taskkit.beats import FRESH_S
from taskkit.model import Task

if TYPE_CHECKING:
    from taskkit.center import TaskCenter

START_ALL = "start one with `taskkit up`"


def is_fresh(node: dict[str, Any]) -> bool:
    """Whether a node's heartbeat is young enough to believe that it lives, and nobody has declared it dead since."""
    return node.get("lost_at") is None and (node["heartbeat_age_s"] or 0.0) <= FRESH_S


def live_schedulers(center: TaskCenter) -> list[dict[str, Any]]:
    """The schedulers whose heartbeat is fresh."""
    return [node for node in center.nodes.schedulers() if is_fresh(node)]


def live_workers(center: TaskCenter, queue: str | None = None) -> list[dict[str, Any]]:
    """The workers whose heartbeat is fresh; with ``queue`` only those that serve it."""
    alive = [node for node in center.nodes.workers() if is_fresh(node)]
    return alive if queue is None else [node for node in alive if queue in queues_of(node)]


def queues_of(worker: dict[str, Any]) -> list[str]:
    """The queues that a worker serves."""
    return [name for name in str(worker["queues"]).split(",") if name]


def serve(queue: str) -> str:
    """The command that starts a worker of this queue."""
    return f"python -m taskkit.worker --app … --queue {shlex.quote(queue)}"


def nobody_runs(center: TaskCenter, queue: str) -> str:
    """Why a task of this queue will not start now, and what to do; empty when a scheduler and a worker are there."""
    if not live_schedulers(center):
        return f"no scheduler is alive, so nothing will start it: {START_ALL}"
    if live_workers(center, queue):
        return ""
    if others := live_workers(center):
        served = ", ".join(sorted({name for worker in others for name in queues_of(worker)}))
        return (
            f"no live worker serves the queue {queue} (served are: {served}), so nothing will run it: "
            f"start one with `{serve(queue)}`"
        )
    return f"no worker is alive, so nothing will run it: {START_ALL}"


def pulse(center: TaskCenter, task: Task) -> tuple[str, bool]:
    """How the worker of a running task is, and whether it looks alive: ``last heard of 2.0 s ago``."""
    from taskkit.render import duration

    node = next((node for node in center.nodes.workers() if node["worker_id"] == task.worker_id), None)
    if node is None:
        return "gone: it has stopped", False
    age = duration(node["heartbeat_age_s"] or 0.0)
    if is_fresh(node):
        return f"last heard of {age} ago", True
    dead = "it is declared dead" if node["lost_at"] else "it looks dead"
    return f"last heard of {age} ago: {dead}", False
