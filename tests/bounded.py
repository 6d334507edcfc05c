"""What tests of limits share: a scheduler without a process, and what runs under a limit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from taskkit.center import TaskCenter
from taskkit.limits import Limit, make_limit
from taskkit.model import Claimed
from taskkit.queues import MemoryQueue
from taskkit.scheduler.dispatcher import Dispatcher
from taskkit.scheduler.granting import STEP_S
from taskkit.settings import Scheduler
from taskkit.states import Status
from tests.centers import sql, succeeded

WORKER = "host:1:w"
MANY = 10_000
MOST_SCANS = 200


def limited(center: TaskCenter, *, queue: str | None = None, key: str | None = None, **terms: Any) -> Limit:
    """Set a limit."""
    limit = make_limit(queue=queue, key=key, **terms)
    center.limits.put(limit, "ann")
    return limit


class Bounded:
    """A scheduler and a worker, step by step, over a queue in memory."""

    def __init__(self, center: TaskCenter, queue: MemoryQueue | None = None, **settings: Any) -> None:
        self.center, self.queue = center, queue or MemoryQueue()
        self.dispatcher = Dispatcher(center, self.queue, Scheduler(**settings))
        self.desk = center.worker_desk(WORKER)

    def scan(self) -> float:
        """Scan until nothing is left to do at once; returns the seconds to rest."""
        for _ in range(MOST_SCANS):
            rest = self.dispatcher.scan()
            if rest > STEP_S:
                return rest
        raise AssertionError(f"there is still something to do after {MOST_SCANS} scans")

    def pulled(self, *queues: str) -> list[int]:
        """The ids of the messages that wait, which are claimed by nobody."""
        return [message.task_id for _, message in self.queue.pull(queues or ("q",), MANY, 0).messages]

    def start(self, *queues: str) -> list[Claimed]:
        """Claim what waits."""
        messages = [message for _, message in self.queue.pull(queues or ("q",), MANY, 0).messages]
        return self.desk.claim(messages).won

    def end(self, tasks: Sequence[Claimed]) -> None:
        assert self.desk.finish([succeeded(task) for task in tasks]) == []

    def run(self, *queues: str) -> list[int]:
        """Scan, and run what was dispatched to its end; its ids."""
        self.scan()
        tasks = self.start(*queues)
        self.end(tasks)
        return [task.id for task in tasks]


def statuses(center: TaskCenter, ids: Sequence[int]) -> str:
    """The statuses of these tasks in order, as one digit each."""
    found = center.read.statuses(ids)
    return "".join(str(int(found[i][0])) for i in ids)


def in_use(center: TaskCenter) -> int:
    """How many tasks are dispatched or running."""
    found = sql(center, "SELECT COUNT(*) FROM task_center WHERE status IN (1, 2)")
    return int(found[0][0])


def places(center: TaskCenter) -> list[tuple[int, int]]:
    """Who has a place, and in which state, by id."""
    return [tuple(row) for row in sql(center, "SELECT task_id, state FROM task_limit_place ORDER BY task_id")]


def held_for(center: TaskCenter, task_id: int) -> str | None:
    found = center.read.task(task_id)
    return found.held_reason if found.status is Status.HELD else None
