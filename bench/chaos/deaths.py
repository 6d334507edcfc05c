"""Watches for the deaths of workers' children, by the kernel's own word, so that an effect's end is known to the millisecond."""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
from pathlib import Path

from bench.chaos import ledger
from bench.chaos.evidence import Death

LOOK_MS = 20


class Deaths:
    """Follows the ledger: each child that is born there is watched by its descriptor until it ends."""

    def __init__(self, path: Path) -> None:
        self.found: list[Death] = []
        self._path, self._offset, self._rest = path, 0, b""
        self._watched: dict[int, int] = {}
        self._poll = select.poll()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="deaths", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def stop(self) -> None:
        """Look a last time and end."""
        self._over.set()
        self._thread.join()
        for descriptor in self._watched:
            os.close(descriptor)

    @property
    def watched(self) -> int:
        """How many children are alive."""
        return len(self._watched)

    def _run(self) -> None:
        while not self._over.is_set():
            self._turn()
        self._turn()

    def _turn(self) -> None:
        self._read_births()
        for descriptor, _ in self._poll.poll(LOOK_MS):
            self.found.append(Death(self._watched.pop(descriptor), time.monotonic()))
            self._poll.unregister(descriptor)
            os.close(descriptor)

    def _read_births(self) -> None:
        with contextlib.suppress(FileNotFoundError), self._path.open("rb") as file:
            file.seek(self._offset)
            data = file.read()
            self._offset += len(data)
            *lines, self._rest = (self._rest + data).split(b"\n")
            for line in lines:
                if line.startswith(b"B "):
                    entry = ledger.parse(line.decode())
                    if entry is not None:
                        self._watch(entry.pid)

    def _watch(self, pid: int) -> None:
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            self.found.append(Death(pid, time.monotonic(), exact=False))
            return
        self._watched[descriptor] = pid
        self._poll.register(descriptor, select.POLLIN)
