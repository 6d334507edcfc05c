"""Schedulers that are stopped past their leases, and schedulers that are restarted all the time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from taskkit.center import TaskCenter
from taskkit.model import ListName, NewTask
from taskkit.states import Status
from tests.centers import Clock, dispatch, instant, messages, occurrences, on_clock, periodic, sql, succeeded
from tests.conftest import EXTERNAL_DATABASE
from tests.processes import Installation, on_servers
from tests.servers import Valkey
from tests.stopping import Stopping
from tests.waiting import wait_until

pytest_plugins = ["tests.center_fixtures"]
QUARTERS = [timedelta(minutes=15 * n) for n in range(1, 9)]


@pytest.fixture
def home(tmp_path: Path, request: pytest.FixtureRequest, valkey: Valkey) -> Iterator[Installation]:
    database = EXTERNAL_DATABASE or request.getfixturevalue("mariadb").url
    with on_servers(tmp_path, database, valkey.url, scheduler_heartbeat_s=0.3, worker_processes=1) as one:
        yield one


def leases(home: Installation) -> dict[str, str]:
    """Who holds each lease that has not run out."""
    return dict(
        map(tuple, sql(home.kit.center, "SELECT name, holder FROM task_lease WHERE expires_at > {now}"))
    )


@pytest.mark.faults
def test_sched_03_guarantee_4_a_scheduler_stopped_past_its_leases_dispatches_nothing_when_it_wakes(
    home: Installation,
) -> None:
    """500 rows chosen, then stopped before its first claim; the other one takes over all of them, and the leases."""
    ids = home.kit.center.intake.insert([NewTask("nobody", "{}", "nobody")] * 500)
    with Stopping(home) as stopped:
        wait_until(stopped.stands_still, 30)
        other = home.scheduler()
        wait_until(lambda: statuses(home, ids) == {Status.DISPATCHED: 500}, 30)
        wanted = {"planner": other.id, "recovery": other.id, "deaths": other.id}
        wait_until(lambda: wanted.items() <= leases(home).items(), 30, every=0.1)
        scans = stopped.row()["scans"]
        stopped.go_on()
        wait_until(lambda: stopped.row()["scans"] > scans + 2, 30)
        assert stopped.row()["dispatched"] == 0
        assert wanted.items() <= leases(home).items(), "it is a follower now"
    assert home.kit.queue is not None
    pulled = home.kit.queue.pull(["nobody"], 1000, 1).messages
    assert sorted(message.task_id for _, message in pulled) == ids
    assert home.kit.queue.depth([ListName("nobody")]) == {ListName("nobody"): 0}
    assert {task.attempt for task in home.kit.center.read.tasks(ids)} == {1}


def statuses(home: Installation, ids: list[int]) -> Counter[Status]:
    return Counter(status for status, *_ in home.kit.center.read.statuses(ids).values())


@pytest.mark.faults
def test_sched_10_b_restarts_every_few_seconds_shift_no_fire_time_and_lose_none(home: Installation) -> None:
    """Killed after every firing or two: every other second of the clock is accounted for, once."""
    home.worker("--queue", "echo")
    task_id = home.enqueue("echo", cron="*/2 * * * * *", timezone="UTC", queue="echo")
    for turn in range(1, 4):
        scheduler = home.scheduler()
        wait_until(lambda n=turn: len(fired(home, task_id)) >= 2 * n, 40)  # type: ignore[misc]
        scheduler.kill()
    known = [o for o in home.kit.center.read.occurrences(task_id, 500) if o.state != "planned"]
    times = sorted(o.planned_at for o in known)
    assert {(at.second % 2, at.microsecond) for at in times} == {(0, 0)}
    assert {after - before for before, after in pairwise(times)} == {timedelta(seconds=2)}
    ran = Counter(run.occurrence_at for run in home.runs(task_id))
    assert set(ran.values()) == {1}
    assert set(ran) <= set(fired(home, task_id))


def fired(home: Installation, task_id: int) -> list[datetime]:
    return [o.planned_at for o in occurrences(home.kit.center, task_id, "fired")]


def test_sched_10_b_a_quarter_of_an_hour_comes_although_schedulers_live_for_five_minutes(
    center_url: str,
) -> None:
    """Each begins anew, with nothing but the rows; eight runs in two hours."""
    begin = instant(2026, 6, 1)
    clock, ran = Clock(begin), []
    first = on_clock(center_url, clock)
    first.intake.insert([periodic(begin, "*/15 * * * *")])
    first.close()
    for _ in range(24):
        clock.move(minutes=5)
        center = on_clock(center_url, clock)
        ran += run_once(center)
        center.close()
    assert ran == [begin + quarter for quarter in QUARTERS]


def run_once(center: TaskCenter) -> list[datetime | None]:
    """A scheduler plans and dispatches, a worker succeeds at once; the occurrences that ran."""
    center.plan.sweep()
    desk = center.worker_desk("host:1:a")
    won = desk.claim(messages(dispatch(center))).won
    assert desk.finish([succeeded(claimed) for claimed in won]) == []
    return [claimed.occurrence_at for claimed in won]
