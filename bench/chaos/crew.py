"""Schedulers and workers as real processes, and the supervisor that starts again what ended."""

from __future__ import annotations

import contextlib
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from bench.chaos.evidence import Process
from tests.machine import ending_with_parent

PAUSE = (0.3, 1.0)
PATIENCE = 40.0
LOOK = 0.05


@dataclass(slots=True)
class Start:
    """One process from its start to its end."""

    role: str
    popen: subprocess.Popen[bytes]
    born: float
    died: float | None = None
    told: float | None = None

    @property
    def pid(self) -> int:
        return self.popen.pid

    def signal(self, number: int) -> None:
        """Send a signal; one that asks for an end in order is remembered."""
        if number == signal.SIGTERM:
            self.told = self.told or time.monotonic()
        self.popen.send_signal(number)


@dataclass(slots=True)
class Place:
    """Where one scheduler or worker has to be running."""

    role: str
    arguments: Sequence[str]
    starts: list[Start] = field(default_factory=list)
    due: float = 0.0

    @property
    def living(self) -> Start | None:
        """Who runs there now."""
        last = self.starts[-1] if self.starts else None
        return last if last is not None and last.popen.poll() is None else None


class Crew:
    """Keeps its places filled, from one thread that lives to the end: the kernel ends what it started with it."""

    def __init__(self, home: Path, env: Mapping[str, str], seed: int) -> None:
        self.home, self.env = home, dict(env)
        self.places: list[Place] = []
        self._rng = random.Random(seed)
        self._over, self._closing = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="crew", daemon=True)

    def add(self, role: str, count: int, *arguments: str) -> None:
        """Let so many processes ``python -m taskkit.<role>`` run."""
        self.places += [Place(role, arguments) for _ in range(count)]

    def start(self) -> None:
        """Begin to fill the places."""
        self._thread.start()

    def living(self, role: str) -> list[Start]:
        """Who runs now, by place."""
        return [start for place in self.places if place.role == role and (start := place.living)]

    def family(self, worker: Start) -> tuple[list[int], list[int]]:
        """The pids of a worker's nurseries and of its children."""
        with contextlib.suppress(psutil.Error):
            nurseries = [
                one
                for one in psutil.Process(worker.pid).children()
                if "taskkit.worker.nursery" in one.cmdline()
            ]
            return [one.pid for one in nurseries], [c.pid for one in nurseries for c in one.children()]
        return [], []

    def close(self) -> None:
        """Wake and stop everybody in order; who does not end in time is killed."""
        self._closing.set()
        self._thread.join()

    def history(self) -> list[Process]:
        """All starts, for the checker."""
        return [
            Process(s.role, s.pid, s.born, s.died, s.popen.returncode, s.told)
            for place in self.places
            for s in place.starts
        ]

    def logs(self, pid: int) -> Path | None:
        """The log file of the process with this pid."""
        return next(iter(self.home.glob(f"*-{pid}.log")), None)

    def _run(self) -> None:
        while not self._closing.is_set():
            for place in self.places:
                self._keep(place)
            time.sleep(LOOK)
        self._end_all()

    def _keep(self, place: Place) -> None:
        last = place.starts[-1] if place.starts else None
        if last is not None and last.died is None:
            if last.popen.poll() is None:
                return
            last.died = time.monotonic()
            place.due = last.died + self._rng.uniform(*PAUSE)
        if time.monotonic() >= place.due:
            place.starts.append(self._begin(place))

    def _begin(self, place: Place) -> Start:
        path = self.home / f"{place.role}-{len(place.starts)}-{id(place)}.log"
        command = [*ending_with_parent(), sys.executable, "-m", f"taskkit.{place.role}", *place.arguments]
        with path.open("wb") as log:
            popen = subprocess.Popen(
                command,
                env=self.env,
                cwd=self.home,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        path.rename(self.home / f"{place.role}-{popen.pid}.log")
        return Start(place.role, popen, time.monotonic())

    def _end_all(self) -> None:
        left = [start for place in self.places for start in place.starts if start.died is None]
        for start in left:
            start.signal(signal.SIGCONT)
            start.signal(signal.SIGTERM)
        deadline = time.monotonic() + PATIENCE
        for start in left:
            with contextlib.suppress(subprocess.TimeoutExpired):
                start.popen.wait(max(0.1, deadline - time.monotonic()))
            start.popen.kill()
            start.popen.wait()
            start.died = time.monotonic()
