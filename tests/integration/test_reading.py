"""Reading the task center and the rows that processes write of themselves: every statement on both databases."""

from __future__ import annotations

from datetime import timedelta

import pytest

from taskkit.beats import SchedulerBeat, WorkerBeat
from taskkit.center import TaskCenter, TaskFilter
from taskkit.clock import utc_now
from taskkit.errors import NotFound
from taskkit.model import Backlog
from taskkit.states import Status
from tests.centers import at_once, in_status, new, periodic, plain_insert, sql, start

pytest_plugins = ["tests.center_fixtures"]


def test_tasks_are_found_by_status_code_queue_and_kind_newest_first(center: TaskCenter) -> None:
    ids = center.intake.insert([new("a"), new("b", queue="other"), periodic(center.now(), "0 3 * * *")])
    held = in_status(center, Status.HELD, code="a")

    def found(**wanted: object) -> list[int]:
        return [one.id for one in center.read.find(TaskFilter(**wanted))]  # type: ignore[arg-type]

    assert found() == [held, *ids[::-1]]
    assert found(statuses=(0, 7), code="a") == [held, ids[0]]
    assert found(queue="other") == [ids[1]]
    assert (found(periodic=True), found(periodic=False)) == ([ids[2]], [held, ids[1], ids[0]])
    assert found(limit=2) == [held, ids[2]]
    assert found(limit=2, before=ids[2]) == [ids[1], ids[0]]
    assert (center.read.tasks([]), center.read.runs([])) == ([], [])
    with pytest.raises(NotFound, match="no task 999"):
        center.read.task(999)
    center.read.ping()


def test_counts_and_backlogs_tell_what_waits_where_and_for_how_long(center: TaskCenter) -> None:
    old = center.now() - timedelta(seconds=100)
    center.intake.insert([new(plan_next_run_at=old), new(), new(priority=1), new(delay=600)])
    for status in Status:
        in_status(center, status, queue="each")
    plain_insert(center, task_code="mail", queue="unplanned")
    assert center.read.counts() == {s: 6 if s == 0 else 1 for s in Status}
    backlogs = center.read.backlogs()
    waits = backlogs["q"]
    assert (waits.due, waits.queued, waits.running, waits.held, waits.retrying) == (3, 0, 0, 0, 0)
    assert waits.oldest_age_s == pytest.approx(100, abs=30)
    each = backlogs["each"]
    assert (each.due, each.queued, each.running, each.held, each.retrying) == (1, 1, 1, 1, 1)
    assert backlogs["unplanned"] == Backlog("unplanned", 0, 0, 0, None)


def test_results_are_read_by_id(center: TaskCenter) -> None:
    done, waits = in_status(center, Status.SUCCESS), in_status(center, Status.PENDING)
    assert center.read.statuses([done, waits, 999]) == {
        done: (Status.SUCCESS, None, "success"),
        waits: (Status.PENDING, None, None),
    }


def beat(worker_id: str, **fields: object) -> WorkerBeat:
    fixed = {
        "host": "host", "pid": 7, "queues": "a,b", "processes": 2, "busy": 1, "processed": 5, "failed": 1,
        "dropped": 0, "last_progress_at": utc_now(), "rss_bytes": 2**33, "cpu_percent": 12.5,
        "children": [{"pid": 8, "what": "😀"}], "tasks": [],
    }  # fmt: skip
    return WorkerBeat(worker_id=worker_id, **(fixed | fields))  # type: ignore[arg-type]


def test_a_worker_is_seen_from_its_start_to_its_end(center: TaskCenter) -> None:
    first = beat("host:7:aa")
    assert not center.nodes.beat_worker(first)
    center.nodes.enter_worker(first)
    assert center.nodes.beat_worker(first)
    assert center.nodes.beat_worker(beat("host:7:aa", stacks="stack", processed=6))
    assert center.nodes.beat_worker(beat("host:7:aa", processed=7))
    (seen,) = center.nodes.workers()
    assert (seen["processed"], seen["stacks"], seen["children"]) == (7, "stack", [{"pid": 8, "what": "😀"}])
    assert 0 <= seen["heartbeat_age_s"] < 30
    assert sql(center, "SELECT heartbeat_count FROM task_worker") == [(3,)]
    center.nodes.enter_worker(beat("host:9:bb"))
    assert [row["worker_id"] for row in center.nodes.workers()] == ["host:7:aa", "host:9:bb"]
    for worker_id in ("host:7:aa", "host:9:bb"):
        center.nodes.leave_worker(worker_id)
    assert center.nodes.workers() == []


def test_a_scheduler_is_seen_from_its_start_to_its_end(center: TaskCenter) -> None:
    own = SchedulerBeat("host:1:cc", "host", 1, 10, 20, utc_now(), 1.5, "2026a")
    assert not center.nodes.beat_scheduler(own)
    center.nodes.enter_scheduler("host:1:cc", "host", 1)
    assert center.nodes.beat_scheduler(own)
    (seen,) = center.nodes.schedulers()
    assert (seen["dispatched"], seen["scans"], seen["clock_offset_ms"]) == (10, 20, 1.5)
    assert 0 <= seen["scan_age_s"] < 30
    center.nodes.leave_scheduler("host:1:cc")
    assert center.nodes.schedulers() == []


def test_an_installation_has_one_id_whoever_asks_first(center_url: str) -> None:
    centers = [TaskCenter(center_url) for _ in range(4)]
    sql(centers[0], "DELETE FROM task_installation")
    ids = at_once(4, lambda n: centers[n].nodes.installation_id())
    assert len(set(ids)) == 1
    for center in centers:
        center.close()


def test_a_running_task_is_shown_with_its_owner(center: TaskCenter) -> None:
    (claimed,) = start(center, "host:1:a")
    (found,) = center.read.find(TaskFilter(statuses=(2,)))
    assert (found.id, found.worker_id, found.claimed_at) == (claimed.id, "host:1:a", claimed.claimed_at)


def test_live_tasks_by_the_beginning_of_their_key_and_the_newest_ones(center: TaskCenter) -> None:
    keys = ("crontab:b:1", "crontab:a:1", "crontac", "Crontab:x", "crontab")
    center.intake.insert([new("shell", unique_key=key) for key in keys])
    (ended,) = center.intake.insert([new("shell", unique_key="crontab:ended")])
    center.people.cancel(ended, "a test")
    assert [task.unique_key for task in center.read.live("crontab:")] == ["crontab:a:1", "crontab:b:1"]
    assert [one["id"] for one in center.read.recent(2)] == [ended, ended - 1]
    assert center.read.recent(1)[0]["status"] == Status.CANCELLED
