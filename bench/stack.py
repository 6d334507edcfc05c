"""Private installations for measurements: servers, schedulers and workers of their own, ended at the end."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from taskkit import Settings, Taskkit
from taskkit.doors import open_center
from tests.databases import fresh_database
from tests.machine import ServerMissing
from tests.servers import MariaDB, Valkey

ROOT = Path(__file__).resolve().parents[1]
APP = "bench_app:kit"
DATABASES = ("mariadb", "sqlite")
MARIADB = {"innodb_buffer_pool_size": "1G", "innodb_log_file_size": "96M"}
"""What a private MariaDB is set to: a pool of a small server, the default redo log; every commit is flushed."""
UNFINISHED = "SELECT 1 FROM task_center WHERE status IN (0, 1, 2, 4) LIMIT 1"


@dataclass
class Stack:
    """A running installation; ``kit`` enqueues into it. ``servers`` are the pids of those that we started."""

    env: dict[str, str]
    home: Path
    kit: Taskkit
    servers: dict[str, int] = field(default_factory=dict)
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, role: str, *arguments: str, **settings: object) -> subprocess.Popen[bytes]:
        """Start ``python -m taskkit.<role>``, with further settings of its own."""
        command = [sys.executable, "-m", f"taskkit.{role}", *arguments]
        env = self.env | environment(settings)
        with (self.home / f"{role}-{len(self.processes)}.log").open("wb") as log:
            process = subprocess.Popen(command, env=env, cwd=self.home, stdout=log, stderr=subprocess.STDOUT)
        self.processes.append(process)
        return process

    def worker(self, code: str, **settings: object) -> subprocess.Popen[bytes]:
        """Start a worker for the tasks of one code of bench_app."""
        return self.start("worker", "--app", APP, "--queue", code, **settings)

    def wait_up(self, schedulers: int, workers: int, seconds: float = 60) -> None:
        """Wait until so many have written their rows."""
        nodes = self.kit.center.nodes
        self.wait(lambda: len(nodes.schedulers()) >= schedulers and len(nodes.workers()) >= workers, seconds)

    def wait(self, condition: Callable[[], object], seconds: float = 300, every: float = 0.02) -> None:
        """Wait until this holds; ends the program with where the logs are when a process ended or time is up."""
        deadline = time.monotonic() + seconds
        while not condition():
            ended = [process.args for process in self.processes if process.poll() not in {None, 0}]
            if ended or time.monotonic() > deadline:
                raise SystemExit(f"{ended or f'nothing for {seconds} s'}; {self.logs()}")
            time.sleep(every)

    def wait_done(self, seconds: float = 600) -> None:
        """Wait until no task waits or runs."""
        self.wait(lambda: not self.query(UNFINISHED), seconds, every=0.05)

    def query(self, statement: str) -> list[Any]:
        """The rows of a statement on a connection of the kit's."""
        return query(self.kit, statement)

    def enqueue(self, code: str, tasks: int, payload: dict[str, Any] | None = None, bulk: int = 500) -> float:
        """Write so many tasks in bulk; returns how many a second."""
        began = time.perf_counter()
        for first in range(0, tasks, bulk):
            size = min(bulk, tasks - first)
            self.kit.producer.enqueue_many([{"code": code, "payload": payload or {}}] * size)
        return tasks / (time.perf_counter() - began)

    def other_kit(self, **settings: object) -> Taskkit:
        """Another application's kit on the same installation; close it."""
        return Taskkit(Settings.load(env=self.env | environment(settings)))

    def logs(self) -> str:
        """The last words of each process."""
        said = (f"{path.name}: {path.read_text()[-1500:]}" for path in sorted(self.home.glob("*.log")))
        return "\n".join(said)

    def stop(self) -> None:
        """End all processes of this stack, by pid; the kit goes on."""
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.processes.clear()


def query(kit: Taskkit, statement: str) -> list[Any]:
    """The rows of a statement on a connection of this kit's."""
    with kit.center.database.engine.connect() as connection, connection.begin():
        found = connection.exec_driver_sql(statement)
        return list(found.all()) if found.returns_rows else []


def environment(settings: dict[str, Any]) -> dict[str, str]:
    """Settings as environment variables, ``worker_processes=2`` for one of a table."""
    return {f"TASKKIT_{name.upper()}": str(value).lower() for name, value in settings.items()}


@dataclass
class Ground:
    """The servers that installations stand on: ``sqlite`` is the embedded default, ``mariadb`` a private one."""

    name: str
    mariadb: MariaDB | None = None
    valkey: Valkey | None = None
    url: str = ""

    @contextmanager
    def installation(self, **settings: object) -> Iterator[Stack]:
        """An empty installation with these settings; its processes, database and folder are gone afterwards."""
        with ExitStack() as things:
            home = Path(things.enter_context(tempfile.TemporaryDirectory(prefix="taskkit-bench-")))
            env = plain_environment() | environment(settings) | {"TASKKIT_HOME": str(home / "home")}
            if self.url and self.valkey is not None:
                env["TASKKIT_DATABASE_URL"] = things.enter_context(fresh_database(self.url))
                env["TASKKIT_REDIS_URL"] = self.valkey.url
            chosen = Settings.load(env=env)
            make_schema(chosen)
            kit = things.enter_context(contextlib.closing(Taskkit(chosen)))
            one = Stack(env, home, kit, self.pids())
            things.callback(one.stop)
            yield one

    def pids(self) -> dict[str, int]:
        """Which server processes are ours."""
        servers = {"database": self.mariadb, "Redis": self.valkey}
        return {name: server.pid for name, server in servers.items() if server is not None}


def plain_environment() -> dict[str, str]:
    """Ours, without settings of taskkit and with the repository first."""
    env = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("TASKKIT_") and name != "PYTHONDONTWRITEBYTECODE"
    }
    path = f"{ROOT}{os.pathsep}{ROOT / 'bench'}"
    return env | {"PYTHONPATH": path, "TASKKIT_LOG_LEVEL": "warning"}


def make_schema(settings: Settings) -> None:
    """The tables in an empty database."""
    if settings.embedded_database:
        open_center(settings, upgrade=True).close()
        return
    from taskkit.center import TaskCenter

    center = TaskCenter(settings.sqlalchemy_url())
    center.upgrade_schema()
    center.close()


@contextmanager
def ground(name: str, server: str = "") -> Iterator[Ground]:
    """``mariadb`` starts a private MariaDB, unless ``server`` is the URL of one of yours, and a private Valkey."""
    with ExitStack() as things:
        if name == "sqlite":
            yield Ground(name)
            return
        mariadb = None if server else things.enter_context(MariaDB(**MARIADB))
        valkey = things.enter_context(Valkey())
        yield Ground(name, mariadb, valkey, server or (mariadb.url if mariadb else ""))


@contextmanager
def server_ground(server: str = "") -> Iterator[Ground]:
    """For what only a server can show; where none is installed the program ends, and says so."""
    with grounds(["mariadb"], server) as found:
        if not found:
            raise SystemExit(0)
        yield found[0]


@contextmanager
def grounds(names: list[str], server: str = "") -> Iterator[list[Ground]]:
    """Several of them; one whose server is not installed is left out, and that is said."""
    with ExitStack() as things:
        found = []
        for name in names:
            try:
                found.append(things.enter_context(ground(name, server)))
            except ServerMissing as missing:
                print(f"{name} is left out: {missing}", file=sys.stderr)
        yield found


@contextmanager
def stack(name: str, **settings: object) -> Iterator[Stack]:
    """An installation with servers of its own."""
    with ground(name) as one, one.installation(**settings) as found:
        yield found
