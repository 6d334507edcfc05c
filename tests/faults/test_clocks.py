"""A node whose clock jumps: the database's clock decides, the node says so, and lets another scheduler dispatch."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from taskkit import Settings
from taskkit.beats import SchedulerBeat
from taskkit.center import TaskCenter
from taskkit.queues import MemoryQueue
from taskkit.scheduler import process as module
from taskkit.scheduler.process import SchedulerProcess
from taskkit.service import Stop
from taskkit.states import Status
from tests.centers import occurrences
from tests.conftest import EXTERNAL_DATABASE
from tests.processes import APP, Installation, on_servers
from tests.servers import Valkey
from tests.waiting import wait_until

pytest_plugins = ["tests.center_fixtures"]

JUMPING = """
import sys
from datetime import timedelta
from pathlib import Path
from taskkit import clock

right, offset = clock.utc_now, Path(sys.argv.pop(1))
clock.utc_now = lambda: right() + timedelta(seconds=float(offset.read_text() or 0))

from taskkit.scheduler.__main__ import main
main(standalone_mode=True)
"""


@pytest.fixture
def home(tmp_path: Path, request: pytest.FixtureRequest, valkey: Valkey) -> Iterator[Installation]:
    database = EXTERNAL_DATABASE or request.getfixturevalue("mariadb").url
    with on_servers(tmp_path, database, valkey.url, scheduler_heartbeat_s=0.2) as one:
        yield one


class Jumping:
    """A scheduler on a node whose clock a test sets, by so many hours off."""

    def __init__(self, home: Installation, hours: float = 0) -> None:
        self.home, self.file = home, home.folder / f"offset {hours}"
        self.set(hours)
        self.log = home.folder / f"jumping {hours}.out"
        with self.log.open("wb") as out:
            command = [sys.executable, "-c", JUMPING, str(self.file)]
            self.process = subprocess.Popen(
                command, env=home.environment, cwd=home.folder, stdout=out, stdin=subprocess.DEVNULL
            )
        wait_until(self.row, 30)

    def stop(self) -> int:
        """SIGTERM, and wait; its exit code."""
        self.process.terminate()
        return self.process.wait(20)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def set(self, hours: float) -> None:
        self.file.write_text(str(hours * 3600))

    def row(self) -> dict[str, Any] | None:
        rows = self.home.kit.center.nodes.schedulers()
        return next((row for row in rows if row["pid"] == self.process.pid), None)

    def says(self, text: str) -> bool:
        return text in self.log.read_text()

    def rests(self) -> bool:
        """Whether it has scanned nothing between two of its heartbeats."""
        before = self.row()
        assert before is not None
        after = wait_until(lambda: (r := self.row()) and r["heartbeat_at"] > before["heartbeat_at"] and r, 10)
        return bool(after and after["scans"] == before["scans"])


@pytest.fixture
def jumping(home: Installation) -> Iterator[Jumping]:
    found = Jumping(home)
    yield found
    assert found.stop() == 0


@pytest.mark.faults
@pytest.mark.parametrize("hours", [-2, 24])
def test_rule_26_guarantee_4_sched_07_a_clock_that_jumps_fires_nothing_twice_nor_early(
    home: Installation, jumping: Jumping, hours: float
) -> None:
    home.scheduler()
    home.worker("--queue", "echo", "--processes", "1")
    every_second = home.enqueue("echo", cron="* * * * * *", timezone="UTC", queue="echo")
    tomorrow = home.kit.center.now() + timedelta(hours=20)
    daily = home.enqueue(
        "echo", cron=f"{tomorrow.minute} {tomorrow.hour} * * *", timezone="UTC", queue="echo"
    )
    fired = lambda: len(occurrences(home.kit.center, every_second, "fired"))  # noqa: E731
    wait_until(lambda: fired() >= 2, 30)
    jumping.set(hours)
    wait_until(lambda: jumping.says("another scheduler dispatches meanwhile"), 20)
    wait_until(jumping.rests, 20)
    wait_until(lambda: fired() >= 6, 30)
    jumping.set(0)
    wait_until(lambda: jumping.says("clock is right again"), 20)
    wait_until(lambda: not jumping.rests(), 20)
    assert occurrences(home.kit.center, daily, "fired") == []
    ran = Counter(run.occurrence_at for run in home.runs(every_second) if run.outcome.value == "success")
    assert set(ran.values()) == {1}
    planned = sorted(o.planned_at for o in home.kit.center.read.occurrences(every_second, 500))
    assert all(at.microsecond == 0 for at in planned)
    assert len(set(planned)) == len(planned)


@pytest.mark.faults
def test_sched_01_guarantee_4_schedulers_with_skewed_clocks_fire_each_task_and_occurrence_once(
    home: Installation, request: pytest.FixtureRequest
) -> None:
    """One is 1.8 s slow, one 1.8 s fast: neither has a better clock beside it, so both go on."""
    home.begin("worker", "--app", APP, "--queue", "echo", "--processes", "1")
    for seconds in (-1.8, 1.8):
        scheduler = Jumping(home, seconds / 3600)
        request.addfinalizer(scheduler.kill)
    every_second = home.enqueue("echo", cron="* * * * * *", timezone="UTC", queue="echo")
    ids = home.enqueue_many("echo", [{}] * 100, queue="echo")
    home.wait_all(ids, Status.SUCCESS, seconds=60)
    wait_until(lambda: len(occurrences(home.kit.center, every_second, "fired")) >= 4, 30)
    assert {task.attempt for task in home.kit.center.read.tasks(ids)} == {1}
    assert len(home.kit.center.read.runs(ids)) == 100
    fired = occurrences(home.kit.center, every_second, "fired")
    assert all(o.fired_at is not None and o.fired_at >= o.planned_at for o in fired), "none fires early"
    ran = Counter(run.occurrence_at for run in home.runs(every_second))
    assert set(ran.values()) == {1}


@pytest.mark.faults
def test_rule_26_the_only_scheduler_goes_on_although_its_clock_is_off(
    home: Installation, jumping: Jumping
) -> None:
    jumping.set(5)
    wait_until(lambda: jumping.says("no other has a better one"), 20)
    home.worker("--queue", "echo", "--processes", "1")
    assert home.wait(home.enqueue("echo"), seconds=30).status == Status.SUCCESS


def test_rule_26_an_answer_that_took_long_says_nothing_about_the_clock(
    center: TaskCenter, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = SchedulerProcess(Settings(), center, MemoryQueue(), Stop())
    ticks = iter([0.0, 3.0, 3.0, 3.1])
    monkeypatch.setattr(module, "monotonic", lambda: next(ticks))
    assert process._measure_clock()[1] is None
    offset = process._measure_clock()[1]
    assert offset is not None
    assert abs(offset) < 60_000


@pytest.mark.parametrize(("scanned", "right"), [(None, False), (60, False), (1, True)])
def test_rule_26_nobody_stands_aside_for_a_scheduler_that_does_not_scan(
    center: TaskCenter, scanned: int | None, right: bool
) -> None:
    """Its main thread may hang while its heartbeat goes on."""
    process = SchedulerProcess(Settings(), center, MemoryQueue(), Stop())
    center.nodes.enter_scheduler("other", "host", 1)
    at = None if scanned is None else center.now() - timedelta(seconds=scanned)
    assert center.nodes.beat_scheduler(SchedulerBeat("other", "host", 1, 0, 0, at, 0.0, "2026a"))
    assert process._another_is_right(1000) is right
