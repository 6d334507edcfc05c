"""What one row or one handler can do to the others: nothing."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from taskkit.center import TaskCenter
from taskkit.errors import PayloadError
from taskkit.model import NewTask
from taskkit.queues import MemoryQueue
from taskkit.registry import Handler, HandlerOptions
from taskkit.scheduler.dispatcher import Dispatcher
from taskkit.settings import Scheduler
from taskkit.states import Status
from tests.processes import ROOT, Stack
from tests.schemas import build
from tests.servers import MariaDB, fresh_database

pytest_plugins = ["tests.stacks"]


@pytest.fixture
def center(database_url: str) -> TaskCenter:
    build(database_url)
    return TaskCenter(database_url)


def dispatch(center: TaskCenter) -> Dispatcher:
    dispatcher = Dispatcher(center, MemoryQueue(), Scheduler())
    for _ in range(5):
        dispatcher.scan()
    return dispatcher


def test_a_row_that_the_database_refuses_to_move_is_held_and_the_others_go(center: TaskCenter) -> None:
    ids = center.intake.insert([NewTask("echo", "{}", "echo") for _ in range(9)])
    refuse = ids[4]
    with center.database.engine.begin() as connection:
        if center.database.sqlite:
            connection.execute(
                sa.text(
                    "CREATE TRIGGER refuse BEFORE UPDATE OF attempt ON task_center "
                    f"WHEN NEW.id = {refuse} BEGIN SELECT RAISE(ABORT, 'out of range'); END"
                )
            )
        else:
            connection.execute(sa.text(f"UPDATE task_center SET attempt = 4294967295 WHERE id = {refuse}"))
    dispatch(center)
    found = {task.id: task for task in center.read.tasks(ids)}
    assert found[refuse].status is Status.HELD
    assert (found[refuse].held_reason or "").startswith("invalid: ")
    assert {found[i].status for i in ids if i != refuse} == {Status.DISPATCHED}
    center.close()


def test_a_retry_that_the_database_refuses_to_move_is_told_once_and_the_others_go(
    center: TaskCenter, caplog: pytest.LogCaptureFixture
) -> None:
    """Only what waits for its first attempt can be held; this one must not be tried, and found by halving, for ever."""
    ids = center.intake.insert([NewTask("echo", "{}", "echo") for _ in range(3)])
    most = 2**63 - 1 if center.database.sqlite else 2**32 - 1
    with center.database.engine.begin() as connection:
        connection.execute(
            sa.text(
                f"UPDATE task_center SET status = 4, attempt = {most}, plan_next_run_at = created_at "
                f"WHERE id = {ids[1]}"
            )
        )
        if center.database.sqlite:
            connection.execute(
                sa.text(
                    "CREATE TRIGGER refuse BEFORE UPDATE OF attempt ON task_center "
                    f"WHEN NEW.id = {ids[1]} BEGIN SELECT RAISE(ABORT, 'out of range'); END"
                )
            )
    dispatcher = dispatch(center)
    found = {task.id: task.status for task in center.read.tasks(ids)}
    assert found == {ids[0]: Status.DISPATCHED, ids[1]: Status.FAILED, ids[2]: Status.DISPATCHED}
    told = [record for record in caplog.records if "nor can it be held" in record.message]
    assert [getattr(record, "task_id", None) for record in told] == [ids[1]]
    assert dispatcher.counters.scans == 5
    center.close()


@pytest.mark.parametrize("column", ["plan_next_run_at", "expires_at"])
def test_a_zero_date_is_refused_where_the_session_would_take_it(mariadb: MariaDB, column: str) -> None:
    with fresh_database(mariadb.url) as url:
        center = TaskCenter(url)
        center.upgrade_schema()
        engine = sa.create_engine(center.database.url)
        with engine.connect() as connection, pytest.raises(DBAPIError, match="ck_"):
            connection.execute(sa.text("SET SESSION sql_mode = ''"))
            connection.execute(
                sa.text(
                    f"INSERT INTO task_center (task_code, {column}) VALUES ('echo', '0000-00-00 00:00:00')"
                )
            )
        engine.dispose()
        center.close()


def test_a_zero_date_that_got_in_all_the_same_stops_nobody(mariadb: MariaDB) -> None:
    with fresh_database(mariadb.url) as url:
        center = TaskCenter(url)
        center.upgrade_schema()
        good = center.intake.insert([NewTask("echo", "{}", "echo")])[0]
        engine = sa.create_engine(center.database.url)
        with engine.begin() as connection:
            connection.execute(sa.text("SET SESSION sql_mode = '', check_constraint_checks = 0"))
            connection.execute(
                sa.text(
                    "INSERT INTO task_center (task_code, queue, plan_next_run_at) "
                    "VALUES ('odd', 'odd', '0000-00-00 00:00:00')"
                )
            )
        engine.dispose()
        dispatch(center)
        assert center.read.task(good).status is Status.DISPATCHED
        assert len(center.read.backlogs()) == 2
        center.close()


def test_a_flood_of_progress_delays_no_end(stack: Stack) -> None:
    flood = stack.home.enqueue("report", {"times": 3000})
    after = stack.home.enqueue("echo", {"value": 1})
    stack.home.wait_all([flood, after])
    assert stack.home.outcomes(flood) == ["success"]


def test_of_a_process_that_a_handler_forks_only_the_original_answers(stack: Stack) -> None:
    ids = [stack.home.enqueue("fork", {"leave": leave}) for leave in (True, False, True, False)]
    ids += [stack.home.enqueue("echo", {"value": n}) for n in range(5)]
    tasks = stack.home.wait_all(ids)
    assert {task.status for task in tasks} == {Status.SUCCESS}
    assert [task.result for task in tasks[:4]] == ['"the original"'] * 4
    assert all(stack.home.outcomes(task.id) == ["success"] for task in tasks)


def test_a_payload_may_have_any_name_and_is_still_refused_by_name() -> None:
    def greet(name: str) -> None: ...

    handler = Handler("greet", greet, HandlerOptions(), lambda *_, **__: 0)
    with pytest.raises(PayloadError, match="self"):
        handler.check_payload({"self": 1, "name": "Ada"})


def test_a_database_that_accepts_and_never_answers_is_found_out(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        env = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "TASKKIT_DATABASE_URL": f"mysql://u:geheim@127.0.0.1:{port}/d",
        }
        done = subprocess.run(
            [sys.executable, "-m", "taskkit.cli", "tasks", "list"],
            env=env, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
    assert done.returncode != 0
    assert done.stderr.startswith("taskkit: ")
    assert len(done.stderr.strip().splitlines()) == 1
    assert f"127.0.0.1:{port}" in done.stderr
    assert "geheim" not in done.stderr
