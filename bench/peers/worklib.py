"""The work that every measured system does, how it is recorded, and how the records are read.

A task appends one fixed-size record to the file named by BENCH_RECORDS with a
single ``write`` on an O_APPEND descriptor: about a microsecond, no network, no
lock, right across forks and threads, and it survives ``kill -9``.  From these
records come throughput (first to last start), latency, lost tasks and tasks
that ran twice, in the same way for every system.
"""

from __future__ import annotations

import os
import struct
import time
from pathlib import Path

RECORD = struct.Struct("<cxxxIqdd")  # kind, pid, task id, enqueued at, now
_fd: int | None = None


def record(kind: bytes, task_id: int, enqueued_at: float) -> None:
    """Append one record."""
    global _fd
    if _fd is None:
        _fd = os.open(os.environ["BENCH_RECORDS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(_fd, RECORD.pack(kind, os.getpid(), task_id, enqueued_at, time.time()))


def noop(task_id: int, enqueued_at: float) -> None:
    """The no-op task: only says that it started."""
    record(b"s", task_id, enqueued_at)


def nap(task_id: int, enqueued_at: float) -> None:
    """The crash-test task: says that it started, sleeps 2 s, says that it ended."""
    record(b"s", task_id, enqueued_at)
    time.sleep(2)
    record(b"e", task_id, enqueued_at)


async def nap_async(task_id: int, enqueued_at: float) -> None:
    """The crash-test task for asyncio systems."""
    import asyncio

    record(b"s", task_id, enqueued_at)
    await asyncio.sleep(2)
    record(b"e", task_id, enqueued_at)


class Records:
    """The file of records, as a reader sees it: ``(kind, pid, task id, enqueued at, time)`` each."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read = 0

    def clear(self) -> None:
        """An empty file, in a folder that exists."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_bytes(b"")
        self._read = 0

    def count(self) -> int:
        """How many there are so far."""
        return self.path.stat().st_size // RECORD.size

    def all(self) -> list[tuple]:
        """All of them."""
        return self._from(0)

    def news(self) -> list[tuple]:
        """Those that came since the last call."""
        found = self._from(self._read)
        self._read += len(found)
        return found

    def _from(self, number: int) -> list[tuple]:
        with self.path.open("rb") as file:
            file.seek(number * RECORD.size)
            data = file.read()
        return list(RECORD.iter_unpack(data[: len(data) // RECORD.size * RECORD.size]))
