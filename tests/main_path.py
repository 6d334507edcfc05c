"""The main path of a task center, walked once without processes: whatever stands between it and the server must bear it."""

from __future__ import annotations

import os
from collections.abc import Callable

from taskkit.beats import SchedulerBeat, WorkerBeat
from taskkit.center import TaskCenter
from taskkit.center.recovery import Suspect
from taskkit.limits import Scope
from taskkit.model import Claimed, Finish, ListName
from taskkit.settings import Retention
from taskkit.states import Move, Outcome, Status
from tests.bounded import WORKER, Bounded, limited, statuses
from tests.centers import failed, new, periodic, plain_insert, sql, task

Step = Callable[[TaskCenter], None]


def tasks_run_and_fail(center: TaskCenter) -> None:
    """Many go in, are dispatched, claimed, end well or not, and are there once."""
    node = Bounded(center)
    ids = center.intake.insert([new(payload=f'{{"名": "{n} 😀 \\\\ \'"}}') for n in range(300)])
    node.scan()
    won = node.start()
    assert [claimed.id for claimed in won] == ids
    assert won[7].payload == '{"名": "7 😀 \\\\ \'"}'
    node.end(won[:250])
    assert center.worker_desk(WORKER).finish([failed(claimed) for claimed in won[250:]]) == []
    assert statuses(center, ids) == "3" * 250 + "4" * 50
    assert {run.outcome.value for run in center.read.runs(ids)} == {"success", "failed"}
    assert center.worker_desk(WORKER).finish([failed(won[0])]) == [], "told twice, it is known"


def a_key_is_kept(center: TaskCenter) -> None:
    one, two = (center.intake.insert([new(unique_key="only")])[0] for _ in range(2))
    assert one == two
    center.people.cancel(one, "ann")
    (three,) = center.intake.insert([new(unique_key="only")])
    assert three != one
    center.people.cancel(three, "ann")


def a_limit_is_kept(center: TaskCenter) -> None:
    node = Bounded(center)
    limited(center, queue="q", concurrency=2)
    ids = center.intake.insert([new() for _ in range(5)])
    for _ in range(3):
        node.scan()
        running = node.start()
        assert len(running) <= 2
        node.end(running)
    center.limits.sweep()
    assert center.limits.remove(Scope.QUEUE, "q", "ann")
    assert statuses(center, ids) == "33333"


def what_is_lost_comes_back(center: TaskCenter) -> None:
    node = Bounded(center)
    gone, orphaned = center.intake.insert([new(), new()])
    node.scan()
    assert center.recovery.ring_again([Suspect(gone, 1, ListName("q"))]) == 1
    node.queue.pull(["q"], 10, 0)
    node.scan()
    (claimed,) = [one for one in node.start() if one.id == gone] or [None]
    assert claimed is not None
    assert claimed.attempt == 2

    def judged(lost: Claimed) -> Finish:
        return Finish(lost, Outcome.LOST, Move.LOSE, 0)

    assert center.recovery.lose(WORKER, {gone: 2}, judged)
    assert [run.outcome.value for run in center.read.runs([gone])] == ["lost", "lost"]
    for one in (gone, orphaned):
        center.people.cancel(one, "ann")


def times_are_kept(center: TaskCenter) -> None:
    """The clock of the server, in UTC, whatever a session was set to by somebody else."""
    now = center.now()
    daily = center.intake.insert([periodic(now, "0 3 * * *")])[0]
    plain_insert(center, task_code="plain", queue="q", delay=3600)
    lists, _ = center.dispatch.due_lists()
    assert center.plan.adopt(lists) >= 1
    center.plan.sweep()
    assert {o.planned_at.hour for o in center.read.occurrences(daily)} == {3}
    planned = task(center, daily).plan_next_run_at
    assert planned is not None
    assert 0 < (planned - now).total_seconds() <= 86_400
    (later,) = sql(center, "SELECT id FROM task_center WHERE task_code = 'plain'")
    due = task(center, later[0]).plan_next_run_at
    assert due is not None
    assert abs((due - center.now()).total_seconds() - 3600) < 60
    for one in (daily, later[0]):
        center.people.cancel(one, "ann")


def nodes_and_locks_work(center: TaskCenter) -> None:
    center.nodes.enter_scheduler("host:1:s", "host", os.getpid())
    assert center.nodes.beat_scheduler(SchedulerBeat("host:1:s", "host", 1, 0, 0, None, None, "x"))
    beat = WorkerBeat(WORKER, "host", 1, "q", 1, 0, 0, 0, 0, None, 0, 0.0, [], [])
    center.nodes.enter_worker(beat)
    assert center.nodes.beat_worker(beat)
    assert center.nodes.take_lease("planner", "host:1:s", 10)
    assert not center.nodes.take_lease("planner", "host:2:s", 10)
    fence = center.locks.take("nightly", "a", 10)
    assert fence is not None
    assert center.locks.take("nightly", "b", 10) is None
    assert center.locks.renew("nightly", "a", 10)
    assert center.locks.drop("nightly", "a")
    assert (center.locks.take("nightly", "b", 10) or 0) > fence


def looks_and_prunes(center: TaskCenter) -> None:
    assert center.samples.record({"q": 0}, center.read.backlogs()) >= 0
    keep = Retention(tasks_days=1e-9, runs_days=1e-9)
    assert sum(step.gone for step in center.retention.sweep(keep)) > 300
    assert Status.SUCCESS not in {status for status, n in center.read.counts().items() if n}


STEPS: tuple[Step, ...] = (
    tasks_run_and_fail,
    a_key_is_kept,
    a_limit_is_kept,
    what_is_lost_comes_back,
    times_are_kept,
    nodes_and_locks_work,
    looks_and_prunes,
)


def walk(center: TaskCenter) -> None:
    """All of it, in order, in an empty task center."""
    for step in STEPS:
        step(center)
