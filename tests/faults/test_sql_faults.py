"""SQL in trouble under real schedulers and workers: no process ends, each task runs once, and the counters tell of it."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pymysql
import pytest

from taskkit.states import Status
from tests.centers import plain_insert
from tests.databases import connect
from tests.processes import Installation, Process, on_servers
from tests.servers import MariaDB, Valkey, available
from tests.waiting import wait_until

pytestmark = pytest.mark.faults
QUICK: dict[str, Any] = {
    "scheduler_heartbeat_s": 0.5,
    "worker_heartbeat_s": 0.5,
    "worker_processes": 1,
}
TOO_OLD_S = 5


@pytest.fixture(scope="module")
def database() -> Iterator[MariaDB]:
    """A MariaDB whose connections these tests let idle out, kill and tangle."""
    with available(MariaDB) as server:
        yield server


@pytest.fixture
def home(tmp_path: Path, database: MariaDB, valkey: Valkey) -> Iterator[Installation]:
    with on_servers(tmp_path, database.url, valkey.url, **QUICK) as one:
        yield one


def connections(database: MariaDB, home: Installation) -> list[int]:
    """Of all processes of the installation, the test's own kit included."""
    name = str(home.settings.database_url).rpartition("/")[2]
    rows = database.admin(f"SELECT id FROM information_schema.processlist WHERE db = '{name}'")
    return [row[0] for row in rows]


def kill(database: MariaDB, numbers: list[int]) -> None:
    for number in numbers:
        with contextlib.suppress(pymysql.Error):  # it has ended by itself
            database.admin(f"KILL CONNECTION {number}")


def outcomes(home: Installation, ids: list[int]) -> Counter[str]:
    return Counter(run.outcome.value for run in home.kit.center.read.runs(ids))


def retries(*processes: Process) -> int:
    """How often they repeated something in SQL, by their rows."""
    return sum(int(row["retries"]) for process in processes if (row := process.row()))


def unharmed(*processes: Process) -> bool:
    return all(p.popen.poll() is None and p.lines(level="error") == [] for p in processes)


NEVER_IDLE = 3
"""Each process looks every second what limits are set: over one connection, and a scheduler over two in turn."""


def test_sql_01_a_connections_that_the_server_closes_when_idle_cost_nothing(
    home: Installation, database: MariaDB
) -> None:
    ((usual,),) = database.admin("SELECT @@global.wait_timeout")
    database.admin("SET GLOBAL wait_timeout = 2")
    try:
        slow = {"scheduler_heartbeat_s": 6, "scheduler_recover_every_s": 4, "scheduler_plan_every_s": 6}
        processes = [
            home.scheduler(**slow, scheduler_poll_s=3),
            home.worker("--queue", "echo", worker_heartbeat_s=6),
        ]
        home.wait(home.enqueue("echo"), seconds=30)
        known = set(connections(database, home))
        wait_until(lambda: len(known & set(connections(database, home))) <= NEVER_IDLE, 20, every=0.2)
        last = home.enqueue("echo")
        assert home.wait(last, seconds=30).status is Status.SUCCESS
        assert home.outcomes(last) == ["success"]
    finally:
        database.admin(f"SET GLOBAL wait_timeout = {usual}")
    assert unharmed(*processes)


def test_sql_01_b_all_connections_are_killed_again_and_again_while_20_tasks_run(
    home: Installation, database: MariaDB, tmp_path: Path
) -> None:
    notes = tmp_path / "notes"
    processes = [home.scheduler(), home.worker("--queue", "nap_async")]
    ids = home.enqueue_many("nap_async", [{"seconds": 1.5, "path": str(notes)}] * 20)
    wait_until(lambda: notes.exists() and notes.read_text().count("begun") == 20, 30)
    for _ in range(8):
        kill(database, connections(database, home))
        time.sleep(0.3)  # the pace of the kills, not a wait for something
    home.wait_all(ids, Status.SUCCESS, seconds=40)
    assert outcomes(home, ids) == {"success": 20}
    assert notes.read_text().count("begun") == 20
    wait_until(lambda: retries(*processes) > 0, 20)
    assert unharmed(*processes)


class Backwards:
    """A side session that locks the same rows in reverse order, and is so heavy that the others are the victims."""

    def __init__(self, url: str) -> None:
        self.url, self.stop = url, threading.Event()
        self.thread = threading.Thread(target=self._run)
        self.problems: list[Exception] = []

    def _run(self) -> None:
        with contextlib.closing(connect(self.url)) as link, link.cursor() as cursor:
            cursor.execute("CREATE TABLE weight (n INT)")
            while not self.stop.is_set():
                try:
                    cursor.execute("BEGIN")
                    cursor.execute("INSERT INTO weight VALUES " + ", ".join(["(1)"] * 500))
                    cursor.execute(
                        "SELECT id FROM task_center WHERE status IN (0, 1, 2) ORDER BY id DESC LIMIT 60"
                    )
                    for (task_id,) in cursor.fetchall():
                        cursor.execute("UPDATE task_center SET trace_id = 'x' WHERE id = %s", (task_id,))
                    cursor.execute("ROLLBACK")
                except pymysql.Error as error:
                    if error.args[0] not in {1205, 1213}:
                        self.problems.append(error)
                        return

    def __enter__(self) -> Backwards:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self.thread.join(30)
        assert self.problems == []


def test_sql_01_d_deadlocks_are_repeated_and_counted_and_each_task_runs_once(
    home: Installation, database: MariaDB, tmp_path: Path
) -> None:
    """Two schedulers and two workers on short tasks, beside somebody who writes the rows in reverse order."""
    notes = tmp_path / "notes"
    processes = [home.scheduler(scheduler_batch=100) for _ in range(2)]
    processes += [home.worker("--queue", "mark") for _ in range(2)]
    ids: list[int] = []
    deadline = time.monotonic() + 40
    with Backwards(str(home.settings.database_url)):
        while (len(ids) < 400 or retries(*processes) == 0) and time.monotonic() < deadline:
            ids += home.enqueue_many("mark", [{"path": str(notes)}] * 100)
            wait_until(lambda: waiting(home) < 100, 30)
    home.wait_all(ids, Status.SUCCESS, seconds=60)
    assert outcomes(home, ids) == {"success": len(ids)}
    effects = Counter(line.split()[0] for line in notes.read_text().splitlines())
    assert set(effects.values()) == {1}
    assert retries(*processes) > 0, "nobody met a deadlock"
    assert unharmed(*processes)


def waiting(home: Installation) -> int:
    counts = home.kit.center.read.counts()
    return sum(counts[status] for status in (Status.PENDING, Status.DISPATCHED, Status.RUNNING))


def old_transactions(database: MariaDB) -> list[tuple[Any, ...]]:
    return database.admin(
        "SELECT trx_id, trx_started, trx_query FROM information_schema.innodb_trx "
        f"WHERE trx_started < NOW() - INTERVAL {TOO_OLD_S} SECOND"
    )


def test_sql_04_no_transaction_stays_open_while_all_is_idle_and_new_rows_are_seen_at_once(
    home: Installation, database: MariaDB
) -> None:
    """A process that polls inside one long snapshot never sees what others wrote."""
    began = time.monotonic()
    processes = [home.scheduler(), home.worker("--queue", "echo")]
    late = home.enqueue("echo", {"value": 7}, delay=86400)
    found: list[Any] = []
    waiter = threading.Thread(target=lambda: found.append(home.kit.result(late, timeout=60)))
    waiter.start()
    wait_until(lambda: time.monotonic() - began > TOO_OLD_S + 2 or old_transactions(database), 30, every=0.2)
    assert old_transactions(database) == []
    inserted = plain_insert(home.kit.center, task_code="echo", payload="{}", queue="echo")
    assert home.wait(inserted, seconds=20).status is Status.SUCCESS
    home.kit.operations.run_now(late, "somebody")
    waiter.join(30)
    assert [getattr(one, "value", one) for one in found] == [7]
    assert old_transactions(database) == []
    assert unharmed(*processes)
