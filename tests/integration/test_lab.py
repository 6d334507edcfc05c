"""What drills stand on: whose row is whose, cutting connections, and that trouble on the way is told."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import sqlalchemy as sa

from taskkit import Settings, Taskkit
from taskkit.beats import WorkerBeat
from taskkit.center import TaskCenter
from taskkit.center.lab import is_writable
from taskkit.errors import DatabaseUnavailable, TaskkitError
from taskkit.lab import leftovers
from taskkit.lab.drills import Cuts, Drill, again_and_again
from taskkit.lab.ground import Ground
from taskkit.lab.stand import Stand
from taskkit.names import DRILL_QUEUES
from taskkit.scheduler.lost_workers import WorkerRecovery
from taskkit.settings import Scheduler
from taskkit.supervising import Role
from tests import centers
from tests.servers import MariaDB
from tests.waiting import wait_until

pytest_plugins = ["tests.center_fixtures"]


@pytest.fixture
def ground(center_url: str, tmp_path: Path) -> Iterator[Ground]:
    kit = Taskkit(Settings(home=tmp_path, database_url=center_url))
    with contextlib.closing(kit), Ground(kit) as made:
        yield made


class Here(Role):
    """A role that this process plays."""

    @property
    def pid(self) -> int | None:
        return os.getpid()


def enter_worker(center: TaskCenter, worker_id: str, host: str, retries: int) -> None:
    beat = WorkerBeat(worker_id, host, os.getpid(), "q", 0, 0, 0, 0, 0, None, 0, 0.0, [], [], retries=retries)
    center.nodes.enter_worker(beat)
    center.nodes.beat_worker(beat)


HOLDS_FOR_A_WHILE = """
import sqlite3, sys, time
with sqlite3.connect(sys.argv[1]) as connection:
    connection.execute("BEGIN IMMEDIATE")
    print("holds", flush=True)
    end = time.process_time() + 0.03
    while time.process_time() < end: pass
time.sleep(600)
"""


def test_a_process_is_not_frozen_while_it_has_the_only_lock_of_sqlite(tmp_path: Path) -> None:
    """Its lock would be held for as long as it is frozen, and with it everybody else."""
    with Stand(out=tmp_path) as stand:
        command = [sys.executable, "-c", HOLDS_FOR_A_WHILE, str(stand.center.database.url.database)]
        with (
            subprocess.Popen(command, stdout=subprocess.PIPE) as holder,
            contextlib.ExitStack() as at_the_end,
        ):
            at_the_end.callback(holder.kill)
            assert holder.stdout is not None
            assert holder.stdout.readline() == b"holds\n"
            assert not is_writable(stand.center.database, 0)
            role = Role("worker", [])
            role.process = holder
            stand.freeze(role)
            assert psutil.Process(holder.pid).status() == psutil.STATUS_STOPPED
            assert is_writable(stand.center.database, 0)


def test_a_process_of_another_host_with_the_same_pid_is_another_one(ground: Ground) -> None:
    role = Here("worker", [])
    enter_worker(ground.center, "a", "another-container", 7)
    assert ground.retries(role) == 0
    assert not ground._at_work(role, "worker")
    enter_worker(ground.center, "b", socket.gethostname(), 3)
    assert ground.retries(role) == 3
    assert ground._at_work(role, "worker")


def test_a_row_left_behind_by_the_same_pid_is_not_taken_for_the_new_process(ground: Ground) -> None:
    for worker_id, retries in (("b", 7), ("a", 3)):
        enter_worker(ground.center, worker_id, socket.gethostname(), retries)
    at = ground.center.database.dialect.bind(ground.center.now().replace(year=2020))
    centers.sql(ground.center, "UPDATE task_worker SET started_at = :at WHERE worker_id = 'b'", at=at)
    assert ground.retries(Here("worker", [])) == 3


def test_a_scheduler_of_another_host_counts_though_the_drills_own_has_its_pid(ground: Ground) -> None:
    ground._roles.append(Here("scheduler", []))
    ground.center.nodes.enter_scheduler("own", socket.gethostname(), os.getpid())
    assert ground.live_schedulers() == 0
    ground.center.nodes.enter_scheduler("other", "another-container", os.getpid())
    assert ground.live_schedulers() == 1


def test_connections_by_a_unix_socket_do_not_end_the_cutting(mariadb: MariaDB) -> None:
    """They come from `localhost`, without a port."""
    url = sa.make_url(mariadb.url).set(
        host="localhost", port=None, query={"unix_socket": str(mariadb.socket)}
    )
    center = TaskCenter(mariadb.url)
    made = sa.create_engine(url.set(drivername="mysql+pymysql"))
    with made.connect() as by_socket, made.connect():
        by_socket.exec_driver_sql("SELECT 1")
        assert center.drills.cut({1}) == 0
        by_socket.exec_driver_sql("SELECT 1")
    made.dispose()
    center.close()


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ValueError("no port"), "ValueError: no port"),
        (psutil.NoSuchProcess(7), f"NoSuchProcess: {psutil.NoSuchProcess(7)}"),
        (psutil.AccessDenied(7), f"AccessDenied: {psutil.AccessDenied(7)}"),
        (DatabaseUnavailable("away"), "away"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_trouble_while_cutting_goes_on_and_is_told(ground: Ground, error: Exception, told: str) -> None:
    tries: list[int] = []

    def act() -> int:
        tries.append(1)
        if len(tries) <= 2:
            raise error
        return 5

    with again_and_again(act) as cuts:
        wait_until(lambda: cuts.killed >= 5)
    drill = Drill("sql-blip", ground, Scheduler(), lambda _: None)
    cuts.tell(drill)
    assert drill.report.steps[0][1] == f"killing them failed 2 times: {told}"
    assert drill.report.passed


def test_a_drill_that_killed_nothing_failed_and_says_why(ground: Ground) -> None:
    for cuts, found in (
        (Cuts(), "0 killed; only those over TCP can be told from others"),
        (Cuts(met=Counter(["ValueError: no"])), "0 killed; ValueError: no"),
    ):
        drill = Drill("sql-blip", ground, Scheduler(), lambda _: None)
        cuts.tell(drill)
        assert drill.report.checks == [("there were connections to kill", False, found)]


# ---- what drills leave behind


def test_what_still_runs_in_a_dead_worker_is_left_until_a_scheduler_has_taken_it(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leftovers, "PATIENCE_S", 0.3)
    center, name = ground.center, f"{DRILL_QUEUES}0a1b2c"
    (claimed,) = centers.start(center, "dead", centers.new("taskkit.nap", queue=name))
    waiting, mine = center.intake.insert(
        [centers.new("taskkit.noop", queue=queue) for queue in (name, f"{DRILL_QUEUES}mine")]
    )
    center.nodes.enter_worker(
        WorkerBeat("dead", socket.gethostname(), gone_pid(), name, 1, 1, 0, 0, 0, None, 0, 0.0, [], [])
    )
    (left,) = leftovers.remove(ground.kit)
    assert (left.queue, left.tasks, left.running) == (name, 1, 1)
    assert str(left) == f"removed 1 task that an earlier drill left in {name}, but 1 task still running"
    assert center.nodes.workers() == [], "signed off, so that what it held is taken from it at once"
    WorkerRecovery(center, "s", Scheduler()).tick()
    assert leftovers.remove(ground.kit) == [leftovers.Removed(name, 1)]
    assert set(center.read.statuses([claimed.id, waiting, mine])) == {mine}, (
        "a queue of the user's is no drill's"
    )
    assert leftovers.remove(ground.kit) == []


def gone_pid() -> int:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    return child


def test_one_drill_at_a_time_and_one_that_was_killed_blocks_the_next_for_a_moment_only(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leftovers, "LIFE_S", 0.5)
    told: list[str] = []
    with (
        ground.kit.lock(leftovers.LOCK),
        pytest.raises(TaskkitError, match="another drill is under way on this installation"),
        leftovers.alone(ground.kit, told.append),
    ):
        raise AssertionError("not reached")
    assert told == ["another drill is under way, or was killed just now; waiting up to 0 s for it"]
    ground.center.locks.take(leftovers.LOCK, "killed", 0.5)
    with leftovers.alone(ground.kit, told.append):
        assert len(told) == 2
