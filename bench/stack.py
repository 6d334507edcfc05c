"""A private installation for one measurement: servers, schedulers and workers of its own, ended at the end."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from taskkit import Settings, Taskkit  # noqa: E402 - the repository first
from tests.servers import MariaDB, Valkey  # noqa: E402


@dataclass
class Stack:
    """A running installation; ``kit`` enqueues into it."""

    env: dict[str, str]
    home: Path
    kit: Taskkit
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, role: str, *arguments: str) -> subprocess.Popen[bytes]:
        """Start ``python -m taskkit.<role>``."""
        log = (self.home / f"{role}-{len(self.processes)}.log").open("wb")
        command = [sys.executable, "-m", f"taskkit.{role}", *arguments]
        process = subprocess.Popen(command, env=self.env, cwd=self.home, stdout=log, stderr=subprocess.STDOUT)
        self.processes.append(process)
        return process

    def wait_up(self, schedulers: int, workers: int, seconds: float = 60) -> None:
        """Wait until so many have written their rows."""
        deadline = time.monotonic() + seconds
        nodes = self.kit.center.nodes
        while len(nodes.schedulers()) < schedulers or len(nodes.workers()) < workers:
            if time.monotonic() > deadline:
                raise SystemExit(f"not up after {seconds} s; logs in {self.home}")
            time.sleep(0.05)

    def stop(self) -> None:
        """End all processes of this stack, by pid."""
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextmanager
def stack(database: str) -> Iterator[Stack]:
    """``database``: ``sqlite`` is the embedded default, ``mariadb`` a private MariaDB and Valkey."""
    with ExitStack() as things:
        home = Path(things.enter_context(tempfile.TemporaryDirectory(prefix="taskkit-bench-")))
        env = {key: value for key, value in os.environ.items() if not key.startswith("TASKKIT_")}
        env |= {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'bench'}", "TASKKIT_HOME": str(home / "home")}
        env["TASKKIT_LOG_LEVEL"] = "warning"
        if database == "mariadb":
            server = things.enter_context(MariaDB())
            server.admin("CREATE DATABASE taskkit_bench")
            env["TASKKIT_DATABASE_URL"] = server.url_of("taskkit_bench")
            env["TASKKIT_REDIS_URL"] = things.enter_context(Valkey()).url
        settings = Settings.load(env=env)
        kit = Taskkit(settings)
        if database == "mariadb":
            from taskkit.center import TaskCenter

            center = TaskCenter(settings.sqlalchemy_url())
            center.upgrade_schema()
            center.close()
        one = Stack(env, home, kit)
        things.callback(kit.close)
        things.callback(one.stop)
        yield one


def versions(one: Stack) -> str:
    """What was measured on what, in one line."""
    import platform

    import sqlalchemy

    database = one.kit.center.database
    with database.engine.connect() as connection:
        function = "sqlite_version()" if database.sqlite else "version()"
        server = connection.exec_driver_sql(f"SELECT {function}").scalar()
    kind = "SQLite" if database.sqlite else "MariaDB/MySQL"
    return (
        f"Python {platform.python_version()}, SQLAlchemy {sqlalchemy.__version__}, {kind} {server}, "
        f"{os.cpu_count()} CPUs, {time.strftime('%Y-%m-%d')}"
    )


def percentile(values: list[float], share: float) -> float:
    """The value below which ``share`` of the sorted values lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
