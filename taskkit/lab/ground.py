"""Where a drill takes place: an installation, a queue that only the drill serves, and processes that only it breaks."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil

from taskkit.beats import FRESH_S
from taskkit.center import TaskCenter
from taskkit.clock import monotonic
from taskkit.errors import NotFound, TaskkitError
from taskkit.kit import Taskkit
from taskkit.model import NewTask, Run
from taskkit.names import DRILL_QUEUES
from taskkit.queues import Queue
from taskkit.settings import Retention
from taskkit.states import ENDED, Outcome, Status
from taskkit.supervising import Role

NAP, NOOP = "taskkit.nap", "taskkit.noop"
START_S = 60.0
LOOK_S = 0.05
TRIES = 5
KEEPING = {
    f"TASKKIT_RETENTION_{name.upper()}": "0" for name in Retention.__struct_fields__ if name.endswith("_days")
}
"""A scheduler of the drill's prunes nothing of the user's, whatever the settings are on this node."""


class Ground:
    """An installation under a drill. Nothing of the user's is touched: the drill breaks only what it started itself."""

    def __init__(self, kit: Taskkit, options: Sequence[str] = ()) -> None:
        self.kit, self.options = kit, list(options)
        self.queue_name = f"{DRILL_QUEUES}{secrets.token_hex(3)}"
        self.ids: list[int] = []
        self._roles: list[Role] = []
        self._scheduler_ids: set[str] = set()
        self._folder = tempfile.TemporaryDirectory(prefix=f"{self.queue_name}-")

    @property
    def center(self) -> TaskCenter:
        """The task center."""
        return self.kit.center

    @property
    def queue(self) -> Queue:
        """The broker, which must be there."""
        if self.kit.queue is None:
            raise NotFound("the broker is not running: start the installation first, with `taskkit up`")
        return self.kit.queue

    def enqueue(self, count: int, seconds: float | None = None) -> list[int]:
        """Write tasks into the drill's queue: naps of so many seconds, or no-ops."""
        code, payload = (NOOP, {}) if seconds is None else (NAP, {"seconds": seconds})
        task = {"code": code, "payload": payload, "queue": self.queue_name, "timeout": 60, "max_retry": 3}
        ids = self.kit.producer.enqueue_many([task] * count)
        self.ids += ids
        return ids

    def claim_and_leave(self, count: int) -> int:
        """Write tasks without ringing, claim them for dispatch and never push them; returns how many we won.

        The installation's schedulers may be faster, so it is tried a few times.
        """
        won = 0
        for _ in range(TRIES):
            new = [NewTask(NOOP, "{}", queue=self.queue_name) for _ in range(count - won)]
            ids = self.center.intake.insert(new)
            self.ids += ids
            won += len(self.center.dispatch.claim(ids).won)
            if won >= count:
                break
        return won

    def scheduler(self) -> Role:
        """Start a scheduler of the drill's own, and wait until it works: for all tasks, as any; but it prunes nothing."""
        return self._start("scheduler", [])

    def worker(self, processes: int) -> Role:
        """Start a worker for the drill's queue, and wait until its children are there."""
        return self._start("worker", ["--queue", self.queue_name, "--processes", str(processes)])

    def live_schedulers(self) -> int:
        """How many schedulers of the installation live; those of the drill do not count."""
        own = [role for role in self._roles if role.name == "scheduler"]
        nodes = [node for node in self.center.nodes.schedulers() if node["heartbeat_age_s"] <= FRESH_S]
        return sum(not any(role.is_of(node) for role in own) for node in nodes)

    def kill(self, role: Role) -> None:
        """SIGKILL, to the process alone: what hangs on it has to end by itself."""
        assert role.process is not None  # noqa: S101 - the drill has started it
        role.process.kill()
        role.process.wait()
        role.died()

    def ports(self, role: Role) -> set[int]:
        """The local ports of a process's connections."""
        assert role.pid is not None  # noqa: S101 - the drill has started it
        return {link.laddr.port for link in psutil.Process(role.pid).net_connections("tcp") if link.raddr}

    def retries(self, role: Role) -> int:
        """How often a worker of the drill has repeated a transaction, by its last heartbeat."""
        node = _newest(self.center.nodes.workers(), role)
        return 0 if node is None else int(node["retries"])

    def in_status(self, *wanted: Status) -> int:
        """How many of the drill's tasks have one of these statuses."""
        return sum(found[0] in wanted for found in self.center.read.statuses(self.ids).values())

    def runs(self) -> list[Run]:
        """All ended attempts of the drill's tasks."""
        return self.center.read.runs(self.ids)

    def count(self, outcome: Outcome) -> int:
        """How many attempts ended so."""
        return sum(run.outcome is outcome for run in self.runs())

    def within(self, seconds: float, condition: Callable[[], bool]) -> float | None:
        """Wait for a condition; the seconds it took, or None when the time was over. Trouble with a store is waited out."""
        begun = monotonic()
        while monotonic() - begun < seconds:
            with contextlib.suppress(TaskkitError):
                if condition():
                    return monotonic() - begun
            time.sleep(LOOK_S)
        return None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the drill's processes, cancel what it left behind, and let its rows and messages go."""
        for role in self._roles:
            role.signal(signal.SIGTERM)
        for role in self._roles:
            with contextlib.suppress(subprocess.TimeoutExpired):
                if role.process is not None:
                    role.process.wait(10)
            role.kill()
        for task_id in self.ids:
            with contextlib.suppress(TaskkitError):
                if self.center.read.task(task_id).status not in ENDED:
                    self.kit.operations.cancel(task_id)
        with contextlib.suppress(TaskkitError):
            self._sign_off()
        with contextlib.suppress(TaskkitError):
            while self.queue.pull([self.queue_name], 1000, 0).messages:
                continue
        self._folder.cleanup()

    def forget(self) -> None:
        """Delete the drill's tasks and their runs, so that the user's own are not buried under them."""
        self.center.drills.forget(self.ids)

    def _sign_off(self) -> None:
        """For those that were killed, and cannot do it themselves any more."""
        nodes = self.center.nodes
        for worker in nodes.workers():
            if worker["queues"] == self.queue_name:
                nodes.leave_worker(worker["worker_id"])
        for scheduler in nodes.schedulers():
            if scheduler["scheduler_id"] in self._scheduler_ids:
                nodes.leave_scheduler(scheduler["scheduler_id"])

    def _start(self, kind: str, options: list[str]) -> Role:
        log = Path(self._folder.name) / f"{kind}-{len(self._roles)}.log"
        command = [sys.executable, "-m", f"taskkit.{kind}", *self.options, *options]
        with log.open("wb") as out:
            role = Role(kind, command, {"stdout": out, "stderr": out, "env": os.environ | KEEPING})
            role.start()
        self._roles.append(role)
        ready = self.within(START_S, lambda: role.died() is not None or self._at_work(role, kind))
        if ready is None or role.process is None:
            words = " · ".join(log.read_text(errors="replace").splitlines()[-2:])
            raise TaskkitError(f"the drill's own {kind} did not come to work in {START_S:.0f} s: {words}")
        if kind == "scheduler" and (row := _newest(self.center.nodes.schedulers(), role)):
            self._scheduler_ids.add(str(row["scheduler_id"]))
        return role

    def _at_work(self, role: Role, kind: str) -> bool:
        nodes = self.center.nodes.workers() if kind == "worker" else self.center.nodes.schedulers()
        row = _newest(nodes, role)
        return row is not None and (kind == "scheduler" or len(row["children"]) >= row["processes"])


def _newest(nodes: Sequence[Mapping[str, Any]], role: Role) -> Mapping[str, Any] | None:
    """Its row; one that was killed before and had the same pid is older."""
    return max((n for n in nodes if role.is_of(n)), key=lambda n: str(n["started_at"]), default=None)
