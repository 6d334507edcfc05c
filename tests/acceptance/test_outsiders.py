"""Rows that others write: a plain INSERT from the mysql client, a cron row with next to nothing, a caller's transaction."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from taskkit.states import Status, TaskType
from tests.processes import Stack
from tests.waiting import wait_until

pytest_plugins = ["tests.stacks"]
Client = Callable[[str], None]


@pytest.fixture
def client(stack: Stack) -> Iterator[Client]:
    """Runs SQL as another program would: the mysql client in a session of +08:00, or Python's sqlite3."""
    url = urlsplit(str(stack.home.settings.database_url or ""))
    if not url.hostname:
        yield lambda text: sqlite_client(stack.home.settings.home / "taskkit.db", text)
        return
    program = shutil.which("mysql") or shutil.which("mariadb")
    if program is None:
        pytest.skip("no mysql client on this machine")
    command = [
        program, f"--host={url.hostname}", f"--port={url.port}", f"--user={url.username}",
        f"--password={url.password}", "--default-character-set=utf8mb4", url.path.lstrip("/"),
    ]  # fmt: skip

    def run(text: str) -> None:
        subprocess.run(
            command, input=f"SET time_zone = '+08:00'; {text}", text=True, check=True, capture_output=True
        )

    yield run


def sqlite_client(file: Path, text: str) -> None:
    connection = sqlite3.connect(file, timeout=10)
    with connection:
        connection.execute(text.replace("NOW()", "datetime('now')"))
    connection.close()


def newest(stack: Stack) -> int:
    with stack.home.kit.center.database.engine.connect() as connection:
        return int(connection.execute(sa.text("SELECT MAX(id) FROM task_center")).scalar_one())


def test_a_plain_insert_of_now_is_started_at_once(stack: Stack, client: Client) -> None:
    client(
        "INSERT INTO task_center (task_code, payload, plan_next_run_at) "
        """VALUES ('echo', '{"value": "支付😀完成"}', NOW());"""
    )
    task_id = newest(stack)
    wait_until(lambda: stack.home.runs(task_id), 10, every=0.02)
    [run] = stack.home.runs(task_id)
    task = stack.home.task(task_id)
    assert task.status is Status.SUCCESS
    assert task.result == '"支付😀完成"'
    assert run.started_at is not None
    assert run.started_at >= task.created_at
    assert task.plan_next_run_at is not None
    assert abs((task.plan_next_run_at - task.created_at).total_seconds()) <= 1.0


def test_rule_21_a_cron_row_with_nothing_but_code_payload_and_expression_is_adopted(
    stack: Stack, client: Client
) -> None:
    client("INSERT INTO task_center (task_code, payload, cron_expr) VALUES ('echo', '{}', '0 3 * * *');")
    task_id = newest(stack)
    wait_until(lambda: stack.home.task(task_id).next_fire_at, 10)
    task = stack.home.task(task_id)
    assert (task.queue, task.task_type, task.timezone) == ("echo", TaskType.PERIODIC, "UTC")
    assert task.plan_next_run_at is not None
    assert (task.plan_next_run_at.hour, task.plan_next_run_at.minute) == (3, 0)
    wait_until(lambda: stack.home.kit.center.read.occurrences(task_id), 10)
    stack.home.kit.operations.cancel(task_id)


def test_rule_23_an_enqueue_in_the_callers_transaction_is_there_if_and_only_if_it_commits(
    stack: Stack,
) -> None:
    engine = sa.create_engine(stack.home.kit.center.database.url)
    producer = stack.home.kit.producer
    try:
        with Session(engine) as session:
            producer.enqueue("echo", {"value": "rolled back"}, connection=session)
            session.rollback()
        with engine.connect() as connection, connection.begin() as transaction:
            producer.enqueue("echo", {"value": "rolled back"}, connection=connection)
            transaction.rollback()
        with Session(engine) as session:
            kept = producer.enqueue("echo", {"value": "kept"}, connection=session)
            session.commit()
        wait_until(lambda: stack.home.task(kept).status is Status.SUCCESS, 10, every=0.02)
        with engine.connect() as connection:
            count = sa.text("SELECT COUNT(*) FROM task_center WHERE payload LIKE :text")
            assert connection.execute(count, {"text": '%"kept"%'}).scalar_one() >= 1
            assert connection.execute(count, {"text": "%rolled back%"}).scalar_one() == 0
    finally:
        engine.dispose()
