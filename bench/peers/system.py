"""One variant of one measured system: its producer, its worker processes and what its tasks recorded."""

from __future__ import annotations

import ast
import contextlib
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
from servers import Server
from worklib import Records

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
HOME = Path(os.environ.get("PEERBENCH_HOME", Path(tempfile.gettempdir()) / "peerbench"))


def read_spec(path: Path) -> dict[str, Any]:
    """Read the SPEC literal of a system's file without importing the file."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "SPEC":
            return ast.literal_eval(node.value)
    raise SystemExit(f"{path} has no SPEC")


class System:
    """One variant of one system; ``db`` is its own Redis database in the tests that run side by side."""

    def __init__(self, name: str, variant: str, spec: dict[str, Any], db: int):
        self.name, self.variant, self.spec, self.db = name, variant, spec, db
        self.key = f"{name}:{variant}"
        self.info = spec["variants"][variant]
        self.python = HOME / "venvs" / name / "bin" / "python"
        self.env: dict[str, str] = {}
        plain = self.key.replace(":", "-")
        self.recorded = Records(HOME / "records" / plain)
        self.log_path = HOME / "logs" / f"{plain}.log"
        self.folder = HOME / "files" / plain
        self.leaders: list[subprocess.Popen[bytes]] = []
        self.start_cpu = 0.0  # CPU seconds that starting the workers costs, from calibrate()

    def use(self, running: Mapping[str, Server], settings: str = "tuned", own_db: bool = False) -> None:
        """Point the system at the running servers and start a new records file."""
        self.env = {
            **plain_environment(),
            "PYTHONPATH": os.pathsep.join([str(HERE), str(ROOT)]),
            "BENCH_VARIANT": self.variant,
            "BENCH_SETTINGS": settings,
            "BENCH_RECORDS": str(self.recorded.path),
            "BENCH_FOLDER": str(self.folder),
        }
        for name in self.info["servers"]:
            server = running[name]
            self.env.update(server.env(self.db) if name == "redis" and own_db else server.env())
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.recorded.clear()

    def agent(self, action: str, timeout: float = 300, **options: object) -> Any:
        """Run agent.py in the system's environment; return its JSON answer."""
        args = [str(self.python), str(HERE / "agent.py"), self.name, action]
        for option, value in options.items():
            args += [f"--{option}", str(value)]
        done = subprocess.run(
            args, check=False, env=self.env, cwd=HERE, capture_output=True, text=True, timeout=timeout
        )
        if done.returncode:
            raise RuntimeError(f"{self.key} {action}: {done.stderr[-1500:]}")
        return json.loads(done.stdout.strip().splitlines()[-1])

    def top_up(self, first: int, count: int) -> None:
        """Enqueue ``count`` no-ops as fast as possible, with two producers (not timed)."""
        half = count // 2
        parts = [(start, size) for start, size in [(first, half), (first + half, count - half)] if size]

        def enqueue(part: tuple[int, int]) -> None:
            self.agent("enqueue", first=part[0], count=part[1], bulk=self.spec["bulk"])

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(enqueue, parts))

    def start(self) -> None:
        """Start the worker commands, each in a session of its own."""
        with self.log_path.open("a") as log:
            for command in self.agent("workers"):
                leader = subprocess.Popen(
                    command,
                    env=self.env,
                    cwd=HERE,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
                self.leaders.append(leader)

    def tree(self) -> list[psutil.Process]:
        """All processes of the workers: those in a session that we started, and their descendants."""
        sessions = {leader.pid for leader in self.leaders}
        found: dict[int, psutil.Process] = {}
        for process in psutil.process_iter():
            with contextlib.suppress(ProcessLookupError, PermissionError, psutil.NoSuchProcess):
                if os.getsid(process.pid) in sessions:
                    found |= {one.pid: one for one in [process, *process.children(recursive=True)]}
        return list(found.values())

    def kill(self) -> None:
        """kill -9 the whole worker tree."""
        for _ in range(3):
            for process in self.tree():
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
            time.sleep(0.05)
        for leader in self.leaders:
            leader.wait()
        self.leaders = []

    def cpu(self) -> float:
        """CPU seconds of the worker tree so far, reaped children included."""
        return cpu_seconds(self.tree())

    def pss(self) -> float:
        """Proportional set size of the worker tree in MiB."""
        total = 0
        for process in self.tree():
            with contextlib.suppress(psutil.NoSuchProcess):
                total += process.memory_full_info().pss
        return total / 2**20

    def wait(self, count: int, stall: float = 20, limit: float = 120) -> bool:
        """Wait for ``count`` records; give up when none came for ``stall`` seconds."""
        last, changed, end = -1, time.monotonic(), time.monotonic() + limit
        while time.monotonic() < end:
            now = self.recorded.count()
            if now >= count:
                return True
            if now != last:
                last, changed = now, time.monotonic()
            elif time.monotonic() - changed > stall:
                return False
            time.sleep(0.05)
        return False


def plain_environment() -> dict[str, str]:
    """Ours, without what would change a measured system: compiling at each start, settings of taskkit."""
    return {
        name: value
        for name, value in os.environ.items()
        if name != "PYTHONDONTWRITEBYTECODE" and not name.startswith("TASKKIT_")
    }


def cpu_seconds(processes: Iterable[psutil.Process]) -> float:
    """CPU seconds of these processes so far, with those of children that they have reaped."""
    total = 0.0
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


def load(selected: list[str]) -> list[System]:
    """The selected variants (``name`` or ``name:variant``) in systems/; without a selection all not optional.

    Raises SystemExit when there is nothing of a name: a peer that is left out in silence looks like one that won.
    """
    systems: list[System] = []
    known: set[str] = set()
    for path in sorted((HERE / "systems").glob("[a-z]*.py")):
        spec = read_spec(path)
        known |= {path.stem, *(f"{path.stem}:{variant}" for variant in spec["variants"])}
        for variant in spec["variants"]:
            chosen = path.stem in selected or f"{path.stem}:{variant}" in selected
            if chosen or (not selected and not spec["variants"][variant].get("optional")):
                systems.append(System(path.stem, variant, spec, db=len(systems) + 1))
    if unknown := sorted(set(selected) - known):
        raise SystemExit(f"no system is called {', '.join(unknown)}; there are {', '.join(sorted(known))}")
    return systems
