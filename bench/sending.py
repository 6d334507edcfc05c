"""A steady load of numbered tasks, and a byte for each number that says how often it was met."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

from taskkit import Taskkit, TaskkitError
from taskkit.errors import CommitUnknown

QUEUE = "mark"
TASK = {"code": QUEUE, "timeout": 30, "max_retry": 12, "retry_delays": [0.2, 1.0, 2.0]}
"""What an adversary may hit again and again is meant to succeed all the same."""
BEAT, MOST = 0.05, 1000


def send(kit: Taskkit, numbers: range) -> None:
    """Enqueue tasks with these numbers, in one call."""
    now = time.time()
    kit.producer.enqueue_many([TASK | {"payload": {"number": n, "sent": now}} for n in numbers])


class Numbers:
    """How often each number of a long run was met, a byte each."""

    def __init__(self) -> None:
        self.times, self.met = bytearray(), 0

    def meet(self, number: int) -> None:
        """Once more."""
        if number >= len(self.times):
            self.times.extend(bytes(number + MOST - len(self.times)))
        self.met += self.times[number] == 0
        self.times[number] = min(255, self.times[number] + 1)

    def __getitem__(self, number: int) -> int:
        return self.times[number] if number < len(self.times) else 0

    def all(self) -> Iterator[int]:
        """Those that were met."""
        return (number for number, times in enumerate(self.times) if times)


class Sender:
    """A thread that enqueues at a steady rate; what an outage delayed is made up for afterwards."""

    def __init__(self, kit: Taskkit, rate: float, first: int) -> None:
        self.kit, self.rate, self.number = kit, rate, first
        self.accepted = Numbers()
        self.refused = self.unknown = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sender", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def finish(self) -> None:
        """Enqueue no more."""
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        began = time.monotonic()
        while not self._over.wait(BEAT):
            missing = int(self.rate * (time.monotonic() - began)) - self.accepted.met - self.unknown
            if missing > 0:
                self._send(min(missing, MOST))

    def _send(self, count: int) -> None:
        numbers = range(self.number, self.number + count)
        self.number += count
        try:
            send(self.kit, numbers)
        except CommitUnknown:
            self.unknown += count
        except TaskkitError:
            self.refused += count
        else:
            for number in numbers:
                self.accepted.meet(number)
