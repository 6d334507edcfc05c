"""What tests of the task center share: a clock that moves, tasks in any status, raw SQL, nodes in threads."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import sqlalchemy as sa
from msgspec.structs import replace
from sqlalchemy import event

from taskkit.center import Batch, PlanRules, TaskCenter
from taskkit.center.dialect import epoch
from taskkit.model import Claimed, Finish, Message, NewTask, Occurrence, Task
from taskkit.states import Move, Outcome, Status, TaskType

T = TypeVar("T")
QUEUE = "q"


class Clock:
    """A database clock that a test moves; it stands still in between."""

    def __init__(self, at: datetime) -> None:
        self.at = at

    def __call__(self) -> datetime:
        return self.at

    def move(self, **by: float) -> datetime:
        self.at += timedelta(**by)
        return self.at


def on_clock(url: str, clock: Clock, **rules: Any) -> TaskCenter:
    """A task center whose database, of either kind, believes in ``clock``."""
    center = TaskCenter(url, clock=clock, rules=PlanRules(**rules))
    if not center.database.sqlite:

        def tell(raw: Any, _record: Any, _proxy: Any) -> None:
            with raw.cursor() as cursor:
                cursor.execute("SET timestamp = %s", (epoch(clock.at),))

        event.listen(center.database.engine, "checkout", tell)
    return center


def instant(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[arg-type, misc]


NOON = instant(2026, 6, 1, 12)


def new(code: str = "mail", **fields: Any) -> NewTask:
    """A task that is due now."""
    return NewTask(**({"task_code": code, "payload": "{}", "queue": QUEUE} | fields))


def periodic(now: datetime, cron: str = "* * * * *", zone: str = "UTC", **fields: Any) -> NewTask:
    """A periodic task as the producer would write it at ``now``."""
    from taskkit.cron import parse

    schedule = parse(cron, zone)
    at = schedule.next(now)
    fixed = {"task_type": TaskType.PERIODIC, "cron_expr": cron, "timezone": zone}
    return new(**(fixed | {"plan_next_run_at": at, "next_fire_at": schedule.next(at)} | fields))


def sql(center: TaskCenter, statement: str, **values: Any) -> list[Any]:
    """Run a statement of a person's; the rows it gave. A connection that others have cut meanwhile is replaced."""
    center.database.read(lambda c: c.exec_driver_sql("SELECT 1").all())
    text = sa.text(center.database.dialect.render(statement))
    with center.database.engine.connect() as connection, connection.begin():
        result = connection.execute(text, values)
        return list(result.all()) if result.returns_rows else []


def plain_insert(center: TaskCenter, **values: Any) -> int:
    """What a producer in another language does; the id."""
    names = ", ".join(values)
    marks = ", ".join(f":{name}" for name in values)
    text = sa.text(f"INSERT INTO task_center ({names}) VALUES ({marks})")
    with center.database.engine.connect() as connection, connection.begin():
        return int(connection.execute(text, values).lastrowid)


def columns(center: TaskCenter, task_id: int, names: str) -> tuple[Any, ...]:
    return tuple(sql(center, f"SELECT {names} FROM task_center WHERE id = :id", id=task_id)[0])


def task(center: TaskCenter, task_id: int) -> Task:
    return center.read.task(task_id)


def dispatch(center: TaskCenter, queue: str = QUEUE, priority: int = 5, n: int = 1000) -> Batch:
    """One scan of one list: its due rows, claimed."""
    return center.dispatch.claim(center.dispatch.candidates(queue, priority, n))


def messages(batch: Batch) -> list[Message]:
    return [Message(won.id, won.task_code, won.attempt) for won in batch.won]


def start(center: TaskCenter, worker: str, *tasks: NewTask) -> list[Claimed]:
    """Write tasks, dispatch and claim them: each stands in status 2."""
    ids = center.intake.insert(tasks or [new()])
    batch = center.dispatch.claim(ids)
    assert sorted(won.id for won in batch.won) == sorted(ids), batch
    return center.worker_desk(worker).claim(messages(batch)).won


def succeeded(claimed: Claimed, **fields: Any) -> Finish:
    move = Move.NEXT_OCCURRENCE if claimed.task_type == TaskType.PERIODIC else Move.SUCCEED
    return Finish(claimed, Outcome.SUCCESS, move, claimed.retry_count, **fields)


def failed(claimed: Claimed, **fields: Any) -> Finish:
    fixed = {"delay": 5.0, "error": "ValueError: no"}
    return Finish(claimed, Outcome.FAILED, Move.FAIL, claimed.retry_count + 1, **(fixed | fields))


def in_status(center: TaskCenter, status: Status, **fields: Any) -> int:
    """A task that came to ``status`` by the moves that lead there; its id."""
    asked = new(**fields)
    if status in {Status.PENDING, Status.CANCELLED, Status.HELD, Status.DISPATCHED}:
        (task_id,) = center.intake.insert([asked])
        if status is Status.CANCELLED:
            center.people.cancel(task_id, "somebody")
        if status is Status.HELD:
            center.people.pause(task_id, "somebody")
        if status is Status.DISPATCHED:
            assert center.dispatch.claim([task_id]).won
        return task_id
    (claimed,) = start(center, "host:1:in-status", asked)
    ends = {
        Status.SUCCESS: succeeded(claimed),
        Status.FAILED: failed(claimed),
        Status.GIVEN_UP: replace(failed(claimed), move=Move.EXHAUST, retry_count=0),
    }
    if status in ends:
        assert center.worker_desk("host:1:in-status").finish([ends[status]]) == []
    return claimed.id


def occurrences(center: TaskCenter, task_id: int, state: str) -> list[Occurrence]:
    """Those in this state, oldest first."""
    found = center.read.occurrences(task_id, 5000)
    return sorted((o for o in found if o.state == state), key=lambda o: o.planned_at)


def at_once(count: int, act: Callable[[int], T]) -> list[T]:
    """Run ``act(0 … count - 1)`` in threads that all begin at the same moment; their results in order."""
    gate = threading.Barrier(count)

    def one(number: int) -> T:
        gate.wait(30)
        return act(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(one, range(count)))


def in_child(act: Callable[[], object], end: Callable[[], object] = lambda: None) -> int:
    """Fork; the child acts and ends; its pid."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        code = 1
        try:
            act()
            code = 0
            end()
        finally:
            os._exit(code)
    return pid
