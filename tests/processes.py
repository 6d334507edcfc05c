"""Real processes of taskkit for tests: started with an environment, known by their row in SQL, ended by their pid."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import sqlite3
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import psutil
import redis

from taskkit import Settings, Taskkit
from taskkit.embedded import Embedded
from taskkit.model import ListName, Message, Run, Task
from taskkit.queues import Queue, codec
from taskkit.queues.redis import RedisQueue
from taskkit.states import ENDED, Status
from tests import sample_app
from tests.databases import fresh_database
from tests.pids import command_line, stopped
from tests.schemas import build
from tests.servers import Server
from tests.waiting import wait_until
from tests.zygote import launch

ROOT = Path(__file__).parents[1]
APP = "tests.sample_app:kit"


class Process:
    """One ``python -m taskkit.<role>``, its log lines and its row."""

    def __init__(
        self, home: Installation, role: str, arguments: Sequence[str], extra: dict[str, str]
    ) -> None:
        self.home, self.role = home, role
        number = len(home.processes)
        self.out, self.err = home.folder / f"{role}-{number}.out", home.folder / f"{role}-{number}.err"
        with self.out.open("wb") as out, self.err.open("wb") as err:
            module = home.modules.get(role, f"taskkit.{role}")
            self.popen = launch(module, arguments, {**home.environment, **extra}, home.folder, out, err)
        self.pid = self.popen.pid

    def ready(self, seconds: float = 30) -> Self:
        """Wait until its row is in SQL, and for a worker until its children can be seen in it."""
        wait_until(self._looks_ready, seconds, every=0.05)
        return self

    def _looks_ready(self) -> bool:
        code = self.popen.poll()
        assert code is None, f"{self.role} ended with {code}: {self.err.read_text()[-2000:]}"
        row = self.row()
        return row is not None and (self.role != "worker" or len(row["children"]) >= row["processes"])

    def row(self) -> dict[str, Any] | None:
        """Its row in ``task_worker``, ``task_scheduler`` or ``task_watchdog``, unless it has signed off."""
        center = self.home.kit.center
        rows = {
            "worker": center.nodes.workers,
            "scheduler": center.nodes.schedulers,
            "watchdog": lambda: [row for row in center.watchdogs.all() if row["stopped_at"] is None],
        }[self.role]()
        return next((row for row in rows if row["pid"] == self.pid), None)

    @property
    def id(self) -> str:
        row = self.row()
        assert row is not None
        return str(row[f"{self.role}_id"])

    def lines(self, **wanted: Any) -> list[dict[str, Any]]:
        """Its log lines, all of which must be JSON, whose fields are as wanted."""
        text = self.out.read_text()
        lines = [json.loads(line) for line in text.split("\n")[:-1]]
        return [line for line in lines if wanted.items() <= line.items()]

    def family(self) -> list[psutil.Process]:
        """All its descendants."""
        with contextlib.suppress(psutil.NoSuchProcess):
            return list(psutil.Process(self.pid).children(recursive=True))
        return []

    def children(self) -> list[int]:
        """The pids of a worker's children, by its row."""
        row = self.row()
        return [child["pid"] for child in row["children"]] if row else []

    @property
    def nursery(self) -> int:
        """The pid of a worker's nursery; when the last one has just been killed, of the next."""
        return int(wait_until(self._nurseries, 30)[-1])

    def _nurseries(self) -> list[int]:
        family = psutil.Process(self.pid).children()
        return [p.pid for p in family if "taskkit.worker.nursery" in command_line(p.pid)]

    def signal(self, number: int) -> None:
        self.popen.send_signal(number)

    def wait(self, seconds: float = 20) -> int:
        """Wait for its end; returns its exit code."""
        return self.popen.wait(seconds)

    def stop(self, seconds: float = 20) -> int:
        """SIGTERM, and wait; returns its exit code."""
        self.signal(signal.SIGTERM)
        return self.wait(seconds)

    def kill(self) -> None:
        """SIGKILL, and see that its descendants end as well."""
        if self.popen.poll() is not None:
            return
        family = self.family()
        self.popen.kill()
        self.popen.wait()
        for process in psutil.wait_procs(family, 3)[1]:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()


class Installation:
    """Where the processes of some tests meet: a folder, a task center, a broker, and a kit to enqueue with."""

    def __init__(self, folder: Path, *, settings: Settings | None = None, **environment: Any) -> None:
        self.folder = folder
        self.settings = settings or Settings(home=folder / "home")
        self.kit = Taskkit(self.settings)
        self.kit.registry = sample_app.kit.registry
        build(self.settings.sqlalchemy_url())
        self.environment = {key: value for key, value in os.environ.items() if not key.startswith("TASKKIT_")}
        self.environment |= _settings_as_environment(self.settings) | _named(environment)
        self.environment["PYTHONPATH"] = str(ROOT)
        self.processes: list[Process] = []
        self.modules: dict[str, str] = {}
        """What is run instead of ``taskkit.<role>``."""
        self.servers: dict[str, Server] = {}
        """Servers that are this installation's alone, for tests that break them."""

    def begin(self, role: str, *arguments: str, **environment: Any) -> Process:
        """Start a process without waiting for it."""
        process = Process(self, role, arguments, _named(environment))
        self.processes.append(process)
        return process

    def scheduler(self, **environment: Any) -> Process:
        """A scheduler that is up."""
        return self.begin("scheduler", **environment).ready()

    def worker(self, *arguments: str, **environment: Any) -> Process:
        """A worker of the sample application that is up."""
        return self.begin("worker", "--app", APP, *arguments, **environment).ready()

    def enqueue(self, code: str, payload: dict[str, Any] | None = None, **options: Any) -> int:
        return self.kit.producer.enqueue(code, payload, **options)

    def enqueue_many(self, code: str, payloads: Sequence[dict[str, Any]], **options: Any) -> list[int]:
        tasks = [{"code": code, "payload": payload, **options} for payload in payloads]
        return self.kit.producer.enqueue_many(tasks)

    def task(self, task_id: int) -> Task:
        return self.kit.center.read.task(task_id)

    def runs(self, task_id: int) -> list[Run]:
        return self.kit.center.read.runs([task_id])

    def outcomes(self, task_id: int) -> list[str]:
        """How the attempts of a task ended, in order."""
        return [run.outcome.value for run in self.runs(task_id)]

    def wait(self, task_id: int, *statuses: Status, seconds: float = 20) -> Task:
        """Wait until the task has one of these statuses, or has ended."""
        return self.wait_all([task_id], *statuses, seconds=seconds)[0]

    def wait_all(self, ids: Sequence[int], *statuses: Status, seconds: float = 30) -> list[Task]:
        """Wait until all of the tasks have one of these statuses, or have ended; in the order of the ids."""
        wanted = frozenset(statuses) or ENDED

        def there() -> bool:
            return all(s[0] in wanted for s in self.kit.center.read.statuses(ids).values())

        with contextlib.suppress(AssertionError):
            wait_until(there, seconds, every=0.03)
        found = {task.id: task for task in self.kit.center.read.tasks(ids)}
        left = [found[i] for i in ids if found[i].status not in wanted]
        assert not left, f"{len(left)} of {len(ids)} are not {wanted}: {left[:3]}"
        return [found[i] for i in ids]

    def freeze(self, *pids: int) -> None:
        """Stop processes (SIGSTOP) wherever they are; on SQLite not while one writes, which keeps all others out."""
        for number in itertools.count():
            for pid in pids:
                os.kill(pid, signal.SIGSTOP)
            wait_until(lambda: all(stopped(pid) for pid in pids))
            if self._can_be_written():
                return
            assert number < 20, "one of them writes whenever it is stopped"
            for pid in pids:
                os.kill(pid, signal.SIGCONT)

    def _can_be_written(self) -> bool:
        scheme, _, path = self.settings.sqlalchemy_url().partition(":///")
        if not scheme.startswith("sqlite"):
            return True
        try:
            with contextlib.closing(sqlite3.connect(path, timeout=2, isolation_level=None)) as link:
                link.execute("BEGIN IMMEDIATE")
                link.execute("ROLLBACK")
        except sqlite3.OperationalError:
            return False
        return True

    def close(self) -> None:
        """Stop what still runs, workers first."""
        for process in sorted(self.processes, key=lambda p: p.role != "worker"):
            if process.popen.poll() is None:
                process.signal(signal.SIGTERM)
        for process in self.processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)
            process.kill()
        self.kit.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Stack:
    """An installation with a scheduler and a worker that stay up."""

    def __init__(self, home: Installation) -> None:
        self.home = home
        self.scheduler, self.worker = (
            home.begin("scheduler"),
            home.begin("worker", "--app", APP),
        )
        for process in (self.scheduler, self.worker):
            process.ready()

    @property
    def queue(self) -> Queue:
        """The broker."""
        found = self.home.kit.queue
        assert found is not None
        return found

    def push(self, queue: str, *messages: bytes | Message) -> None:
        """Push into a list by hand, in order."""
        found = self.queue
        assert isinstance(found, RedisQueue)
        raws = [codec.encode(one) if isinstance(one, Message) else one for one in messages]
        with redis.Redis.from_url(
            self.home.settings.redis_url or Embedded(self.home.settings.home).url()
        ) as client:
            client.rpush(found.keys.list(ListName(queue)), *raws)

    def deliver(self, task_id: int) -> None:
        """Hand a task's message to the worker, whatever its queue, and wait until it has been looked at."""
        self.push("echo", Message(task_id, attempt=self.home.task(task_id).attempt))
        self.home.wait(self.home.enqueue("echo"))


@contextlib.contextmanager
def on_servers(folder: Path, database: str, broker: str, **environment: Any) -> Iterator[Installation]:
    """An installation in a fresh database of a server and under a key prefix of its own."""
    with fresh_database(database) as url:
        settings = Settings(
            home=folder / "home",
            database_url=url,
            redis_url=broker,
            key_prefix=f"i{os.getpid()}-{folder.name}:",
        )
        with Installation(folder, settings=settings, **environment) as home:
            yield home


def _settings_as_environment(settings: Settings) -> dict[str, str]:
    given = {
        "home": settings.home,
        "database_url": settings.database_url,
        "redis_url": settings.redis_url,
        "key_prefix": settings.key_prefix,
    }
    return _named({key: value for key, value in given.items() if value is not None})


def _named(values: dict[str, Any]) -> dict[str, str]:
    return {f"TASKKIT_{key.upper()}": str(value) for key, value in values.items()}
