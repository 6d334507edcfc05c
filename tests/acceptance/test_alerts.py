"""Acceptance of the watchdog: each shipped rule's incident, caused for real, is told once to two groups, and so is its end.

Lengths of time are scaled, and limits where the incident could not reach the shipped one in some seconds.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from taskkit.lab.handlers import LOCK
from taskkit.states import Status
from tests.alarm_rules import BUSY, CROWD, SMALL, STORES
from tests.alarms import LAB, SCALED, Shared, Town, lab_worker, locked, town
from tests.processes import Installation, on_servers
from tests.servers import MariaDB, Valkey
from tests.waiting import wait_until
from tests.watched import watchdog

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def small_towns(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    with embedded(tmp_path_factory, SMALL, "push,send_then_fail,ask_partner") as towns:
        yield towns


@pytest.fixture
def small(small_towns: Shared) -> Town:
    return small_towns.sound()


@pytest.fixture(scope="module")
def busy_towns(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    with embedded(tmp_path_factory, BUSY, "charge") as towns:
        yield towns


@pytest.fixture
def busy(busy_towns: Shared) -> Town:
    return busy_towns.sound()


@contextmanager
def embedded(folders: pytest.TempPathFactory, rules: str, queues: str) -> Iterator[Shared]:
    """The embedded default with one scheduler and one worker."""

    @contextmanager
    def found() -> Iterator[Town]:
        with Installation(folders.mktemp("embedded"), **SCALED) as home:
            lab_worker(home, queues, 3)
            with town(home, rules) as one:
                yield one

    with Shared(found) as towns:
        yield towns


@pytest.fixture(scope="module")
def crowds(tmp_path_factory: pytest.TempPathFactory, mariadb: MariaDB, valkey: Valkey) -> Iterator[Shared]:
    """MariaDB and Valkey, with a scheduler and a worker that stays."""

    @contextmanager
    def found() -> Iterator[Town]:
        folder = tmp_path_factory.mktemp("crowd")
        with on_servers(folder, mariadb.url, valkey.url, **SCALED) as home:
            lab_worker(home, "push")
            with town(home, CROWD) as one:
                yield one

    with Shared(found) as towns:
        yield towns


@pytest.fixture
def crowd(crowds: Shared) -> Town:
    return crowds.sound()


def test_scheduler_and_missed_the_only_scheduler_is_killed_and_planned_times_pass(small: Town) -> None:
    home = small.home
    planned = home.enqueue("push", {"number": 0, "seconds": 0}, cron="* * * * * *", misfire="skip")
    wait_until(lambda: len(home.runs(planned)) >= 2, 20)
    checks = home.kit.center.checks
    # its heartbeats end with its scans: on a machine that keeps it from scanning, another diagnosis is the right one
    wait_until(
        lambda: any((one.scan_age_s or 9) < SCALED["scheduler_heartbeat_s"] for one in checks.schedulers()),
        20,
    )
    small.scheduler.kill()
    small.hears("firing", "scheduler", "scan").says(
        "没有存活的调度器", "no scheduler is alive", "taskkit status"
    )
    firing = home.kit.center.alerts.newest
    wait_until(lambda: "missed" in [alert.rule for alert in firing(["firing"])], 20)
    assert small.heard("firing", "missed", "push") == [], "the scheduler's alert explains it"
    small.scheduler = home.scheduler(scheduler_misfire_grace_s=1)
    small.hears("firing", "missed", "push").says(
        "错过了计划时间", "times were missed", f"taskkit tasks show {planned}"
    )
    home.kit.operations.cancel(planned, "test")
    assert small.over(("scheduler", "scan"), ("missed", "push"))


def test_given_up_tasks_that_use_up_their_retries(small: Town) -> None:
    small.run("ask_partner", 3, max_retry=0)
    small.hears("firing", "given_up", "ask_partner").says(
        r"ask_partner 有 \d 个任务被放弃",
        r"\d tasks? of ask_partner gave up",
        r"taskkit tasks show \d+ --all",
    )
    assert small.over(("given_up", "ask_partner"))


def test_success_rate_handlers_that_fail_for_one_cause(small: Town) -> None:
    small.run("send_then_fail", 60)
    small.hears("firing", "success_rate").says(
        "一个原因造成大多数失败",
        "one cause fails most",
        "taskkit tasks list --status failed --code send_then_fail",
    )
    small.meanwhile(lambda: small.run("push", 30, seconds=0), lambda: small.heard("resolved", "success_rate"))
    assert small.over(("success_rate", ""))


def test_forecast_more_arrives_than_a_slot_can_do_and_the_slots_that_it_asks_for_keep_the_promise(
    busy: Town,
) -> None:
    home = busy.home
    lab_worker(home, "report", 1)
    busy.enqueue("report", 240, seconds=2.0)
    busy.hears("firing", "forecast", "report").says(
        r"承诺的等待时间将在 \d\d:\d\d 失守",
        r"the promised wait will be broken at \d\d:\d\d",
        "taskkit diagnose backlog",
    )
    alert = home.kit.center.alerts.newest(["firing"])[0]
    command = shlex.split(alert.said["en"].actions[-1][1])
    assert command[:3] == ["python", "-m", "taskkit.worker"]
    home.begin("worker", "--app", LAB, *command[3:]).ready()
    assert busy.over(("forecast", "report"))


def charge(place: Town, count: int, seconds: float) -> None:
    place.run("charge", count, before_s=seconds, after_s=0, told=False)


def test_backlog_and_slow_a_queue_that_nobody_serves_and_a_handler_that_takes_longer(busy: Town) -> None:
    busy.enqueue("push", 320, queue="nowhere", seconds=0)
    # so many that the slow ones, which are of the past after 6 s, do not become what is normal
    charge(busy, 600, 0.01)
    busy.pass_by(6)
    charge(busy, 90, 0.2)
    busy.hears("firing", "slow", "charge").says(
        "charge 变慢", "charge is slow", "taskkit tasks list --status running --code charge"
    )
    busy.hears("firing", "backlog").says(
        "队列 nowhere 无人服务", "nobody serves the queue nowhere", "taskkit status"
    )
    lab_worker(busy.home, "nowhere", 2)
    busy.meanwhile(lambda: charge(busy, 30, 0.01), lambda: busy.heard("resolved", "slow", "charge"))
    assert busy.over(("slow", "charge"), ("backlog", ""))


def test_watchdog_it_is_killed_and_a_scheduler_says_so(busy: Town) -> None:
    busy.dog.kill()
    busy.hears("firing", "watchdog").says(
        "没有存活的看门狗", "no watchdog is alive", "python -m taskkit.watchdog", figures=2
    )
    busy.dog = watchdog(busy.home)
    assert busy.over(("watchdog", ""))


def test_worker_dead_lost_and_duplicates_a_worker_is_killed_after_its_effect(crowd: Town) -> None:
    home = crowd.home
    worker = lab_worker(home, "charge", 4)
    name = worker.id
    ids = crowd.enqueue("charge", 4, before_s=0, after_s=60.0, told=True)
    wait_until(lambda: all(task.progress is not None for task in home.kit.center.read.tasks(ids)), 30)
    worker.kill()
    crowd.hears("firing", "worker_dead", name).says(
        f"worker {name} 没有心跳", f"worker {name} is silent", "taskkit status"
    )
    lab_worker(home, "charge", 4)
    crowd.hears("firing", "lost").says(
        "运行随 worker 丢失", "runs were lost with their worker", "taskkit status"
    )
    crowd.hears("firing", "duplicates").says(
        "worker 在写回结果前被杀",
        "workers were killed before they wrote the end",
        r"taskkit tasks show \d+ --all",
    )
    home.wait_all(ids)
    assert crowd.over(("worker_dead", name), ("lost", ""), ("duplicates", ""))


def test_zombies_a_worker_beats_while_its_handler_waits_for_a_lock(crowd: Town) -> None:
    home = crowd.home
    (home.folder / LOCK).touch()
    name = lab_worker(home, "locked").id
    crowd.run("locked", 3)
    with locked(home):
        ids = crowd.enqueue("locked", 3)
        told = crowd.hears("firing", "zombies", name)
        told.says("worker 卡住了", "workers are stuck", "taskkit status --json")
        assert f"Runs: locked {ids[0]}" in told.english.lines
        assert f"正在运行：locked {ids[0]}" in told.chinese.lines
    home.wait_all(ids, Status.SUCCESS)
    assert crowd.over(("zombies", name))


@pytest.mark.faults
def test_stores_redis_and_then_sql_are_away(tmp_path: Path) -> None:
    with (
        MariaDB() as database,
        Valkey() as broker,
        on_servers(tmp_path, database.url, broker.url, **SCALED) as home,
        town(home, STORES) as found,
    ):
        broker.stop()
        found.hears("firing", "stores", "redis").says(
            "Redis 没有应答", "Redis does not answer", "taskkit doctor", figures=0
        )
        broker.start()
        assert found.over(("stores", "redis"))
        database.stop()
        found.hears("firing", "stores", "sql").says(
            "SQL 没有应答", "SQL does not answer", "taskkit doctor", figures=0
        )
        found.pass_by(
            SCALED["watchdog_dead_after_s"]
        )  # so long nobody could beat, which is no silence of watchdogs
        database.start()
        assert found.over(("stores", "sql"), seconds=60)
