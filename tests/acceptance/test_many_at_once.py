"""Three schedulers, two workers: every task runs once, every occurrence fires once, shown by one SQL query."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from taskkit.model import ListName
from tests.conftest import EXTERNAL_DATABASE
from tests.processes import Installation, on_servers
from tests.servers import Valkey
from tests.stopping import Stopping
from tests.waiting import wait_until

TASKS, PERIODIC = 10_000, 200

PROOF = """
SELECT
  (SELECT COUNT(*) FROM task_center WHERE task_type = 0) AS tasks,
  (SELECT COUNT(*) FROM task_center WHERE task_type = 0 AND status = 3) AS succeeded,
  (SELECT COUNT(*) FROM task_run r JOIN task_center t ON t.id = r.task_id WHERE t.task_type = 0) AS runs,
  (SELECT COUNT(*) FROM (
     SELECT task_id FROM task_run WHERE outcome = 'success' AND occurrence_at IS NULL
     GROUP BY task_id HAVING COUNT(*) > 1) twice) AS ran_twice,
  (SELECT COUNT(*) FROM task_occurrence WHERE state = 'fired') AS fired,
  (SELECT COUNT(*) FROM task_run WHERE occurrence_at IS NOT NULL AND outcome = 'success') AS occurrence_runs,
  (SELECT COUNT(*) FROM (
     SELECT task_id, occurrence_at FROM task_run WHERE occurrence_at IS NOT NULL
     GROUP BY task_id, occurrence_at HAVING COUNT(*) > 1) double_fired) AS fired_twice
"""


@pytest.fixture
def home(tmp_path: Path, request: pytest.FixtureRequest, valkey: Valkey) -> Iterator[Installation]:
    database = EXTERNAL_DATABASE or request.getfixturevalue("mariadb").url
    with on_servers(tmp_path, database, valkey.url, log_level="warning") as one:
        yield one


def proof(home: Installation) -> dict[str, int]:
    with home.kit.center.database.engine.connect() as connection:
        return {key: int(value) for key, value in connection.execute(sa.text(PROOF)).one()._mapping.items()}


def in_seconds(home: Installation, seconds: int) -> str:
    """A daily schedule, six fields, whose next fire time is so far away."""
    at = home.kit.center.now() + timedelta(seconds=seconds)
    return f"{at.second} {at.minute} {at.hour} * * *"


def test_guarantee_4_ten_thousand_tasks_and_two_hundred_occurrences_run_once_each(home: Installation) -> None:
    for _ in range(3):
        home.begin("scheduler")
    for _ in range(2):
        home.begin("worker", "--app", "tests.sample_app:kit", "--queue", "many,few", "--processes", "2")
    for process in home.processes:
        process.ready(60)
    tasks = [
        {
            "code": "echo",
            "payload": {"value": n},
            "priority": n % 10,
            "queue": "few" if n % 7 == 0 else "many",
        }
        for n in range(TASKS)
    ]
    expression = in_seconds(home, 15)
    home.kit.producer.enqueue_many(
        [
            {
                "code": "echo",
                "payload": {"value": n},
                "cron": expression,
                "timezone": "UTC",
                "queue": "few",
                "unique_key": f"periodic {n}",
            }
            for n in range(PERIODIC)
        ]
    )
    for start in range(0, TASKS, 2500):
        home.kit.producer.enqueue_many(tasks[start : start + 2500])
    wait_until(
        lambda: proof(home)["runs"] >= TASKS and proof(home)["occurrence_runs"] >= PERIODIC, 90, every=0.5
    )
    assert proof(home) == {
        "tasks": TASKS,
        "succeeded": TASKS,
        "runs": TASKS,
        "ran_twice": 0,
        "fired": PERIODIC,
        "occurrence_runs": PERIODIC,
        "fired_twice": 0,
    }
    assert [process.stop() for process in home.processes] == [0] * 5


def test_rule_01_guarantee_4_a_scheduler_stopped_between_select_and_update_fires_nothing_twice(
    home: Installation,
) -> None:
    worker = home.begin("worker", "--app", "tests.sample_app:kit", "--queue", "echo", "--processes", "1")
    worker.ready(60)
    task_id = home.enqueue("echo", {"value": 1}, cron="*/2 * * * * *", timezone="UTC")
    with Stopping(home) as stopped:
        wait_until(stopped.stands_still, 30)
        chosen = home.task(task_id).occurrence_at
        home.begin("scheduler").ready(30)
        wait_until(lambda: len(home.runs(task_id)) >= 2, 30)
        before = len(home.runs(task_id))
        stopped.go_on()
        wait_until(lambda: len(home.runs(task_id)) >= before + 2, 30)
    assert proof(home)["fired_twice"] == 0
    occurrences = home.kit.center.read.occurrences(task_id, 500)
    fired = [o for o in occurrences if o.state == "fired"]
    assert chosen in {o.planned_at for o in occurrences if o.state in {"fired", "skipped"}}
    assert len(fired) >= before + 2
    assert all(occurrence.planned_at <= occurrence.fired_at for occurrence in fired if occurrence.fired_at)


def test_rule_05_sched_09_a_late_urgent_task_overtakes_a_backlog_and_no_list_outgrows_its_window(
    home: Installation,
) -> None:
    waiting = 200_000 if os.environ.get("TASKKIT_TEST_LARGE") else 20_000
    window, batch = 1000, 200
    for start in range(0, waiting, 10_000):
        home.enqueue_many("echo", [{"value": n} for n in range(start, start + 10_000)], queue="echo")
    for _ in range(2):
        home.begin("scheduler", scheduler_window=window, scheduler_batch=batch, scheduler_queue_window=5000)
    for process in home.processes:
        process.ready(60)
    queue = home.kit.queue
    assert queue is not None
    names = [ListName("echo", priority) for priority in range(10)]
    wait_until(lambda: queue.depth(names)[names[5]] >= window, 60)
    urgent = home.enqueue("echo", {"value": "now"}, priority=0, queue="echo")
    wait_until(lambda: home.task(urgent).status.label == "dispatched", 10)
    assert max(queue.depth(names).values()) <= window + 2 * batch
    worker = home.begin("worker", "--app", "tests.sample_app:kit", "--queue", "echo", "--processes", "1")
    deepest = 0
    deadline = time.monotonic() + 60
    while not home.runs(urgent) and time.monotonic() < deadline:
        deepest = max(deepest, *queue.depth(names).values())
    assert deepest <= window + 2 * batch
    [run] = home.runs(urgent)
    with home.kit.center.database.engine.connect() as connection:
        earlier = connection.execute(
            sa.text("SELECT COUNT(*) FROM task_run WHERE started_at < :at"),
            {"at": home.kit.center.database.dialect.bind(run.started_at)},
        ).scalar_one()
    assert earlier <= 20, "the urgent task is among the first: only one in twenty goes to the lowest priority"
    worker.stop()
