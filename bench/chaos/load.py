"""The load: a seeded mix of tasks from a steady producer, and the periodic tasks."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import Any

from bench.chaos.evidence import Periodic
from taskkit import Taskkit, TaskkitError
from taskkit.errors import CommitUnknown

QUEUES = ("mail", "report", "bulk")
PRIORITIES = (0, 3, 5, 5, 5, 9)
BEAT = 0.25
MOST = 500
OVERTIME = 60.0

MIX = {
    "fast": 44,
    "swift": 12,
    "nap": 12,
    "doze": 8,
    "rest": 6,
    "stumble": 5,
    "once": 4,
    "single": 3,
    "brood": 2,
    "crash": 1.5,
    "overrun": 1,
    "doomed": 1,
    "endless": 0.5,
    "long": 0.5,
}
"""How often each kind of task comes, in percent."""

PAYLOADS: dict[str, Callable[[random.Random], dict[str, Any]]] = {
    "nap": lambda rng: {"ms": rng.randint(50, 500)},
    "doze": lambda rng: {"ms": rng.randint(50, 500)},
    "rest": lambda rng: {"ms": rng.randint(50, 500)},
    "long": lambda rng: {"ms": rng.randint(4000, 12000)},
    "once": lambda rng: {"ms": rng.randint(0, 200)},
    "crash": lambda rng: {"how": rng.choice(("kill", "exit"))},
    "brood": lambda rng: {"children": rng.randint(1, 3)},
}

CRONS = (("* * * * * *", 1, "once", 20), ("*/2 * * * * *", 2, "once", 2500), ("*/3 * * * * *", 3, "all", 20),
         ("*/5 * * * * *", 5, "once", 300))  # fmt: skip
"""Periodic tasks: expression, its step in seconds, misfire policy, milliseconds of work; one is longer than its step."""


def one_task(rng: random.Random) -> dict[str, Any]:
    """A task of the mix as ``enqueue_many`` takes it."""
    code = rng.choices(list(MIX), list(MIX.values()))[0]
    make = PAYLOADS.get(code)
    task: dict[str, Any] = {"code": code, "payload": make(rng) if make else {}}
    task |= {"queue": rng.choice(QUEUES), "priority": rng.choice(PRIORITIES)}
    if code == "single":
        task["unique_key"] = f"key-{rng.randrange(40)}"
    return task


def begin_periodic(kit: Taskkit) -> list[Periodic]:
    """Enqueue the periodic tasks; their calendars, for the checker."""
    found = []
    for expression, step, misfire, ms in CRONS:
        task_id = kit.producer.enqueue("tick", {"ms": ms}, cron=expression, misfire=misfire)
        task = kit.center.read.task(task_id)
        assert task.plan_next_run_at is not None
        found.append(Periodic(task_id, step, int(task.plan_next_run_at.timestamp()), misfire))
    return found


class Load:
    """A thread that enqueues ``total`` tasks over ``seconds``; what raised is not accepted and is made up for."""

    def __init__(self, kit: Taskkit, total: int, seconds: float, seed: int) -> None:
        self.kit, self.total, self.seconds = kit, total, seconds
        self.accepted: list[int] = []
        self.refused = self.unknown = 0
        self._rng = random.Random(seed)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)

    def start(self) -> None:
        """Begin to enqueue."""
        self._thread.start()

    def finish(self) -> None:
        """Wait until all have been accepted, at most some time over the plan; then end."""
        self._thread.join(OVERTIME)
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        began = time.monotonic()
        while not self._over.is_set() and len(self.accepted) < self.total:
            share = min(1.0, (time.monotonic() - began) / self.seconds)
            missing = int(self.total * share) - len(self.accepted)
            if missing > 0:
                self._enqueue(min(missing, MOST))
            self._over.wait(BEAT)

    def _enqueue(self, count: int) -> None:
        tasks = [one_task(self._rng) for _ in range(count)]
        try:
            self.accepted += self._write(tasks)
        except CommitUnknown:
            self.unknown += count
        except TaskkitError:
            self.refused += count

    def _write(self, tasks: list[dict[str, Any]]) -> list[int]:
        if len(tasks) > 1:
            return self.kit.producer.enqueue_many(tasks)
        options = dict(tasks[0])
        return [self.kit.producer.enqueue(options.pop("code"), options.pop("payload"), **options)]
