"""The command line as tests use it: called in this process, or as a program of its own that is always stopped."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from taskkit.cli.conduct import run
from taskkit.settings import Settings
from tests.schemas import build
from tests.waiting import wait_until

PROGRAM = [sys.executable, "-m", "taskkit.cli"]


@dataclass(frozen=True)
class Answer:
    """What a command said and its exit code."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def cli(*arguments: object, stdin: str | bytes = "") -> Answer:
    """Call the command line in this process."""
    out, err = _page(), _page()
    data = stdin.encode() if isinstance(stdin, str) else stdin
    kept = sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO(data), encoding="utf-8")
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run([str(argument) for argument in arguments])
    finally:
        sys.stdin = kept
    return Answer(code, _read(out), _read(err))


def done(*arguments: object, stdin: str | bytes = "") -> Answer:
    """Call a command that is to succeed."""
    answer = cli(*arguments, stdin=stdin)
    assert answer.code == 0, answer
    return answer


def built() -> None:
    """What ``taskkit db upgrade`` makes of an empty database, for tests of what comes after it."""
    build(Settings.load().sqlalchemy_url())


def refused(*arguments: object, code: int = 2, stdin: str | bytes = "") -> str:
    """Call a command that is to be refused with one line on stderr; that line."""
    answer = cli(*arguments, stdin=stdin)
    assert answer.code == code, answer
    assert answer.out == "", answer
    assert answer.err.count("\n") == 1, answer
    assert answer.err.startswith("taskkit: "), answer
    return answer.err


def _page() -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)


def _read(page: io.TextIOWrapper) -> str:
    raw = page.buffer
    assert isinstance(raw, io.BytesIO)
    return raw.getvalue().decode()


def program(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run the command line as a program to its end."""
    command = [*PROGRAM, *map(str, arguments)]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=100, **options)


class Running:
    """``taskkit up`` or another long command as a process; ``said`` is what it wrote to stderr so far."""

    def __init__(self, *arguments: object, folder: Path, **environment: str) -> None:
        self.folder = folder
        self.err, self.out = folder / "stderr.txt", folder / "stdout.txt"
        with self.err.open("wb") as err, self.out.open("wb") as out:
            self.process = subprocess.Popen(
                [*PROGRAM, *map(str, arguments)],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env={**os.environ, **environment},
                start_new_session=True,
            )
        self.seen: dict[int, psutil.Process] = {}

    @property
    def said(self) -> str:
        return self.err.read_text(errors="replace")

    def wait_for(self, words: str, seconds: float = 60) -> None:
        """Wait until these words stand on stderr."""

        def told() -> bool:
            assert self.process.poll() is None or words in self.said, self.said
            return words in self.said

        wait_until(told, seconds)
        self.note()

    def note(self) -> list[psutil.Process]:
        """All processes below this one, also those seen before."""
        with contextlib.suppress(psutil.Error):
            top = psutil.Process(self.process.pid)
            self.seen |= {p.pid: p for p in [top, *top.children(recursive=True)]}
        return list(self.seen.values())

    def role(self, name: str) -> int:
        """The process id of a role, as ``taskkit up`` printed it last."""
        lines = [line.split() for line in self.said.splitlines() if line.startswith(name)]
        return int(lines[-1][-1])

    def send(self, number: int) -> None:
        self.note()
        self.process.send_signal(number)

    def end(self, number: int = signal.SIGTERM, seconds: float = 40) -> int:
        """Send a signal and wait for the end; the exit code."""
        self.send(number)
        return self.process.wait(seconds)

    def left(self) -> list[psutil.Process]:
        """Processes of this command that still run."""
        found = []
        for process in self.seen.values():
            with contextlib.suppress(psutil.Error):
                if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found

    def clear(self) -> None:
        """Whatever a test left running ends here."""
        self.note()
        for process in self.left():
            with contextlib.suppress(psutil.Error):
                process.kill()
        self.process.wait()


@contextlib.contextmanager
def running(*arguments: object, folder: Path, **environment: str) -> Iterator[Running]:
    """A long command, killed at the end of the block if it still runs."""
    command = Running(*arguments, folder=folder, **environment)
    try:
        yield command
    finally:
        command.clear()
