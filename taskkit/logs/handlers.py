"""Where log lines go: a stream, or dated files of bounded size. A line that cannot be written never raises."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import sys
import time
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TextIO

from taskkit.logs.lines import safe_repr

PART_BYTES = 100 * 1024 * 1024
"""A dated file that would grow beyond this is followed by its next part."""
COMPLAINT_EVERY_S = 60.0


class LineHandler(logging.Handler):
    """A handler of taskkit's: when it cannot write it says so on stderr, once a minute, and goes on."""

    on_terminal = False
    complained_at = -COMPLAINT_EVERY_S

    def put(self, line: str) -> None:
        raise NotImplementedError

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self.put(self.format(record))
        except Exception as problem:  # noqa: BLE001 - a log call never raises
            self.complain(problem)

    def complain(self, problem: Exception) -> None:
        now = time.monotonic()
        if now - self.complained_at >= COMPLAINT_EVERY_S:
            self.complained_at = now
            with contextlib.suppress(Exception):
                sys.stderr.write(f"taskkit: log lines are being lost: {safe_repr(problem)}\n")


class StreamHandler(LineHandler):
    """Lines to a stream, flushed one by one."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self.stream = stream
        self.on_terminal = stream.isatty()

    def put(self, line: str) -> None:
        try:
            self.stream.write(line + "\n")
        except UnicodeEncodeError:
            self.stream.write(line.encode("ascii", "backslashreplace").decode() + "\n")
        self.stream.flush()


class DatedFiles(LineHandler):
    """``<role>-2026-03-01.log``, then ``<role>-2026-03-01.2.log`` …; any number of processes may share them."""

    def __init__(self, folder: Path, role: str, *, days: int, part_bytes: int = PART_BYTES) -> None:
        super().__init__()
        self.folder = folder
        self.role = re.sub(r"[^\w.-]", "_", role)
        self.days = days
        self.part_bytes = part_bytes
        self.day: date | None = None
        self.part = 1
        self.file = -1
        folder.mkdir(parents=True, exist_ok=True)
        self.open(utc_day())

    def put(self, line: str) -> None:
        data = line.encode("utf-8", "backslashreplace") + b"\n"
        today = utc_day()
        if self.day != today or self.file < 0 or self._is_over(len(data)):
            self.open(today, len(data))
        while data:
            data = data[os.write(self.file, data) :]

    def _is_over(self, more: int) -> bool:
        """Whether the open part has no room for ``more`` bytes, or was removed from its folder."""
        state = os.fstat(self.file)
        return not state.st_nlink or self._no_room(state.st_size, more)

    def _no_room(self, size: int, more: int) -> bool:
        return size > 0 and size + more > self.part_bytes

    def open(self, today: date, more: int = 0) -> None:
        """Open the first part of this day that has room, and remove the files of days gone by."""
        self.shut()
        self.part = 1 if today != self.day else self.part
        while self._full(self.path(today), more):
            self.part += 1
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        self.file = os.open(self.path(today), flags, 0o640)
        self.day = today
        self.prune(today)

    def path(self, day: date) -> Path:
        part = f".{self.part}" if self.part > 1 else ""
        return self.folder / f"{self.role}-{day.isoformat()}{part}.log"

    def _full(self, path: Path, more: int) -> bool:
        try:
            return self._no_room(path.stat().st_size, more)
        except FileNotFoundError:
            return False

    def prune(self, today: date) -> None:
        """Remove this role's files that are older than ``days`` days."""
        oldest = (today - timedelta(days=self.days - 1)).isoformat()
        name = re.compile(re.escape(self.role) + r"-(\d{4}-\d\d-\d\d)(\.\d+)?\.log")
        for path in self.folder.iterdir():
            found = name.fullmatch(path.name)
            if found and found[1] < oldest:
                with contextlib.suppress(OSError):
                    path.unlink()

    def shut(self) -> None:
        if self.file >= 0:
            os.close(self.file)
            self.file = -1

    def close(self) -> None:
        with self.lock or contextlib.nullcontext():
            self.shut()
        super().close()


def utc_day() -> date:
    """Today in UTC, by which files are named."""
    return datetime.now(UTC).date()
