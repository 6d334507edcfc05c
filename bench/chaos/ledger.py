"""The ledger of effects: one line per event, appended by a single write, so that a kill leaves a start without an end."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

BIRTH, START, END, CRASH, CHILD = "B", "S", "E", "K", "A"
FIELDS = 9
NONE = "-"


@dataclass(frozen=True, slots=True)
class Entry:
    """One event: a child was born, an effect began or ended, a child is about to kill itself, a task was enqueued.

    ``mono`` and ``real`` are seconds of the two clocks; ``extra`` is how an effect ended, the planned instant of the
    occurrence that it began for, or the id of the task that was enqueued.
    """

    kind: str
    mono: float
    real: float
    pid: int
    worker: str
    task: int
    attempt: int
    code: str
    extra: str


class Pen:
    """Appends to a ledger. The descriptor may be shared with forks: each line is one write in append mode."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def write(
        self, kind: str, worker: str, task: int = 0, attempt: int = 0, code: str = NONE, extra: str = NONE
    ) -> None:
        """Write one event, now."""
        clocks = f"{time.monotonic_ns()} {time.time_ns()}"
        line = f"{kind} {clocks} {os.getpid()} {worker} {task} {attempt} {code} {extra}\n"
        os.write(self._descriptor, line.encode())


def parse(line: str) -> Entry | None:
    """The event on a line; None for one that was torn."""
    words = line.split(" ")
    if len(words) != FIELDS:
        return None
    kind, mono, real, pid, worker, task, attempt, code, extra = words
    try:
        return Entry(
            kind, int(mono) / 1e9, int(real) / 1e9, int(pid), worker, int(task), int(attempt), code, extra
        )
    except ValueError:
        return None


def read(path: Path) -> Iterator[Entry | None]:
    """All events of a ledger, in the order of their writes; None for each torn line."""
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            yield parse(line.rstrip("\n")) if line.endswith("\n") else None
