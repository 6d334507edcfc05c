"""``taskkit prune``, and schedulers that prune by themselves."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from taskkit.center import TaskCenter
from taskkit.scheduler.pruner import Pruner
from taskkit.settings import Retention
from taskkit.states import Status
from tests import centers
from tests.commands import cli, done, refused, running
from tests.processes import Installation
from tests.waiting import wait_until

pytest_plugins = ["tests.center_fixtures"]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[TaskCenter]:
    """The task center of the embedded installation in the test's folder."""
    done("db", "upgrade")
    found = TaskCenter(f"sqlite:///{tmp_path}/.taskkit/taskkit.db")
    yield found
    found.close()


def old(center: TaskCenter, status: Status = Status.SUCCESS, days: float = 40, n: int = 1) -> list[int]:
    """Tasks of that status that last changed so many days ago."""
    ids = [centers.in_status(center, status) for _ in range(n)]
    at = center.database.dialect.bind(center.now() - timedelta(days=days))
    for task_id in ids:
        statement = "UPDATE task_center SET created_at = :at, updated_at = :at WHERE id = :id"
        centers.sql(center, statement, at=at, id=task_id)
    centers.sql(center, "UPDATE task_run SET finished_at = :at", at=at)
    return ids


def left(center: TaskCenter) -> int:
    return int(centers.sql(center, "SELECT COUNT(*) FROM task_center")[0][0])


def test_a_dry_run_counts_and_the_same_goes_afterwards(home: TaskCenter) -> None:
    old(home, n=3)
    centers.in_status(home, Status.PENDING)
    dry = done("prune", "--dry-run", "--json").json
    assert list(dry) == ["dry_run", "complete", "seconds", "tables"]
    assert (dry["dry_run"], dry["complete"]) == (True, True)
    assert dry["tables"]["task_center"] == {"looked": 4, "gone": 3}
    assert left(home) == 4
    shown = done("prune", "--dry-run").out
    assert "would be deleted" in shown
    gone = done("prune", "--json").json
    assert gone["tables"] == dry["tables"]
    assert gone["tables"]["task_run"]["gone"] == 3
    assert left(home) == 1
    assert "deleted" in done("prune").out


def test_a_dry_run_says_what_would_be_deleted_what_kept_and_why(
    home: TaskCenter, monkeypatch: pytest.MonkeyPatch
) -> None:
    old(home, n=3)
    monkeypatch.setenv("TASKKIT_RETENTION_RUNS_DAYS", "0")
    head, _, tasks, runs, *_ = done("prune", "--dry-run").out.splitlines()
    assert head.split("  ")[-3:] == ["would be deleted", "because older than", "kept whatever its age"]
    assert tasks.split(maxsplit=2)[1:] == [
        "3", "30d; given up: 90d  tasks that are not over, and periodic ones"
    ]  # fmt: skip
    assert runs.split(maxsplit=2)[1:][0] == "-"
    assert "kept for ever" in runs
    assert "7d; given up: 90d" in done("prune", "--dry-run", "--older-than", "7d").out
    assert "nothing was deleted; what is younger would be kept, too." in done("prune", "--dry-run").out
    monkeypatch.setenv("COLUMNS", "80")
    assert max(map(len, done("prune", "--dry-run").out.splitlines()[:-1])) <= 80


def test_older_than_overrules_the_settings_but_not_for_dead_letters(home: TaskCenter) -> None:
    old(home, Status.SUCCESS, days=3)
    (dead,) = old(home, Status.GIVEN_UP, days=3)
    assert done("prune", "--json").json["tables"]["task_center"]["gone"] == 0
    assert done("prune", "--older-than", "2d", "--json").json["tables"]["task_center"]["gone"] == 1
    assert home.read.task(dead).status is Status.GIVEN_UP


def test_the_settings_decide(home: TaskCenter, monkeypatch: pytest.MonkeyPatch) -> None:
    old(home, days=3, n=3)
    monkeypatch.setenv("TASKKIT_RETENTION_TASKS_DAYS", "0")
    assert done("prune", "--json").json["tables"].get("task_center", {}).get("gone", 0) == 0
    monkeypatch.setenv("TASKKIT_RETENTION_TASKS_DAYS", "2.5")
    monkeypatch.setenv("TASKKIT_RETENTION_CHUNK", "1")
    assert done("prune", "--json").json["tables"]["task_center"]["gone"] == 3


@pytest.mark.parametrize("span", ["0", "0s"])
def test_nothing_is_older_than_nothing(home: TaskCenter, span: str) -> None:
    assert "must be longer than 0" in refused("prune", "--older-than", span)


def test_no_installation_is_made_by_looking(tmp_path: Path) -> None:
    assert "nothing is installed" in refused("prune", code=1)
    assert not (tmp_path / ".taskkit").exists()


@pytest.mark.faults
def test_ctrl_c_stops_at_once_says_what_went_and_the_rest_can_go_later(
    home: TaskCenter, tmp_path: Path
) -> None:
    home.intake.insert([centers.new()] * 3000)
    at = home.database.dialect.bind(home.now() - timedelta(days=40))
    centers.sql(home, "UPDATE task_center SET status = 6, created_at = :at, updated_at = :at", at=at)
    with running("prune", folder=tmp_path, TASKKIT_RETENTION_CHUNK="1") as command:
        wait_until(lambda: left(home) < 2900, 30)
        assert command.end(signal.SIGINT) == 130
        assert "run it again to go on" in command.out.read_text()
        assert 0 < left(home) < 2900
    answer = cli("prune", "--json")
    assert answer.json["tables"]["task_center"]["gone"] > 0
    assert left(home) == 0


# ---- the schedulers


def test_one_scheduler_at_a_time_prunes_and_another_takes_over(center: TaskCenter, monkeypatch: Any) -> None:
    old(center, n=3)
    keep = Retention(chunk=1)
    first, second = Pruner(center, keep, "first"), Pruner(center, keep, "second")
    rests = [first.tick(), second.tick(), second.tick()]
    assert left(center) == 2, "a step at a tick, and none without the lease"
    assert rests[0] < 5 <= rests[1]
    center.nodes.drop_lease("pruner", "first")
    wait_until(lambda: second.tick() > 5, 30)
    assert left(center) == 0


def test_between_two_passes_the_lease_is_kept(center: TaskCenter) -> None:
    pruner = Pruner(center, Retention(), "first")
    wait_until(lambda: pruner.tick() > 5, 30)
    old(center)
    pruner._renew_at = 0
    assert pruner.tick() > 5
    assert left(center) == 1, "the next pass is minutes away"
    assert not center.nodes.take_lease("pruner", "second", 1)
    pruner._begin_at = 0
    wait_until(lambda: pruner.tick() > 5, 30)
    assert left(center) == 0


@pytest.mark.parametrize("broken", ["task_center", "task_run", "task_worker"])
def test_a_table_in_trouble_costs_the_others_nothing_and_waits_for_the_next_pass(
    center: TaskCenter, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    old(center, n=2)
    pruner = Pruner(center, Retention(chunk=1), "first")
    walk, seen = center.retention._walk, []

    def fail(one: Any, n: int, *, dry: bool) -> Iterator[Any]:
        seen.append(one.table)
        if one.table == broken:
            raise RuntimeError("a dropped column")
        yield from walk(one, n, dry=dry)

    monkeypatch.setattr(center.retention, "_walk", fail)
    raised: list[str] = []

    def over() -> bool:
        try:
            return pruner.tick() > 5
        except RuntimeError as error:
            raised.append(str(error))
            return False

    wait_until(over, 30)
    assert raised == ["a dropped column"]
    assert seen[0] == "task_center"
    assert seen[-2:] == ["task_worker", "task_scheduler"]
    assert (len(seen), seen.count(broken)) == (15, 1)
    assert left(center) == (2 if broken == "task_center" else 0)
    assert over(), "the pause between two passes is kept"
    assert len(seen) == 15
    monkeypatch.setattr(center.retention, "_walk", walk)
    pruner._begin_at = 0
    wait_until(over, 30)
    assert (left(center), len(raised)) == (0, 1)


@pytest.mark.faults
def test_schedulers_prune_while_they_dispatch(tmp_path: Path) -> None:
    with Installation(tmp_path) as installation:
        center = installation.kit.center
        center.intake.insert([centers.new()] * 600)
        at = center.database.dialect.bind(center.now() - timedelta(days=40))
        centers.sql(center, "UPDATE task_center SET status = 3, created_at = :at, updated_at = :at", at=at)
        scheduler = installation.scheduler(retention_chunk=50)
        ids = installation.enqueue_many("echo", [{}] * 50)
        installation.wait_all(ids, Status.DISPATCHED)
        wait_until(lambda: left(center) == len(ids), 30)
        assert scheduler.lines(level="error") == []
        wait_until(
            lambda: scheduler.lines(
                message="deleted what was older than its retention: 600 of task_center rows"
            )
        )
        assert scheduler.stop() == 0
        assert center.nodes.take_lease("pruner", "next", 1), "it gave the lease back"
