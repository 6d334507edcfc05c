"""``taskkit demo``: the main job on the embedded default and on MariaDB and Redis, told and cleaned up."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import psutil
import pytest

from taskkit.center import TaskCenter
from taskkit.center.reading import ReadDesk
from taskkit.demo.outcome import look
from taskkit.demo.plan import Act, Written
from tests import centers
from tests.commands import done, program, running
from tests.databases import fresh_database
from tests.servers import MariaDB
from tests.waiting import wait_until

CODES = ("send_email", "shell", "http", "fetch", "flaky", "slow")


def traces(folder: Path) -> list[object]:
    """What a demo leaves: temporary homes, and processes that know of one."""
    found: list[object] = list(folder.glob("taskkit-demo-*"))
    for process in psutil.process_iter():
        try:
            home = process.environ().get("TASKKIT_HOME", "")
        except (psutil.Error, OSError):
            continue
        if home.startswith(str(folder)):
            found.append(process)
    return found


@pytest.mark.timeout(170)
def test_the_demo_on_the_embedded_default(tmp_path: Path) -> None:
    found = program("demo", env={**os.environ, "TMPDIR": str(tmp_path), "COLUMNS": "110"})
    assert (found.returncode, found.stderr) == (0, ""), found.stdout + found.stderr
    for words in (
        *CODES,
        "2 schedulers and 2 workers",
        "20 of 20 pages at once",
        "100 of 100",
        "by hand",
        "none is left behind",
        "Everything was as it should be",
        "what arrives in the group",
        "given_up · slow",
        "What to type next",
    ):
        assert words in found.stdout
    assert len(re.findall(r"\d+ failed .*the other side answered 503", found.stdout)) == 2
    assert re.search(r"given_up +\d+ timeout", found.stdout)
    assert all(len(line) <= 110 for line in found.stdout.splitlines() if str(tmp_path) not in line)
    assert traces(tmp_path) == []


@pytest.mark.timeout(170)
def test_the_demo_on_mariadb_and_redis(
    mariadb: MariaDB, redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with fresh_database(mariadb.url) as url:
        stores = {"TASKKIT_DATABASE_URL": url, "TASKKIT_REDIS_URL": redis_url}
        found = program("demo", env={**os.environ, **stores, "TMPDIR": str(tmp_path)})
        assert found.returncode == 0, found.stdout + found.stderr
        assert "which nobody else serves" in found.stdout
        assert "Everything was as it should be" in found.stdout
        assert ":taskkit@" not in found.stdout + found.stderr
        assert traces(tmp_path) == []
        for name, value in stores.items():
            monkeypatch.setenv(name, value)
        tasks = done("tasks", "list", "--limit", "1000", "--json").json
    assert {task["status_name"] for task in tasks} == {"success", "given_up", "cancelled"}
    assert all(task["queue"].startswith("demo-") for task in tasks)
    assert all(task["status_name"] == "cancelled" for task in tasks if task["task_type"] == 1)


def test_a_task_that_ends_while_it_is_looked_at_has_its_last_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    center = TaskCenter(f"sqlite:///{tmp_path}/center.db")
    center.upgrade_schema()
    (claimed,) = centers.start(center, "w:1:1", centers.new())

    def ends_between(name: str) -> None:
        read = getattr(ReadDesk, name)

        def reading(desk: ReadDesk, ids: list[int]) -> object:
            found = read(desk, ids)
            center.worker_desk("w:1:1").finish([centers.succeeded(claimed)])
            return found

        monkeypatch.setattr(ReadDesk, name, reading)

    ends_between("runs")
    ends_between("tasks")
    written = Written(Act("a task", "mail", {}), [claimed.id])
    for _ in range(2):
        seen = look(center, [written], [])
        assert seen.ended(written) <= len(seen.attempts(claimed.id))
    assert seen.ended(written) == 1
    center.close()


@pytest.mark.timeout(120)
def test_ctrl_c_stops_the_demo_and_leaves_nothing(tmp_path: Path) -> None:
    with running("demo", folder=tmp_path, TMPDIR=str(tmp_path)) as demo:
        wait_until(lambda: "are up after" in demo.out.read_text(), 60)
        demo.note()
        assert demo.end(signal.SIGINT) == 130
        wait_until(lambda: not demo.left(), 20)
    assert traces(tmp_path) == []
    assert "Traceback" not in demo.said


def test_a_demo_with_a_wrong_url_is_one_line_and_leaves_nothing(tmp_path: Path) -> None:
    wrong = {"TASKKIT_REDIS_URL": "http://me:hunter2@db", "TMPDIR": str(tmp_path)}
    found = program("demo", env={**os.environ, **wrong})
    assert (found.returncode, found.stdout) == (2, "")
    assert "write redis://" in found.stderr
    assert "hunter2" not in found.stderr
    assert traces(tmp_path) == []


def test_a_demo_that_cannot_reach_its_database_says_so(tmp_path: Path) -> None:
    stores = {"TASKKIT_DATABASE_URL": "mysql://me:hunter2@127.0.0.1:1/shop"}
    found = program("demo", env={**os.environ, **stores, "TMPDIR": str(tmp_path)})
    assert found.returncode == 1
    assert found.stderr.startswith("taskkit: ")
    assert found.stderr.count("\n") == 1
    assert "127.0.0.1:1/shop" in found.stderr
    assert "hunter2" not in found.stdout + found.stderr
