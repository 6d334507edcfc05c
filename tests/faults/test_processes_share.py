"""What several processes share: connections inherited by a fork, and one SQLite file."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from taskkit import Settings
from taskkit.states import Status
from tests.conftest import EXTERNAL_DATABASE
from tests.processes import Installation, on_servers
from tests.servers import Valkey

pytestmark = pytest.mark.faults
LOCKER = """
import sqlite3, sys, time
link = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=30)
for _ in range(3):
    link.execute("BEGIN IMMEDIATE")
    time.sleep(1.5)
    link.execute("COMMIT")
    time.sleep(0.5)
"""


@pytest.fixture
def servers(tmp_path: Path, request: pytest.FixtureRequest, valkey: Valkey) -> Iterator[Installation]:
    database = EXTERNAL_DATABASE or request.getfixturevalue("mariadb").url
    with on_servers(tmp_path, database, valkey.url) as one:
        yield one


def test_sql_08_children_that_inherit_a_warm_pool_and_die_disturb_nobody(servers: Installation) -> None:
    """Handlers use the application's own engine and broker, opened before the fork; some end by exit or SIGKILL."""
    home = servers
    scheduler = home.scheduler()
    worker = home.begin("worker", "--app", "tests.sample_warm:kit", "--queue", "own", "--processes", "4")
    worker.ready(60)
    ends = {n: "kill" if n % 60 == 7 else "exit" if n % 60 == 27 else "" for n in range(120)}
    ids = home.enqueue_many("own", [{"value": n, "end": end} for n, end in ends.items()], queue="own")
    home.wait_all(ids, Status.SUCCESS, seconds=60)
    results = [home.kit.result(task_id, timeout=1) for task_id in ids]
    assert [one["value"] for one in results] == list(range(120)), "each has the answer to its own question"
    users: dict[int, set[int]] = {}
    for one in results:
        users.setdefault(one["connection"], set()).add(one["pid"])
    if not home.settings.sqlalchemy_url().startswith("sqlite"):
        assert all(len(pids) == 1 for pids in users.values()), "no connection has two owners"
        assert not users.keys() & {one["inherited"] for one in results}, "the parent's is nobody else's"
    assert all(process.popen.poll() is None for process in (scheduler, worker))
    assert [line for line in worker.lines(level="error") if "killed by signal 9" not in line["message"]] == []
    row = worker.row()
    assert row is not None
    assert row["retries"] == 0, "the parent met no 2006, 2013 or wrong packet"


def test_sql_10_two_schedulers_and_four_workers_share_one_sqlite_file(tmp_path: Path, valkey: Valkey) -> None:
    """While a seventh process holds the write lock now and then."""
    file, notes = tmp_path / "shared.db", tmp_path / "notes"
    settings = Settings(
        home=tmp_path / "home",
        database_url=f"sqlite:///{file}",
        redis_url=valkey.url,
        key_prefix=f"{tmp_path.name}:",
    )
    with Installation(tmp_path, settings=settings, worker_processes=1, worker_max_prefetch=5) as home:
        processes = [home.begin("scheduler") for _ in range(2)]
        processes += [
            home.begin("worker", "--app", "tests.sample_app:kit", "--queue", "mark") for _ in range(4)
        ]
        for process in processes:
            process.ready(60)
        with subprocess.Popen([sys.executable, "-S", "-c", LOCKER, str(file)]) as locker:
            ids = home.enqueue_many("mark", [{"path": str(notes)}] * 400)
            home.wait_all(ids, Status.SUCCESS, seconds=90)
            assert locker.wait(30) == 0
        effects = Counter(line.split()[0] for line in notes.read_text().splitlines())
        assert (len(effects), set(effects.values())) == (400, {1})
        assert {(run.attempt, run.outcome.value) for run in home.kit.center.read.runs(ids)} == {
            (1, "success")
        }
        assert [p.popen.poll() for p in processes] == [None] * 6
        assert [p.err.read_text() for p in processes] == [""] * 6
        assert not [line for p in processes for line in p.lines() if "locked" in line["message"]]
