"""Where the demonstration plays: a temporary home or given stores, the processes, a small web server."""

from __future__ import annotations

import contextlib
import http.server
import os
import secrets
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import psutil

from taskkit.clock import monotonic
from taskkit.errors import SettingsError, TaskkitError
from taskkit.settings import Settings
from taskkit.supervising import Role, ending

STORES = ("TASKKIT_DATABASE_URL", "TASKKIT_REDIS_URL", "TASKKIT_KEY_PREFIX")
STOP_S = 25.0
GONE_S = 5.0


class Stage:
    """A home, settings that know only the given stores, and the processes of ``taskkit up`` on it."""

    def __init__(self, schedulers: int, workers: int) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="taskkit-demo-"))
        self.mark = f"demo-{secrets.token_hex(3)}"
        self.environment = _environment(self.folder)
        try:
            self.settings = Settings.load(env=self.environment)
        except SettingsError:
            self.clear()
            raise
        self.schedulers, self.workers = schedulers, workers
        self.up: Role | None = None
        self.seen: dict[int, psutil.Process] = {}

    @property
    def own(self) -> bool:
        """Whether everything is in the temporary home, so that nobody else can be disturbed."""
        return self.settings.embedded_database and self.settings.embedded_redis

    def queue(self, code: str) -> str | None:
        """Where tasks of a code wait: on stores of others in a queue that only the demonstration serves."""
        return None if self.own else f"{self.mark}.{code}"

    def start(self, queues: list[str | None]) -> None:
        """Start ``taskkit up`` with everything it runs."""
        counts = ["--schedulers", str(self.schedulers), "--workers", str(self.workers), "--processes", "2"]
        served = [part for queue in queues if queue for part in ("--queue", queue)]
        command = [
            sys.executable,
            "-m",
            "taskkit.cli",
            "up",
            "--app",
            "taskkit.demo.shop:kit",
            *counts,
            *served,
        ]
        with self.log.open("ab") as log:
            surroundings = {"env": self.environment, "cwd": self.folder, "stdout": log, "stderr": log}
            self.up = Role("taskkit up", command, surroundings)
            self.up.start()
        self.up.surroundings.clear()

    @property
    def log(self) -> Path:
        """What the processes say."""
        return self.folder / "up.log"

    @property
    def running(self) -> bool:
        """Whether ``taskkit up`` was started and has not been stopped."""
        return self.up is not None and self.up.process is not None

    def check(self) -> None:
        """Raise when ``taskkit up`` has ended by itself."""
        if self.up is None:
            return
        code = self.up.died()
        if code is not None:
            raise TaskkitError(f"taskkit up {ending(code)}: {self.last_words()} (see {self.log})")

    def note(self) -> None:
        """Remember the processes that are there, to look for them when all has stopped."""
        self.seen |= {process.pid: process for process in self.processes()}

    def processes(self) -> list[psutil.Process]:
        """Every process of the demonstration: below ``taskkit up``, or with its home in the environment."""
        found = {}
        with contextlib.suppress(psutil.Error):
            if self.up is not None and self.up.pid is not None:
                top = psutil.Process(self.up.pid)
                found = {process.pid: process for process in [top, *top.children(recursive=True)]}
        for process in psutil.process_iter():
            if process.pid != os.getpid() and _home_of(process) == self.environment["TASKKIT_HOME"]:
                found[process.pid] = process
        return list(found.values())

    def roles(self) -> set[int]:
        """The process ids of schedulers and workers."""
        with contextlib.suppress(psutil.Error):
            if self.up is not None and self.up.pid is not None:
                return {child.pid for child in psutil.Process(self.up.pid).children()}
        return set()

    def stop(self) -> list[psutil.Process]:
        """Stop everything in order; returns the processes that are still there afterwards, which are killed."""
        if self.up is None or self.up.process is None:
            return []
        self.note()
        self.up.signal(signal.SIGTERM)
        _wait_for(lambda: self.up is not None and self.up.died() is not None, STOP_S)
        self.up.kill()
        _wait_for(lambda: not self.left(), GONE_S)
        left = self.left()
        for process in left:
            with contextlib.suppress(psutil.Error):
                process.kill()
        return left

    def left(self) -> list[psutil.Process]:
        """Those of the processes seen so far, and any other with this home, that still run."""
        known = self.seen | {process.pid: process for process in self.processes()}
        return [process for process in known.values() if _alive(process)]

    def last_words(self) -> str:
        """The last lines that people should read of what the processes said."""
        with contextlib.suppress(OSError):
            lines = self.log.read_text(errors="replace").splitlines()
            told = [line for line in lines if line.startswith("taskkit: ")]
            return " · ".join(line.removeprefix("taskkit: ") for line in (told or lines)[-2:])
        return "it said nothing"

    def clear(self) -> None:
        """Remove the temporary home."""
        shutil.rmtree(self.folder, ignore_errors=True)


def _environment(folder: Path) -> dict[str, str]:
    """The environment of the processes: no setting of the user's but the stores, and no taskkit.toml."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith("TASKKIT_") or name in STORES
    }
    config = folder / "taskkit.toml"
    config.touch()
    no_proxy = ",".join(filter(None, [os.environ.get("no_proxy"), "127.0.0.1"]))
    own = {"TASKKIT_HOME": str(folder / "home"), "TASKKIT_CONFIG": str(config), "TASKKIT_LOG_FORMAT": "json"}
    return kept | own | {"NO_PROXY": no_proxy, "no_proxy": no_proxy, "PYTHONPATH": _python_path()}


def _python_path() -> str:
    """The processes start in another folder, so relative entries would no longer be found."""
    given = os.environ.get("PYTHONPATH", "")
    return os.pathsep.join(str(Path(entry).absolute()) for entry in given.split(os.pathsep) if entry)


def _home_of(process: psutil.Process) -> str | None:
    try:
        environment: Mapping[str, str] = process.environ()
    except (psutil.Error, OSError):
        return None
    return environment.get("TASKKIT_HOME")


def _alive(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def _wait_for(condition: Callable[[], bool], seconds: float) -> bool:
    deadline = monotonic() + seconds
    while not condition():
        if monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


class _Server(http.server.ThreadingHTTPServer):
    """Answers everything with a short text; ``/unsteady`` fails twice before it does."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Page)
        self.failures = iter([503, 503])


class _Page(http.server.BaseHTTPRequestHandler):
    """One answer; nothing is said about it anywhere."""

    server: _Server

    def do_GET(self) -> None:
        body = f"the page {self.path}".encode()
        self.send_response(next(self.server.failures, 200) if self.path == "/unsteady" else 200)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        return


@contextlib.contextmanager
def web_server() -> Iterator[str]:
    """A web server on loopback while the block runs; gives its address."""
    server = _Server()
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
