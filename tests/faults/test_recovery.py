"""Recovery with real processes and servers: what is flushed, killed or stopped comes back, and runs no more than it must."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from taskkit import Settings
from taskkit.model import ListName, NewTask
from taskkit.states import Status
from tests.conftest import DATABASES, EXTERNAL_DATABASE
from tests.pids import alive
from tests.processes import Installation, Process, on_servers
from tests.servers import MariaDB, Valkey, available
from tests.waiting import wait_until

pytestmark = pytest.mark.faults
LARGE = os.environ.get("TASKKIT_TEST_LARGE") == "1"
QUICK: dict[str, Any] = {
    "scheduler_recover_every_s": 0.2,
    "scheduler_lost_after_s": 1,
    "scheduler_dead_after_s": 2,
    "worker_heartbeat_s": 0.3,
    "worker_processes": 2,
    "log_level": "info",
}


@pytest.fixture(scope="module")
def broker() -> Iterator[Valkey]:
    """A Valkey that these tests flush, stop and restart."""
    with available(Valkey) as server:
        yield server


@pytest.fixture
def database(request: pytest.FixtureRequest) -> str:
    return EXTERNAL_DATABASE or str(request.getfixturevalue("mariadb").url)


@pytest.fixture
def home(tmp_path: Path, database: str, broker: Valkey) -> Iterator[Installation]:
    broker.resume()
    broker.start()
    with on_servers(tmp_path, database, broker.url, **({} if LARGE else QUICK)) as one:
        yield one


@pytest.fixture(params=DATABASES)
def anywhere(request: pytest.FixtureRequest, tmp_path: Path, broker: Valkey) -> Iterator[Installation]:
    """An installation on each kind of database."""
    if request.param != "sqlite":
        yield request.getfixturevalue("home")
        return
    broker.start()
    file, prefix = f"sqlite:///{tmp_path}/recovery.db", f"{tmp_path.name}:"
    settings = Settings(home=tmp_path / "home", database_url=file, redis_url=broker.url, key_prefix=prefix)
    with Installation(tmp_path, settings=settings, **({} if LARGE else QUICK)) as one:
        yield one


def flush(broker: Valkey) -> None:
    with redis.Redis.from_url(broker.url) as client:
        client.flushall()


def depth(home: Installation, queue: str) -> int:
    assert home.kit.queue is not None
    name = ListName(queue)
    return home.kit.queue.depth([name])[name]


def attempts(home: Installation, ids: list[int]) -> Counter[int]:
    return Counter(task.attempt for part in parts(ids) for task in home.kit.center.read.tasks(part))


def outcomes(home: Installation, ids: list[int]) -> Counter[str]:
    found = (run for part in parts(ids) for run in home.kit.center.read.runs(part))
    return Counter(run.outcome.value for run in found)


def parts(ids: list[int]) -> list[list[int]]:
    return [ids[start : start + 1000] for start in range(0, len(ids), 1000)]


def wait_all(home: Installation, ids: list[int], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    for part in parts(ids):
        home.wait_all(part, Status.SUCCESS, seconds=max(1.0, deadline - time.monotonic()))


# the broker


def test_guarantee_1_redis_01_b_acceptance_3_after_flushall_all_waiting_messages_are_back_and_nothing_repeats(
    home: Installation, broker: Valkey, notes: Path
) -> None:
    count = 100_000 if LARGE else 2000
    home.scheduler()
    runner = home.worker("--queue", "nap_async", "--processes", "1")
    waiting = [
        task_id
        for _ in range(count // 1000)
        for task_id in home.enqueue_many("mark", [{"path": str(notes)}] * 1000)
    ]
    running = home.enqueue_many("nap_async", [{"seconds": 25 if LARGE else 6, "path": str(notes)}] * 10)
    window = min(count, 10_000)
    wait_until(lambda: depth(home, "mark") == window, 60, every=0.1)
    wait_until(lambda: notes.read_text().count("begun") == 10, 30)
    flush(broker)
    assert depth(home, "mark") == 0
    wait_until(lambda: depth(home, "mark") == window, 30, every=0.1)
    home.wait_all(running, Status.SUCCESS, seconds=60)
    assert (attempts(home, running), outcomes(home, running)) == ({1: 10}, {"success": 10})
    runner.stop()
    home.worker("--queue", "mark")
    wait_all(home, waiting, 600 if LARGE else 60)
    effects = Counter(line.split()[0] for line in notes.read_text().splitlines() if "begun" not in line)
    assert Counter(effects[str(task_id)] for task_id in waiting) == {1: count}
    ended = Counter(outcomes(home, waiting))
    del ended["handed_back"]  # what a worker on a busy machine had taken and not begun
    assert ended == {"success": count, "lost": window}


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    file = tmp_path / "notes"
    file.touch()
    return file


@pytest.mark.parametrize("how", ["restart without data", "killed", "stalled"])
def test_guarantee_1_a_broker_that_goes_away_loses_nothing(
    home: Installation, broker: Valkey, notes: Path, how: str
) -> None:
    home.scheduler()
    worker = home.worker("--queue", "mark")
    ids = home.enqueue_many("mark", [{"path": str(notes)}] * 300)
    wait_until(lambda: notes.read_text().count("\n") > 10)
    if how == "stalled":
        broker.pause()
        time.sleep(3)  # the length of the stall, not a wait for something
        broker.resume()
    else:
        broker.kill()
        ids += home.enqueue_many("mark", [{"path": str(notes)}] * 50)
        broker.start()
    ids += home.enqueue_many("mark", [{"path": str(notes)}] * 50)
    wait_all(home, ids, 60)
    effects = Counter(line.split()[0] for line in notes.read_text().splitlines())
    assert Counter(effects[str(task_id)] for task_id in ids) == {1: 400 if how != "stalled" else 350}
    assert alive(worker.pid)


def test_guarantee_1_redis_01_a_a_scheduler_killed_between_claim_and_push_loses_nothing(
    home: Installation,
) -> None:
    ids = home.kit.center.intake.insert([NewTask("echo", "{}", "echo")] * 100)
    batch = home.kit.center.dispatch.claim(ids)
    assert len(batch.won) == 100  # and never pushed: its process ended here
    home.scheduler()
    home.worker("--queue", "echo")
    wait_all(home, ids, 60)
    assert outcomes(home, ids) == {"lost": 100, "success": 100}


# a backlog


def test_guarantee_3_acceptance_5_a_backlog_never_multiplies(
    anywhere: Installation, broker: Valkey, request: pytest.FixtureRequest
) -> None:
    """Waiting for ten times longer than a lost message would, under recovery's eyes all the time."""
    home = anywhere
    count, seconds = (50_000, 0.05) if LARGE else (400, 0.05)
    home.scheduler(scheduler_recover_every_s=1 if LARGE else 0.1, scheduler_lost_after_s=10 if LARGE else 2)
    ids = [
        task_id
        for _ in range(max(1, count // 1000))
        for task_id in home.enqueue_many("nap", [{"seconds": seconds}] * min(count, 1000))
    ]
    worker = home.worker("--queue", "nap", "--processes", "1" if not LARGE else "4")
    wait_all(home, ids, 2500 if LARGE else 90)
    assert attempts(home, ids) == {1: count}
    assert outcomes(home, ids) == {"success": count}
    row = worker.row()
    assert row is not None
    assert row["dropped"] == 0


def test_guarantee_3_acceptance_5_a_backlog_does_not_multiply_while_sql_and_redis_are_away(
    tmp_path: Path,
) -> None:
    with contextlib.ExitStack() as stack:
        sql, broker = stack.enter_context(available(MariaDB)), stack.enter_context(available(Valkey))
        home = stack.enter_context(on_servers(tmp_path, sql.url, broker.url, **({} if LARGE else QUICK)))
        count = 20_000 if LARGE else 400
        home.scheduler()
        worker = home.worker(
            "--queue", "nap", "--processes", "2", worker_max_prefetch=10
        )  # too few to hand back
        ids = [
            task_id
            for _ in range(max(1, count // 1000))
            for task_id in home.enqueue_many("nap", [{"seconds": 0.05}] * min(count, 1000))
        ]
        wait_until(lambda: outcomes(home, ids)["success"] > 20, 30)
        sql.stop()
        time.sleep(60 if LARGE else 4)
        sql.start()
        done = outcomes(home, ids)["success"]
        wait_until(lambda: outcomes(home, ids)["success"] > done + 20, 60)
        broker.pause()
        time.sleep(30 if LARGE else 4)
        broker.resume()
        wait_all(home, ids, 1800 if LARGE else 90)
        found = outcomes(home, ids)
        assert found["success"] == count, "each ran once"
        assert set(found) <= {"success", "lost"}
        assert found["lost"] <= 20, "only messages that were under way at that moment"
        assert alive(worker.pid)


# workers


def test_guarantee_1_acceptance_4_a_killed_workers_tasks_run_again_and_succeed(
    anywhere: Installation, notes: Path
) -> None:
    home = anywhere
    home.scheduler()
    doomed = home.worker("--queue", "nap", "--processes", "8")
    ids = home.enqueue_many("nap", [{"seconds": 2, "path": str(notes)}] * 8)
    wait_until(lambda: notes.read_text().count("begun") == 8, 30)
    doomed.kill()
    killed = time.monotonic()
    home.worker("--queue", "nap", "--processes", "8")
    home.wait_all(ids, Status.SUCCESS, seconds=30)
    assert time.monotonic() - killed < 30
    assert outcomes(home, ids) == {"lost": 8, "success": 8}
    assert {(t.retry_count, t.attempt) for t in home.kit.center.read.tasks(ids)} == {(0, 2)}


def test_guarantee_2_work_02_a_stopped_worker_is_fenced_and_says_so(
    anywhere: Installation, notes: Path
) -> None:
    home = anywhere
    home.scheduler()
    stopped = home.worker("--queue", "nap", "--processes", "1")
    (task_id,) = home.enqueue_many("nap", [{"seconds": 1, "path": str(notes)}])
    wait_until(lambda: "begun" in notes.read_text(), 30)
    family = [stopped.pid, *(process.pid for process in stopped.family())]
    home.freeze(*family)
    other = home.worker("--queue", "nap", "--processes", "1")
    home.wait(task_id, Status.SUCCESS, seconds=60)
    for pid in family:
        os.kill(pid, signal.SIGCONT)
    wait_until(lambda: home.outcomes(task_id) == ["superseded", "success"], 30)
    task = home.task(task_id)
    assert (task.status, task.attempt, task.worker_id) == (Status.SUCCESS, 2, other.id)
    discarded = wait_until(lambda: lines_with(stopped, "result discarded: superseded"), 10)
    assert discarded[0]["task_id"] == task_id
    again = home.wait(home.enqueue("nap", {"seconds": 0}, queue="nap"))
    assert again.status == Status.SUCCESS


def lines_with(process: Process, text: str) -> list[dict[str, Any]]:
    return [line for line in process.lines() if text in line["message"]]


def test_work_02_a_long_healthy_task_is_not_declared_lost(home: Installation) -> None:
    home.scheduler()
    home.worker("--queue", "burn", "--processes", "1")
    task_id = home.enqueue("burn", {"seconds": 60 if LARGE else 8})
    home.wait(task_id, Status.SUCCESS, seconds=120)
    assert home.outcomes(task_id) == ["success"]


def test_rule_17_nobody_is_declared_dead_right_after_an_outage_of_sql(tmp_path: Path, notes: Path) -> None:
    with contextlib.ExitStack() as stack:
        sql, broker = stack.enter_context(available(MariaDB)), stack.enter_context(available(Valkey))
        home = stack.enter_context(on_servers(tmp_path, sql.url, broker.url, **QUICK))
        scheduler = home.scheduler()
        home.worker("--queue", "nap", "--processes", "4")
        ids = home.enqueue_many("nap", [{"seconds": 8, "path": str(notes)}] * 4)
        wait_until(lambda: notes.read_text().count("begun") == 4, 30)
        sql.stop()
        time.sleep(6)  # longer than a worker may be silent
        sql.start()
        home.wait_all(ids, Status.SUCCESS, seconds=60)
        assert outcomes(home, ids) == {"success": 4}
        assert lines_with(scheduler, "is declared dead") == []


def test_rule_15_the_tasks_of_a_dead_worker_are_taken_while_redis_is_away(
    home: Installation, broker: Valkey, notes: Path
) -> None:
    home.scheduler()
    doomed = home.worker("--queue", "nap", "--processes", "2")
    other = home.worker("--queue", "echo", "--processes", "1")
    ids = home.enqueue_many("nap", [{"seconds": 1, "path": str(notes)}] * 2)
    wait_until(lambda: notes.read_text().count("begun") == 2, 30)
    broker.kill()
    doomed.kill()
    home.wait_all(ids, Status.PENDING, seconds=30)
    assert outcomes(home, ids) == {"lost": 2}
    broker.start()
    assert alive(other.pid)
    home.worker("--queue", "nap", "--processes", "2")
    home.wait_all(ids, Status.SUCCESS, seconds=60)


# schedulers


def test_guarantee_1_any_scheduler_may_be_killed_at_any_moment(home: Installation, notes: Path) -> None:
    schedulers = [home.scheduler(), home.scheduler()]
    home.worker("--queue", "mark")
    ids: list[int] = []
    for number in range(6):
        ids += home.enqueue_many("mark", [{"path": str(notes)}] * 100)
        schedulers[number % 2].kill()
        schedulers[number % 2] = home.scheduler()
    wait_all(home, ids, 60)
    effects = Counter(line.split()[0] for line in notes.read_text().splitlines())
    assert Counter(effects[str(task_id)] for task_id in ids) == {1: 600}


@pytest.mark.skipif(EXTERNAL_DATABASE is not None, reason="it restarts the database")
def test_guarantee_1_sql_01_c_sql_killed_and_restarted_while_20_tasks_end_keeps_every_result(
    tmp_path: Path, notes: Path
) -> None:
    with contextlib.ExitStack() as stack:
        sql, broker = stack.enter_context(available(MariaDB)), stack.enter_context(available(Valkey))
        patient = QUICK | {"scheduler_dead_after_s": 20}  # it is nobody's death that is looked at here
        home = stack.enter_context(on_servers(tmp_path, sql.url, broker.url, **patient))
        home.scheduler()
        worker = home.worker("--queue", "nap_async", "--processes", "1")
        ids = home.enqueue_many("nap_async", [{"seconds": 1.5, "path": str(notes)}] * 20)
        wait_until(lambda: notes.read_text().count("begun") == 20, 30)
        sql.kill()
        time.sleep(3)  # the length of the outage: all of them end in it
        sql.start()
        home.wait_all(ids, Status.SUCCESS, seconds=60)
        assert outcomes(home, ids) == {"success": 20}
        assert notes.read_text().count("begun") == 20
        assert alive(worker.pid)
