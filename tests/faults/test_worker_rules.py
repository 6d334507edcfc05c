"""A worker's first and last steps: its row before the first message, and no message back into a list."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from taskkit.model import ListName, Message
from taskkit.states import Status
from tests.databases import connect
from tests.processes import APP, Installation, on_servers
from tests.servers import MariaDB, Valkey
from tests.waiting import wait_until

pytestmark = pytest.mark.faults


@pytest.fixture
def home(tmp_path: Path, mariadb: MariaDB, valkey: Valkey) -> Iterator[Installation]:
    with on_servers(tmp_path, mariadb.url, valkey.url, worker_processes=1) as one:
        yield one


def push_all(home: Installation, ids: list[int], queue: str) -> None:
    """What a scheduler does, of which there is none here: nobody repairs anything."""
    batch = home.kit.center.dispatch.claim(ids)
    rows = [Message(won.id, won.task_code, won.attempt) for won in batch.won]
    assert home.kit.queue is not None
    assert home.kit.queue.push({ListName(queue): rows}) == {}


def listed(home: Installation, queue: str) -> set[int]:
    assert home.kit.queue is not None
    found = home.kit.queue.listing(ListName(queue))
    assert found is not None
    return {message.task_id for message in found}


def in_status(home: Installation, ids: list[int], status: Status) -> set[int]:
    return {task.id for task in home.kit.center.read.tasks(ids) if task.status is status}


def test_rule_08_a_worker_takes_no_message_before_its_row_is_committed(home: Installation) -> None:
    """Its name is new at every start, so that what an earlier one left behind is never taken for its own."""
    (task_id,) = ids = home.enqueue_many("echo", [{"value": 8}])
    push_all(home, ids, "echo")
    with contextlib.closing(connect(str(home.settings.database_url))) as link, link.cursor() as cursor:
        cursor.execute("LOCK TABLES task_worker WRITE")
        worker = home.begin("worker", "--app", APP, "--queue", "echo")

        def blocked() -> int:
            cursor.execute(
                "SELECT COUNT(*) FROM information_schema.processlist "
                "WHERE db = DATABASE() AND state LIKE 'Waiting for table%'"
            )
            ((count,),) = cursor.fetchall()
            return int(count)

        wait_until(blocked, 30)
        assert listed(home, "echo") == {task_id}
        cursor.execute("UNLOCK TABLES")
    assert home.wait(task_id, seconds=30).status is Status.SUCCESS
    (run,) = home.runs(task_id)
    first = worker.ready().id
    assert run.worker_id == first
    assert worker.stop() == 0
    host, pid, random = first.split(":")
    again = home.worker("--queue", "echo").id.split(":")
    assert again[0] == host
    assert again[1] != pid
    assert again[2] != random


def test_rule_14_what_a_worker_has_taken_goes_back_through_sql_and_never_into_a_list(
    home: Installation, tmp_path: Path
) -> None:
    """Pushed back, a message would stand beside the one that the next dispatch pushes."""
    long = {"seconds": 20, "path": str(tmp_path / "notes")}
    ids = home.enqueue_many("nap", [{"seconds": 0}] * 60 + [long] + [{"seconds": 0}] * 200)
    push_all(home, ids, "nap")
    worker = home.worker("--queue", "nap", "--grace", "0.2")
    wait_until((tmp_path / "notes").exists, 30)
    assert worker.stop(30) == 0
    assert listed(home, "nap") == in_status(home, ids, Status.DISPATCHED)
    assert in_status(home, ids, Status.RUNNING) == set()
    assert in_status(home, ids, Status.PENDING), "something was handed back"
