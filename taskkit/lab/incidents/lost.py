"""What was lost on the way, in the order in which to look; and what was not."""

from __future__ import annotations

import contextlib
import datetime
import random
import signal

from taskkit.errors import TaskkitError
from taskkit.lab.flow import steady
from taskkit.lab.stand import Stand
from taskkit.lab.variants import Facts, variant
from taskkit.states import Status


def _eight_a_second(stand: Stand, length_s: float, rng: random.Random) -> int:
    return steady(stand, length_s, 8.0, rng, seconds=0.02)


@variant("lost", "wiped_redis", about="Redis loses everything (FLUSHALL) while tasks wait in it")
def wiped_redis(stand: Stand, rng: random.Random) -> Facts:
    stand.scheduler()
    worker = stand.worker(slots=2)
    _eight_a_second(stand, 2.0, rng)
    stand.freeze(worker)
    ids = stand.enqueue("push", 20 + rng.randrange(20), seconds=0.02)
    stand.until("they were dispatched", lambda: stand.all_in(ids, Status.DISPATCHED))
    stand.wipe()
    stand.tell("Redis was flushed")
    worker.signal(signal.SIGCONT)
    stand.until("all ran", lambda: stand.all_in(ids, Status.SUCCESS))
    return {"messages_lost": len(ids)}


@variant(
    "lost", "dead_worker", about="a worker is killed between taking and finishing", scheduler_dead_after_s=3.0
)
def dead_worker(stand: Stand, rng: random.Random) -> Facts:
    stand.scheduler()
    worker = stand.worker(slots=4)
    _eight_a_second(stand, 2.0, rng)
    ids = stand.enqueue("charge", rng.randrange(2, 5), before_s=45.0, after_s=0.0, told=False)
    stand.until("they run", lambda: stand.all_in(ids, Status.RUNNING))
    worker_id = stand.worker_id(worker)
    stand.kill(worker)
    stand.tell("the worker was killed")
    stand.worker(slots=4)
    stand.until("all ran again", lambda: stand.all_in(ids, Status.SUCCESS))
    return {"worker": worker_id, "lost": ids}


@variant("lost", "handler_not_deployed", about="producers write a code that no worker has a handler for")
def handler_not_deployed(stand: Stand, rng: random.Random) -> Facts:
    stand.scheduler()
    stand.worker("push", slots=2)
    _eight_a_second(stand, 3.0, rng)
    count = rng.randrange(3, 9)
    ids = stand.kit.producer.enqueue_many(
        [
            {"code": "settle_invoice", "payload": {"number": n}, "queue": "push", "max_retry": 0}
            for n in range(count)
        ]
    )
    stand.until("they have failed", lambda: stand.all_in(ids, Status.FAILED, Status.GIVEN_UP))
    return {"code": "settle_invoice", "tasks": ids}


@variant(
    "lost",
    "refused_enqueue",
    about="a new release of the producer enqueues what is no JSON, and swallows the error",
)
def refused_enqueue(stand: Stand, rng: random.Random) -> Facts:
    stand.scheduler()
    stand.worker(slots=2)
    written = _eight_a_second(stand, 10.0, rng)
    stand.tell("the producer's new release is out")
    refused = 0
    for _ in stand.during(9.0, 0.125):
        with contextlib.suppress(TaskkitError):
            stand.enqueue("push", 1, seconds=datetime.timedelta(seconds=0.02))
            continue
        refused += 1
    return {"written": written, "refused": refused}


@variant("lost", "healthy", about="tasks come and go, and a worker is replaced in order")
def healthy(stand: Stand, rng: random.Random) -> Facts:
    stand.scheduler()
    worker = stand.worker(slots=2)
    written = _eight_a_second(stand, 6.0, rng)
    stand.worker(slots=2)
    worker.signal(signal.SIGTERM)
    written += _eight_a_second(stand, 6.0, rng)
    return {"written": written}
