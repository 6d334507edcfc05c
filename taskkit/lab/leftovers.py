"""What drills that were cut short have left behind: known by the name of their queue, and removed by the next one."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from taskkit.beats import FRESH_S
from taskkit.clock import monotonic
from taskkit.errors import IllegalMove, NotFound, TaskkitError
from taskkit.kit import Taskkit
from taskkit.names import is_drill_queue
from taskkit.render import counted
from taskkit.states import ENDED, Status
from taskkit.supervising import is_here

LOCK = "taskkit.drill"
LIFE_S = 10.0
"""A drill that was killed keeps the next one waiting for so long at most."""
PATIENCE_S = 20.0
LOOK_S = 0.1


@dataclass(frozen=True, slots=True)
class Removed:
    """The queue of an earlier drill, how many of its tasks were removed, and how many still run."""

    queue: str
    tasks: int
    running: int = 0

    def __str__(self) -> str:
        gone = f"removed {counted(self.tasks, 'task')} that an earlier drill left in {self.queue}"
        return f"{gone}, but {counted(self.running, 'task')} still running" if self.running else gone


@contextlib.contextmanager
def alone(kit: Taskkit, tell: Callable[[str], None]) -> Iterator[None]:
    """One drill at a time, since two would measure each other; whatever else is in a drill's queue is left over then."""
    lock = kit.lock(LOCK, ttl=LIFE_S)
    if not lock.acquire(blocking=False):
        tell(f"another drill is under way, or was killed just now; waiting up to {LIFE_S:.0f} s for it")
        if not lock.acquire(timeout=LIFE_S + 1):
            raise TaskkitError(
                "another drill is under way on this installation; start yours when it has ended"
            )
    try:
        yield
    finally:
        with contextlib.suppress(TaskkitError):  # it ends by itself
            lock.release()


def remove(kit: Taskkit) -> list[Removed]:
    """Cancel and delete what is left of earlier drills: tasks, runs, messages, rows of dead workers, folders."""
    left = kit.center.drills.left_behind()
    names = {*left, *(str(node["queues"]) for node in kit.center.nodes.workers())}
    removed = [_removed(kit, name, left.get(name, [])) for name in sorted(filter(is_drill_queue, names))]
    return [one for one in removed if one.tasks or one.running]


def _removed(kit: Taskkit, name: str, ids: list[int]) -> Removed:
    deadline = monotonic() + PATIENCE_S
    asked: set[int] = set()
    while True:
        _sign_off(kit, name)
        running = _end(kit, ids, asked)
        if not running or monotonic() > deadline:
            break
        time.sleep(LOOK_S)
    if kit.queue is not None:
        while kit.queue.pull([name], 1000, 0).messages:
            continue
    kit.center.drills.forget(ids)
    for folder in Path(tempfile.gettempdir()).glob(f"{name}-*"):
        shutil.rmtree(folder, ignore_errors=True)
    return Removed(name, len(ids) - running, running)


def _end(kit: Taskkit, ids: list[int], asked: set[int]) -> int:
    """Cancel what has not ended, a running task once; how many still run."""
    found = {task_id: row[0] for task_id, row in kit.center.read.statuses(ids).items()}
    for task_id, status in sorted(found.items()):
        if status in ENDED or (status is Status.RUNNING and task_id in asked):
            continue
        with contextlib.suppress(NotFound, IllegalMove):  # it has ended meanwhile
            found[task_id] = kit.operations.cancel(task_id)
            asked.add(task_id)
    return sum(status not in ENDED for status in found.values())


def _sign_off(kit: Taskkit, name: str) -> None:
    """Workers of the drill that are dead cannot do it themselves; a scheduler takes what they held then."""
    for node in kit.center.nodes.workers():
        if node["queues"] == name and _is_dead(node):
            kit.center.nodes.leave_worker(node["worker_id"])


def _is_dead(node: Mapping[str, Any]) -> bool:
    silent: bool = node["heartbeat_age_s"] > FRESH_S
    return silent or (is_here(node) and not psutil.pid_exists(int(node["pid"])))
