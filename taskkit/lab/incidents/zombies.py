"""Workers that live and make no progress: stuck, spinning, waiting for a row; and those that are dead or merely busy."""

from __future__ import annotations

import contextlib
import fcntl
import random

from taskkit.center.lab import report_transaction
from taskkit.lab import handlers
from taskkit.lab.stand import Stand
from taskkit.lab.variants import Facts, variant
from taskkit.states import Status

STILL_S = 15.0
"""Longer than a diagnosis waits at the lab's pace: a minute, five times as fast."""
SLOTS = 2


def _begun(stand: Stand, rng: random.Random) -> str:
    """A scheduler and a worker that has worked; returns the worker's id."""
    stand.scheduler()
    worker = stand.worker(slots=SLOTS)
    ids = stand.enqueue("push", 10 + rng.randrange(10), seconds=0.02)
    stand.until("the first tasks are done", lambda: stand.all_in(ids, Status.SUCCESS))
    return stand.worker_id(worker)


def _usual(stand: Stand, code: str, rng: random.Random) -> None:
    """How long a code takes while nothing is wrong, so that there is something to compare with."""
    ids = stand.enqueue(code, 6 + rng.randrange(6))
    stand.until(f"{code} has run as usual", lambda: stand.all_in(ids, Status.SUCCESS))


def _still(stand: Stand) -> None:
    for passed in stand.during(STILL_S, 3.0):
        stand.tell(f"{passed:.0f} s without progress")


@variant(
    "zombies",
    "stuck",
    about="somebody takes a lock and keeps it: every handler waits for it, with CPU near zero",
)
def stuck_handlers(stand: Stand, rng: random.Random) -> Facts:
    worker_id = _begun(stand, rng)
    lock = (stand.folder / handlers.LOCK).open("wb")
    _usual(stand, "locked", rng)
    fcntl.flock(lock, fcntl.LOCK_EX)
    stand.after.append(lock.close)
    ids = stand.enqueue("locked", SLOTS)
    waiting = stand.enqueue("push", 20 + rng.randrange(20), seconds=0.02)
    stand.until("the handlers wait", lambda: stand.all_in(ids, Status.RUNNING))
    _still(stand)
    return {"worker": worker_id, "waiting": len(waiting), "holder": "a lock of a file"}


@variant("zombies", "spinning", about="every handler is in a loop at full CPU that does not end")
def spinning_handlers(stand: Stand, rng: random.Random) -> Facts:
    worker_id = _begun(stand, rng)
    _usual(stand, "spin", rng)
    (stand.folder / handlers.LOCK).touch()
    stand.after.append((stand.folder / handlers.LOCK).unlink)
    ids = stand.enqueue("spin", SLOTS)
    waiting = stand.enqueue("push", 20 + rng.randrange(20), seconds=0.02)
    stand.until("the handlers spin", lambda: stand.all_in(ids, Status.RUNNING))
    _still(stand)
    return {"worker": worker_id, "waiting": len(waiting)}


@variant(
    "zombies",
    "dead",
    about="the worker was killed (SIGKILL); only its row is left",
    scheduler_dead_after_s=3.0,
)
def dead_worker(stand: Stand, rng: random.Random) -> Facts:
    worker_id = _begun(stand, rng)
    stand.kill(stand.roles[-1])
    stand.tell("the worker was killed")
    waiting = stand.enqueue("push", 20 + rng.randrange(20), seconds=0.02)
    for _ in stand.during(6.0, 1.0):
        pass
    return {"worker": worker_id, "waiting": len(waiting)}


@variant(
    "zombies",
    "sql_row_lock",
    about="a report transaction holds the rows that every worker wants to write",
    servers_only=True,
)
def report_holds_rows(stand: Stand, rng: random.Random) -> Facts:
    worker_id = _begun(stand, rng)
    stand.enqueue("push", 40 + rng.randrange(20), seconds=0.5)
    stand.until("they run", lambda: bool(stand.center.read.counts().get(Status.RUNNING)))
    held = contextlib.ExitStack()
    apart = stand.center.apart(1, read_timeout=120)
    held.callback(apart.close)
    thread = held.enter_context(report_transaction(apart.database))
    stand.after.append(held.close)
    stand.tell(f"connection {thread} holds every row")
    _still(stand)
    return {"worker": worker_id, "holder": thread}


@variant("zombies", "busy", "healthy", about="long reports run while others wait: busy, and nothing is wrong")
def busy_but_healthy(stand: Stand, rng: random.Random) -> Facts:
    worker_id = _begun(stand, rng)
    stand.enqueue("report", SLOTS, seconds=60.0)
    waiting = stand.enqueue("push", 10 + rng.randrange(10), seconds=0.02)
    _still(stand)
    return {"worker": worker_id, "waiting": len(waiting)}


@variant("zombies", "healthy", about="nothing to do, for longer than a zombie would need to be seen")
def idle(stand: Stand, rng: random.Random) -> Facts:
    worker_id = _begun(stand, rng)
    _still(stand)
    return {"worker": worker_id}
