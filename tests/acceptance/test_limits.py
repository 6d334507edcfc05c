"""Limits with real schedulers and workers: never exceeded, judged on the grants and on what ran, whoever dies.

With TASKKIT_TEST_LARGE, on a machine that does nothing else, also how well they are used and how soon a task starts.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from taskkit.states import Status
from tests.centers import sql
from tests.conftest import EXTERNAL_DATABASE
from tests.processes import Installation, on_servers
from tests.servers import Valkey
from tests.waiting import wait_until

LARGE = bool(os.environ.get("TASKKIT_TEST_LARGE"))
WORKERS = 4 if LARGE else 2
SECOND = timedelta(seconds=1)
QUICK: dict[str, Any] = {
    "worker_processes": 3,
    "worker_heartbeat_s": 0.5,
    "scheduler_dead_after_s": 3,
    "scheduler_recover_every_s": 0.5,
}


@pytest.fixture
def home(tmp_path: Path, request: pytest.FixtureRequest, valkey: Valkey) -> Iterator[Installation]:
    """Two schedulers and some workers, on servers."""
    database = EXTERNAL_DATABASE or request.getfixturevalue("mariadb").url
    with on_servers(tmp_path, database, valkey.url, **QUICK) as found:
        yield begun(found)


@pytest.fixture
def embedded(tmp_path: Path) -> Iterator[Installation]:
    """The same on SQLite and the embedded server."""
    with Installation(tmp_path, **QUICK) as found:
        yield begun(found)


def begun(home: Installation) -> Installation:
    processes = [home.begin("scheduler") for _ in range(2)]
    arguments = ("--app", "tests.sample_bounded:kit", "--queue", "span,echo")
    processes += [home.begin("worker", *arguments) for _ in range(WORKERS)]
    for process in processes:
        process.ready()
    return home


def known_to_all(home: Installation) -> None:
    """All look at the limits every second; what is dispatched after that goes by them."""
    before = home.kit.center.now()

    def looked() -> bool:
        nodes = home.kit.center.nodes
        return all(n["heartbeat_at"] - before > 3 * SECOND for n in nodes.workers())

    wait_until(looked, 30)


def spans(home: Installation, customer: str, count: int, seconds: float) -> list[int]:
    payload = {"path": str(home.folder / "spans"), "customer": customer, "seconds": seconds}
    key = f"customer:{customer}"
    return home.enqueue_many("span", [payload] * count, queue="span", limit_key=key, max_retry=9)


def ran(home: Installation, customer: str = "") -> list[tuple[float, float]]:
    """From when to when each attempt ran to its end, as it said itself."""
    lines = [line.split() for line in (home.folder / "spans").read_text().splitlines()]
    return [(float(began), float(ended)) for who, began, ended in lines if customer in {who, ""}]


def in_use(home: Installation, ids: Sequence[int]) -> list[tuple[datetime, datetime]]:
    """From the grant of each task to its end, on the database's clock."""
    instant = home.kit.center.database.dialect.instant
    text = "SELECT granted_at, last_run_at FROM task_center WHERE id BETWEEN :a AND :b"
    rows = sql(home.kit.center, text, a=min(ids), b=max(ids))
    return [(instant(granted), instant(ended)) for granted, ended in rows]  # type: ignore[misc]


def most_at_once(intervals: Sequence[tuple[Any, Any]]) -> int:
    """How many there were at the same moment, at most; one that ends as another begins is not with it."""
    steps = sorted([(began, 1) for began, _ in intervals] + [(ended, -1) for _, ended in intervals])
    count = most = 0
    for _, step in steps:
        count += step
        most = max(most, count)
    return most


def most_within(instants: Sequence[datetime], period: timedelta) -> int:
    """How many there were within any period."""
    at = sorted(instants)
    most = first = 0
    for last, now in enumerate(at):
        while now - at[first] >= period:
            first += 1
        most = max(most, last - first + 1)
    return most


@pytest.mark.faults
@pytest.mark.parametrize("where", ["home", "embedded"])
def test_rule_07_acceptance_8_a_rate_and_a_concurrency_are_never_exceeded(
    where: str, request: pytest.FixtureRequest
) -> None:
    """A rate for the queue, and a number at once for each of its keys, over several schedulers and workers."""
    home: Installation = request.getfixturevalue(where)
    rate, count, customers = (100, 300, "abcde") if LARGE else (40, 80, "ab")
    home.kit.operations.set_limit(queue="span", rate=f"{rate}/s")
    home.kit.operations.set_limit(key="customer:*", concurrency=5)
    known_to_all(home)
    ids = {customer: spans(home, customer, count, 0.02) for customer in customers}
    free = home.enqueue_many("echo", [{}] * count)
    everything = [task_id for own in ids.values() for task_id in own]
    total = len(everything) + len(free)
    wait_until(lambda: home.kit.center.read.counts()[Status.SUCCESS] >= total, 90, every=0.5)
    for customer, own in ids.items():
        assert len(ran(home, customer)) == count
        assert most_at_once(ran(home, customer)) <= 5
        assert most_at_once(in_use(home, own)) <= 5
    granted = [at for at, _ in in_use(home, everything)]
    assert most_within(granted, SECOND) <= rate
    if LARGE and where == "home":
        used_and_prompt(home, everything, rate)


@pytest.mark.faults
def test_rule_07_acceptance_8_a_key_with_many_waiting_tasks_slows_no_other(home: Installation) -> None:
    """Those of the other key, which come last, are all done while nearly all of the first still wait."""
    home.kit.operations.set_limit(key="customer:*", concurrency=2)
    known_to_all(home)
    many = 10_000 if LARGE else 400
    spans(home, "big", many, 1.0)
    small = spans(home, "small", 40, 0.01)
    home.wait_all(small, seconds=60)
    assert home.kit.center.read.counts()[Status.HELD] > 0.7 * many
    assert most_at_once(in_use(home, small)) <= 2


@pytest.mark.faults
def test_rule_07_workers_and_schedulers_that_are_killed_take_no_place_with_them(home: Installation) -> None:
    """What a dead worker held is free when it is declared dead, not before; and the limit holds all the while."""
    home.kit.operations.set_limit(key="customer:*", concurrency=3)
    known_to_all(home)
    ids = spans(home, "a", 60, 0.1)
    wait_until(lambda: home.kit.center.read.counts()[Status.SUCCESS] >= 10, 30)
    workers = [process for process in home.processes if process.role == "worker"]
    busy = wait_until(lambda: [w for w in workers if (w.row() or {"busy": 0})["busy"]], 30)
    busy[0].kill()
    home.processes[0].kill()
    home.wait_all(ids, Status.SUCCESS, seconds=60)
    assert most_at_once(ran(home)) <= 3
    assert most_at_once(in_use(home, ids)) <= 3


def used_and_prompt(home: Installation, ids: Sequence[int], rate: int) -> None:
    """What is promised of a machine that does nothing else: used to 95 %, and started within 50 ms.

    Looked at when the other tasks are done, and while more than one key has some left: one alone may start no faster
    than its five end.
    """
    runs = sorted(home.kit.center.read.runs(ids), key=lambda run: str(run.dispatched_at))
    at = [run.dispatched_at for run in runs if run.dispatched_at][2 * rate : -len(runs) // 3]
    assert len(at) - 1 >= 0.95 * rate * (at[-1] - at[0]).total_seconds()
    waits = sorted(
        (run.started_at - run.dispatched_at).total_seconds()
        for run in runs
        if run.started_at and run.dispatched_at and at[0] <= run.dispatched_at <= at[-1]
    )
    assert waits[int(0.99 * len(waits))] <= 0.05, waits[-20:]
