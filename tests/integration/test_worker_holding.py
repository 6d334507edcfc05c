"""Rule 18: what SQL says a worker runs and the worker does not hold is handed back, and nothing else is."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from taskkit.states import Outcome, Status
from taskkit.worker.hub import TOO_MUCH
from tests.centers import sql
from tests.processes import APP, Installation, Process, on_servers
from tests.servers import MariaDB, Valkey, available
from tests.waiting import wait_until

pytest_plugins = ["tests.stacks"]
LOOK_S = 0.4
HELD_BY = (
    "UPDATE task_center SET status = 2, attempt = 1, worker_id = :worker, claimed_at = {now} WHERE id = :id"
)


@pytest.fixture(params=["sqlite", "servers"])
def home(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Installation]:
    """An installation with a database of its own, which a test may break."""
    monkeypatch.setenv("FAST_LOOK_S", str(LOOK_S))
    folder = tmp_path_factory.mktemp("holding")
    if request.param == "sqlite":
        with Installation(folder) as found:
            yield found
        return
    with (
        available(MariaDB) as database,
        available(Valkey) as broker,
        on_servers(folder, database.url, broker.url) as found,
    ):
        found.servers["database"] = database
        yield found


def start(home: Installation) -> Process:
    home.modules["worker"] = "tests.fast_worker"
    home.scheduler(scheduler_dead_after_s=3600)
    return home.begin("worker", "--app", APP, "--processes", "2").ready()


def test_rule_18_a_row_that_its_worker_does_not_hold_is_handed_back_uncounted(home: Installation) -> None:
    """The reason says so; afterwards it runs like any other."""
    worker = start(home)
    task_id = home.enqueue("echo", {"value": "found again"}, delay=3600)
    sql(home.kit.center, HELD_BY, worker=worker.id, id=task_id)
    wait_until(lambda: home.outcomes(task_id))
    (run,) = home.runs(task_id)
    assert (run.outcome.value, run.attempt, run.worker_id) == ("handed_back", 1, worker.id)
    assert run.error == "handed back: its worker did not hold it any more, in two looks"
    task = home.task(task_id)
    assert (task.status, task.retry_count) == (Status.PENDING, 0)
    assert worker.lines(level="error", task_id=task_id)
    sql(home.kit.center, "UPDATE task_center SET plan_next_run_at = {now} WHERE id = :id", id=task_id)
    assert home.wait(task_id).status is Status.SUCCESS


def test_rule_18_what_runs_waits_or_is_written_is_never_handed_back(
    home: Installation, tmp_path: Path
) -> None:
    """Long tasks, and short ones that flow by, through many looks."""
    worker, notes = start(home), tmp_path / "notes"
    long = home.enqueue_many("nap", [{"seconds": 8 * LOOK_S}] * 2)
    flow = home.enqueue_many("mark", [{"path": str(notes)}] * 300)
    home.wait_all([*long, *flow])
    assert {tuple(home.outcomes(task_id)) for task_id in long} == {("success",)}
    runs = home.kit.center.read.runs(flow)
    assert sorted(run.task_id for run in runs if run.outcome is Outcome.SUCCESS) == sorted(flow)
    assert len(notes.read_text().splitlines()) == len(flow)
    # the naps were not known to be long: what was fetched to follow them goes back for that, and for nothing else
    assert {run.error for run in runs if run.outcome is not Outcome.SUCCESS} <= {TOO_MUCH.text}
    assert worker.lines(level="error") == []


def test_rule_18_ends_that_wait_for_sql_are_held(home: Installation, tmp_path: Path) -> None:
    """An outage longer than two looks: what ended meanwhile is written once SQL is back, and runs once."""
    database = home.servers.get("database")
    if database is None:
        pytest.skip("SQLite is not a server that can go away")
    worker, notes = start(home), tmp_path / "notes"
    ids = home.enqueue_many("nap", [{"seconds": 1, "path": str(notes)}] * 2)
    wait_until(lambda: notes.exists() and len(notes.read_text().splitlines()) == 2)
    home.wait_all(ids, Status.RUNNING)
    database.kill()
    wait_until(lambda: {line["task_id"] for line in worker.lines(outcome="success")} >= set(ids))
    time.sleep(4 * LOOK_S)  # looks that find no SQL
    database.start()
    home.wait_all(ids)
    assert {tuple(home.outcomes(task_id)) for task_id in ids} == {("success",)}
    assert len(notes.read_text().splitlines()) == 2
    assert not [line for line in worker.lines(level="error") if "does not hold" in line["message"]]
