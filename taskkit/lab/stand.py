"""The lab's own installation: a temporary folder, stores of its own, and processes that only the lab breaks."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from taskkit.center import TaskCenter
from taskkit.center.lab import fresh_schema, is_writable
from taskkit.clock import monotonic
from taskkit.errors import TaskkitError
from taskkit.kit import Taskkit
from taskkit.lab import handlers
from taskkit.model import ListName
from taskkit.queues.redis import RedisQueue
from taskkit.settings import Settings
from taskkit.states import Status
from taskkit.supervising import Role

APP = "taskkit.lab.handlers:kit"
START_S = 90.0
STOP_S = 15.0
LOOK_S = 0.1
FREEZES = 20
LOGS = "logs"

SCALED: Mapping[str, float] = {
    "worker_heartbeat_s": 1.0,
    "worker_kill_grace_s": 0.5,
    "worker_grace_s": 1.0,
    "scheduler_heartbeat_s": 1.0,
    "scheduler_poll_s": 0.2,
    "scheduler_recover_every_s": 0.25,
    "scheduler_lost_after_s": 1.0,
}
"""Time runs five times as fast as by default: the heartbeat, by which diagnoses measure their patience, and recovery."""


class Stand:
    """One private installation; ``with`` starts its stores and ends whatever it started."""

    def __init__(
        self,
        *,
        database_url: str | None = None,
        redis_url: str | None = None,
        out: Path | None = None,
        tell: Callable[[str], None] = lambda _: None,
        **settings: float | bool,
    ) -> None:
        self.tell = tell
        self._temporary = tempfile.TemporaryDirectory(prefix="taskkit-lab-")
        self.folder = Path(self._temporary.name)
        self.logs = (out or self.folder) / LOGS
        self.logs.mkdir(parents=True, exist_ok=True)
        self._given_url = database_url
        self._stores = {"TASKKIT_REDIS_URL": redis_url} if redis_url else {}
        self.scaled = {**SCALED, **settings}
        self._schema = contextlib.ExitStack()
        self.roles: list[Role] = []
        self.began: datetime | None = None
        """When the first task was written."""
        self.after: list[Callable[[], object]] = []
        """What is to be done once the bundle is kept, such as letting go of a lock."""
        self.numbers = iter(range(1, 10_000_000))

    def __enter__(self) -> Stand:
        try:
            self._open()
        except BaseException:
            self._clean_up()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()
        self._clean_up()

    def _open(self) -> None:
        if self._given_url:
            self._stores["TASKKIT_DATABASE_URL"] = self._schema.enter_context(fresh_schema(self._given_url))
        if "TASKKIT_REDIS_URL" in self._stores:
            self._stores["TASKKIT_KEY_PREFIX"] = f"lab-{secrets.token_hex(4)}:"
        self.environment = self._environment()
        self.settings = Settings.load(env=self.environment)
        self.kit = Taskkit(self.settings)
        self.kit.registry = handlers.kit.registry
        if self.settings.embedded_database:
            _ = self.kit.center  # makes its tables
        else:
            fresh = TaskCenter(self.settings.sqlalchemy_url())
            fresh.upgrade_schema()
            fresh.close()

    @property
    def center(self) -> TaskCenter:
        """The task center."""
        return self.kit.center

    def _environment(self) -> dict[str, str]:
        config = self.folder / "taskkit.toml"
        config.touch()
        kept = {name: value for name, value in os.environ.items() if not name.startswith("TASKKIT_")}
        path = [
            str(Path(entry).absolute())
            for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep)
            if entry
        ]
        own = {
            "TASKKIT_HOME": str(self.folder / "home"),
            "TASKKIT_CONFIG": str(config),
            "TASKKIT_LOG_FORMAT": "json",
            handlers.FOLDER: str(self.folder),
            "PYTHONPATH": os.pathsep.join(path),
        }  # fmt: skip
        scaled = {f"TASKKIT_{name.upper()}": str(value).lower() for name, value in self.scaled.items()}
        return kept | own | scaled | self._stores

    # processes

    def freeze(self, role: Role) -> None:
        """Stop a process (SIGSTOP), but not while it has the only write lock of SQLite: nobody could go on then."""
        for attempt in range(FREEZES):
            role.signal(signal.SIGSTOP)
            if role.pid is not None:  # wait till all its threads stand
                os.waitid(os.P_PID, role.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
            if is_writable(self.center.database):
                return
            role.signal(signal.SIGCONT)
            time.sleep(LOOK_S * (1 + attempt))
        raise TaskkitError(f"SQLite was locked by a process whenever it was stopped, {FREEZES} times")

    def scheduler(self) -> Role:
        """Start a scheduler and wait until it works."""
        return self._start("scheduler", [])

    def worker(self, queues: str = "", slots: int = 1, app: str = APP) -> Role:
        """Start a worker for these queues (all of its handlers'), and wait until its children are there."""
        served = ["--queue", queues] if queues else []
        return self._start("worker", ["--app", app, *served, "--processes", str(slots)])

    def kill(self, role: Role) -> None:
        """SIGKILL, as the kernel does when memory is short: what hangs on the process ends by itself."""
        role.signal(signal.SIGKILL)
        if role.process is not None:
            role.process.wait()
            role.process = None

    def _start(self, kind: str, options: list[str]) -> Role:
        log = self.logs / f"{kind}-{sum(role.name == kind for role in self.roles) + 1}.log"
        command = [sys.executable, "-m", f"taskkit.{kind}", *options]
        with log.open("wb") as out:
            surroundings = {"stdout": out, "stderr": out, "env": self.environment, "cwd": self.folder}
            role = Role(kind, command, surroundings)
            role.start()
        self.roles.append(role)
        self.until(f"a {kind} works", lambda: self._works(role, kind, log), START_S)
        return role

    def _works(self, role: Role, kind: str, log: Path) -> bool:
        if role.died() is not None:
            words = " · ".join(log.read_text(errors="replace").splitlines()[-2:])
            raise TaskkitError(f"the lab's {kind} ended as soon as it was started: {words}")
        row = self.row(role)
        return row is not None and (kind == "scheduler" or len(row["children"]) >= row["processes"])

    def row(self, role: Role) -> Mapping[str, Any] | None:
        """Its row in SQL."""
        nodes = self.center.nodes
        rows = nodes.workers() if role.name == "worker" else nodes.schedulers()
        return next((row for row in rows if role.is_of(row)), None)

    def worker_id(self, role: Role) -> str:
        """What a worker of the lab calls itself."""
        row = self.row(role)
        return "" if row is None else str(row["worker_id"])

    # tasks

    def enqueue(self, code: str, count: int, queue: str | None = None, **payload: Any) -> list[int]:
        """Write so many tasks of a code, each with a number of its own."""
        self.began = self.began or self.center.now()
        new = [
            {"code": code, "payload": {"number": next(self.numbers), **payload}, "queue": queue}
            for _ in range(count)
        ]
        return self.kit.producer.enqueue_many(new)

    def statuses(self, ids: list[int]) -> list[Status]:
        """The statuses of these tasks."""
        return [found[0] for found in self.center.read.statuses(ids).values()]

    def all_in(self, ids: list[int], *wanted: Status) -> bool:
        """Whether all of these tasks have one of the statuses."""
        return all(status in wanted for status in self.statuses(ids))

    def queued(self, queue: str) -> int:
        """How many messages wait in a queue's list."""
        assert self.kit.queue is not None  # noqa: S101 - a scheduler has started it
        return sum(self.kit.queue.depth([ListName(queue)]).values())

    def wipe(self) -> None:
        """Lose all keys, as a Redis without persistence does when it is started again; on a given server only our own."""
        assert isinstance(self.kit.queue, RedisQueue)  # noqa: S101 - a scheduler has started it
        self.kit.queue.wipe(whole=self.settings.embedded_redis)

    def effects(self) -> dict[int, int]:
        """How many effects each task has really had, by the lab's own file."""
        found: dict[int, int] = {}
        with contextlib.suppress(FileNotFoundError):
            for line in handlers_file(self.folder).read_text(encoding="ascii").splitlines():
                task_id = int(line.split()[0])
                found[task_id] = found.get(task_id, 0) + 1
        return found

    # time

    def until(self, what: str, condition: Callable[[], bool], seconds: float = 60.0) -> None:
        """Wait for a condition; raises TaskkitError when it does not come."""
        deadline = monotonic() + seconds
        while not condition():
            if monotonic() > deadline:
                raise TaskkitError(f"the lab waited {seconds:.0f} s in vain until {what}; see {self.logs}")
            time.sleep(LOOK_S)

    def during(self, seconds: float, every: float) -> Iterator[float]:
        """Beats of a producer: the seconds since the beginning, every so often, by the clock and not by the count."""
        begun, beat = monotonic(), 0
        while (passed := monotonic() - begun) < seconds:
            yield passed
            beat += 1
            time.sleep(max(0.0, begun + beat * every - monotonic()))

    def _stop(self) -> None:
        for role in self.roles:
            role.signal(signal.SIGCONT)
            role.signal(signal.SIGTERM)
        deadline = monotonic() + STOP_S
        for role in self.roles:
            with contextlib.suppress(subprocess.TimeoutExpired):
                if role.process is not None:
                    role.process.wait(max(0.1, deadline - monotonic()))
            role.kill()

    def _clean_up(self) -> None:
        if hasattr(self, "kit"):
            self._forget_keys()
            self.kit.close()
        self._schema.close()
        with contextlib.suppress(OSError):
            self._temporary.cleanup()

    def _forget_keys(self) -> None:
        if not self.settings.embedded_redis and self.kit.queue is not None:
            with contextlib.suppress(TaskkitError):
                self.wipe()


def handlers_file(folder: Path) -> Path:
    """Where the effects of handlers are written down."""
    return folder / handlers.EFFECTS
