"""Backlogs: the midnight release, too few workers, a handler that became slow, and what only looks like them."""

from __future__ import annotations

import random

from taskkit.lab import handlers
from taskkit.lab.flow import steady
from taskkit.lab.stand import Stand
from taskkit.lab.variants import Facts, variant
from taskkit.render import counted
from taskkit.states import Status

SLOTS = 5
RELEASED = 2000
SERVICE_S = 0.3
SEEN_S = 9.0
"""So long a backlog is watched, at least: the recent part of a window is five seconds of it."""


def _started(stand: Stand, slots: int, queues: str = "") -> None:
    stand.tell("starting a scheduler and a worker")
    stand.scheduler()
    stand.worker(queues, slots)


def _capacity(slots: int, service_s: float) -> float:
    return round(slots / service_s, 2)


@variant(
    "backlog",
    "burst",
    about="a midnight release against five slots of 300 ms, a hundredth of the reported 200,000",
)
def midnight_release(stand: Stand, rng: random.Random) -> Facts:
    _started(stand, SLOTS)
    count = RELEASED + rng.randrange(200)
    stand.enqueue("push", count, seconds=SERVICE_S)
    stand.tell(f"{counted(count, 'task')} released at once")
    for passed in stand.during(SEEN_S, 1.0):
        stand.tell(f"{passed:.0f} s: {stand.center.read.counts().get(Status.SUCCESS, 0)} done")
    rate = _capacity(SLOTS, SERVICE_S)
    return {"released": count, "slots": SLOTS, "service_s": SERVICE_S, "capacity_per_s": rate,
            "drain_s": round(count / rate), "drain_fifty_s": round(count / (50 / SERVICE_S * 0.9)), "binding": "workers"}  # fmt: skip


@variant("backlog", "too_few_workers", about="more arrives, steadily, than two slots can do")
def too_few_workers(stand: Stand, rng: random.Random) -> Facts:
    _started(stand, 2)
    written = steady(stand, 16.0, 30.0 + rng.uniform(-2, 2), rng, "push", seconds=0.2)
    return {"written": written, "slots": 2, "capacity_per_s": _capacity(2, 0.2), "binding": "workers"}


@variant(
    "backlog", "slow_handler", about="a handler that updates rows one by one becomes ten times slower midway"
)
def slow_handler(stand: Stand, rng: random.Random) -> Facts:
    pace = stand.folder / handlers.PACE
    pace.write_text("0.05", encoding="ascii")
    _started(stand, 4)
    per_s = 16.0 + rng.uniform(-1, 1)
    before = steady(stand, 10.0, per_s, rng, "sync_rows")
    pace.write_text("0.6", encoding="ascii")
    slow_from = stand.center.now()
    stand.tell("the handler has become slow")
    after = steady(stand, 14.0, per_s * 1.6, rng, "sync_rows")
    return {"written": before + after, "slots": 4, "fast_s": 0.05, "slow_s": 0.6, "slow_since": slow_from}


@variant("backlog", "retries", about="the partner is down: every task fails, and its retries fill the queue")
def failing_tasks(stand: Stand, rng: random.Random) -> Facts:
    _started(stand, 2)
    written = steady(stand, 16.0, 40.0 + rng.uniform(-3, 3), rng, "ask_partner")
    return {"written": written, "slots": 2}


@variant(
    "backlog", "unserved_queue", about="tasks go into a queue that no worker serves; the others are well"
)
def unserved_queue(stand: Stand, rng: random.Random) -> Facts:
    _started(stand, 2, "push")
    lonely = stand.enqueue("push", 40 + rng.randrange(20), queue="reports", seconds=0.1)
    steady(stand, 10.0, 5.0, rng, "push", seconds=0.05)
    return {"queue": "reports", "waiting": len(lonely)}


@variant("backlog", "no_workers", about="the only worker was killed, and nobody has started another")
def no_workers(stand: Stand, rng: random.Random) -> Facts:
    stand.scheduler()
    worker = stand.worker(slots=2)
    stand.enqueue("push", 100 + rng.randrange(50), seconds=0.2)
    for _ in stand.during(2.0, 0.5):
        pass
    stand.kill(worker)
    stand.tell("the worker was killed")
    steady(stand, 10.0, 5.0, rng, "push", seconds=0.2)
    return {"waiting": stand.center.read.counts().get(Status.DISPATCHED, 0)}


@variant(
    "backlog",
    "scheduler",
    about="the scheduler is killed: tasks are due in SQL, and the workers idle",
    short_way=False,
)
def scheduler_killed(stand: Stand, rng: random.Random) -> Facts:
    scheduler = stand.scheduler()
    stand.worker(slots=2)
    steady(stand, 4.0, 5.0, rng, "push", seconds=0.05)
    stand.kill(scheduler)
    stand.tell("the scheduler was killed")
    written = steady(stand, 14.0, 5.0, rng, "push", seconds=0.05)
    return {"due": written}


@variant("backlog", "limit", about="a limit of one at a time holds a queue whose workers are free")
def limit(stand: Stand, rng: random.Random) -> Facts:
    _started(stand, 4)
    stand.kit.operations.set_limit(queue="push", concurrency=1)
    count = 120 + rng.randrange(40)
    stand.enqueue("push", count, seconds=0.2)
    for _ in stand.during(14.0, 1.0):
        pass
    return {"released": count, "concurrency": 1}


@variant(
    "backlog", "healthy", about="four slots at two thirds of what they can do: busy, and nothing is wrong"
)
def busy_but_healthy(stand: Stand, rng: random.Random) -> Facts:
    _started(stand, 4)
    written = steady(stand, 14.0, 10.0 + rng.uniform(-1, 1), rng, "push", seconds=0.2)
    return {"written": written, "slots": 4, "capacity_per_s": _capacity(4, 0.2)}
