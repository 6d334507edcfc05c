"""Two effects of one wish, each cause of them; and what is late, but not twice."""

from __future__ import annotations

import contextlib
import random
import signal
import threading
from collections.abc import Sequence

from taskkit.center.lab import report_transaction
from taskkit.lab.stand import Stand
from taskkit.lab.variants import Facts, variant
from taskkit.states import Status
from taskkit.supervising import Role

MANY = 6
DEAD_S = 3.0


def _twice(stand: Stand, ids: Sequence[int]) -> Facts:
    """What the lab's own file says of the effects."""
    found = stand.effects()
    counts = {task_id: found.get(task_id, 0) for task_id in ids}
    return {"effects": counts, "twice": sorted(i for i, n in counts.items() if n > 1)}


def _well(stand: Stand, rng: random.Random) -> None:
    """A few tasks that run as they should, so that there is a normal."""
    ids = stand.enqueue("push", 20 + rng.randrange(10), seconds=0.02)
    stand.until("the first tasks are done", lambda: stand.all_in(ids, Status.SUCCESS))


def _killed_during(stand: Stand, ids: Sequence[int], worker: Role, ready: str, when: object) -> Facts:
    stand.until(ready, when)  # type: ignore[arg-type]
    stand.kill(worker)
    stand.tell("the worker was killed (SIGKILL)")
    stand.worker(slots=MANY)
    stand.until("all ran again", lambda: stand.all_in(list(ids), Status.SUCCESS))
    return _twice(stand, ids)


@variant("duplicates", "killed_after_effect", about="SIGKILL between the effect, which the handler told of, and the write-back",
         scheduler_dead_after_s=DEAD_S)  # fmt: skip
def killed_after_effect(stand: Stand, rng: random.Random) -> Facts:
    stand.scheduler()
    worker = stand.worker(slots=MANY)
    _well(stand, rng)
    ids = stand.enqueue("charge", rng.randrange(3, MANY + 1), before_s=0.2, after_s=45.0, told=True)

    def told() -> bool:
        return all(task.progress is not None for task in stand.center.read.tasks(ids))

    return _killed_during(stand, ids, worker, "all have charged and said so", told)


@variant("duplicates", "may_be_twice", about="SIGKILL after an effect that the handler told nobody of",
         scheduler_dead_after_s=DEAD_S)  # fmt: skip
def killed_after_silent_effect(stand: Stand, rng: random.Random) -> Facts:
    stand.scheduler()
    worker = stand.worker(slots=MANY)
    _well(stand, rng)
    ids = stand.enqueue("charge", rng.randrange(3, MANY + 1), before_s=0.2, after_s=45.0, told=False)
    return _killed_during(stand, ids, worker, "all have charged", lambda: set(ids) <= set(stand.effects()))


@variant("duplicates", "may_be_twice", about="SIGKILL while the handlers ran, before any effect: nobody but they can know",
         scheduler_dead_after_s=DEAD_S)  # fmt: skip
def killed_before_effect(stand: Stand, rng: random.Random) -> Facts:
    stand.scheduler()
    worker = stand.worker(slots=MANY)
    _well(stand, rng)
    ids = stand.enqueue("charge", rng.randrange(3, MANY + 1), before_s=45.0, after_s=0.0, told=True)
    return _killed_during(stand, ids, worker, "all run", lambda: stand.all_in(ids, Status.RUNNING))


@variant("duplicates", "late_not_twice", about="SIGKILL after the message was taken, before its task was claimed",
         scheduler_dead_after_s=DEAD_S)  # fmt: skip
def killed_before_claim(stand: Stand, rng: random.Random) -> Facts:
    stand.scheduler()
    worker = stand.worker(slots=MANY)
    _well(stand, rng)
    worker_gone = _taken_and_killed(stand, worker, rng)
    stand.worker(slots=MANY)
    stand.until("all ran", lambda: stand.all_in(worker_gone, Status.SUCCESS))
    return _twice(stand, worker_gone)


def _taken_and_killed(stand: Stand, worker: Role, rng: random.Random) -> list[int]:
    """Stop the worker, have its messages wait for it, and let it take them while a transaction keeps it from the claim."""
    stand.freeze(worker)
    ids = stand.enqueue("push", rng.randrange(3, MANY + 1), seconds=0.1)
    stand.until("they were dispatched", lambda: stand.all_in(ids, Status.DISPATCHED))
    with report_transaction(stand.center.database):
        worker.signal(signal.SIGCONT)
        stand.until("the worker has taken messages", lambda: stand.queued("push") < len(ids))
        stand.kill(worker)
    stand.tell("the worker was killed (SIGKILL) with messages in its hands")
    return ids


@variant("duplicates", "late_not_twice", about="Redis was flushed while tasks waited in it")
def flushed_while_waiting(stand: Stand, rng: random.Random) -> Facts:
    stand.scheduler()
    worker = stand.worker(slots=2)
    _well(stand, rng)
    stand.freeze(worker)
    ids = stand.enqueue("push", 10 + rng.randrange(10), seconds=0.02)
    stand.until("they were dispatched", lambda: stand.all_in(ids, Status.DISPATCHED))
    stand.wipe()
    stand.tell("Redis was flushed")
    worker.signal(signal.SIGCONT)
    stand.until("all ran", lambda: stand.all_in(ids, Status.SUCCESS))
    return _twice(stand, ids)


@variant("duplicates", "declared_dead_alive", about="a worker is stopped (SIGSTOP) beyond the dead limit, and then goes on",
         scheduler_dead_after_s=DEAD_S)  # fmt: skip
def declared_dead_alive(stand: Stand, rng: random.Random) -> Facts:
    stand.scheduler()
    frozen = stand.worker(slots=MANY)
    stand.worker(slots=1)
    _well(stand, rng)
    ids = stand.enqueue("charge", rng.randrange(3, MANY), before_s=0.0, after_s=6.0, told=False)
    stand.until("all have charged", lambda: set(ids) <= set(stand.effects()))
    stand.freeze(frozen)
    stand.tell("a worker was stopped (SIGSTOP)")
    stand.until("some ran again", lambda: any(n > 1 for n in stand.effects().values()))
    frozen.signal(signal.SIGCONT)
    stand.until("all are done", lambda: stand.all_in(ids, Status.SUCCESS))
    twice = {i for i, n in stand.effects().items() if n > 1}
    stand.until("the late ends came", lambda: any(
        run.outcome.value == "superseded" for run in stand.center.read.runs(sorted(twice))))  # fmt: skip
    return _twice(stand, ids)


@variant(
    "duplicates", "enqueued_twice", about="two producers look, see nothing, and both enqueue the same wish"
)
def enqueued_twice(stand: Stand, rng: random.Random) -> Facts:
    stand.scheduler()
    stand.worker(slots=2)
    _well(stand, rng)
    users = [1_000 + n for n in range(rng.randrange(4, 9))]
    ids: list[int] = []
    for user in users:
        ids += _race(stand, user)
    stand.until("all ran", lambda: stand.all_in(ids, Status.SUCCESS))
    return {"users": users, "tasks": ids, **_twice(stand, ids)}


def _race(stand: Stand, user: int) -> list[int]:
    """Both look whether the user has a task, wait for each other as chance would have it, and write."""
    both = threading.Barrier(2)
    sent: set[int] = set()
    found: list[int] = []

    def produce() -> None:
        seen = user in sent
        with contextlib.suppress(threading.BrokenBarrierError):
            both.wait(10)
        if not seen:
            sent.add(user)
            found.append(stand.kit.producer.enqueue("push", {"number": user, "seconds": 0.02}))

    threads = [threading.Thread(target=produce) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


@variant(
    "duplicates",
    "retried_without_idempotency",
    about="the handler sends, meets an error, and is retried: it sends again",
)
def retried_without_idempotency(stand: Stand, rng: random.Random) -> Facts:
    stand.scheduler()
    stand.worker(slots=2)
    _well(stand, rng)
    ids = stand.enqueue("send_then_fail", rng.randrange(4, 9))
    stand.until("all were sent again", lambda: stand.all_in(ids, Status.SUCCESS))
    return _twice(stand, ids)


@variant("duplicates", "healthy", about="a batch runs, each task once")
def each_once(stand: Stand, rng: random.Random) -> Facts:
    stand.scheduler()
    stand.worker(slots=2)
    ids = stand.enqueue("push", 60 + rng.randrange(60), seconds=0.02)
    stand.until("all are done", lambda: stand.all_in(ids, Status.SUCCESS))
    return _twice(stand, ids)
