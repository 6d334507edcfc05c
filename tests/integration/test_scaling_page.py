"""What docs/scaling.md tells people to type does what it says."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from taskkit.center import TaskCenter
from taskkit.center.recovery import Suspect
from taskkit.model import Claimed, Finish, ListName
from taskkit.states import Move, Outcome
from tests.bounded import Bounded
from tests.centers import new, sql, start, succeeded
from tests.commands import cli
from tests.databases import connect, fresh_database
from tests.main_path import walk
from tests.servers import MariaDB

PAGE = Path(__file__).parents[2] / "docs" / "scaling.md"
WORKER = "host:1:first"


def statements(number: int) -> list[str]:
    """The statements of the page's n-th block of SQL."""
    blocks = re.findall(r"^```sql\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [text.strip() for text in blocks[number].split(";") if text.strip()]


def run(url: str, number: int) -> None:
    with contextlib.closing(connect(url)) as link, link.cursor() as cursor:
        for statement in statements(number):
            cursor.execute(statement)


def partitions(center: TaskCenter) -> list[str]:
    asked = (
        "SELECT PARTITION_NAME FROM information_schema.PARTITIONS WHERE TABLE_SCHEMA = DATABASE() "
        "AND TABLE_NAME = 'task_run' ORDER BY PARTITION_ORDINAL_POSITION"
    )
    return [name for (name,) in sql(center, asked)]


@pytest.fixture
def by_day(mariadb: MariaDB, monkeypatch: pytest.MonkeyPatch) -> Iterator[TaskCenter]:
    """A task center whose runs are partitioned by day, after some had been written."""
    with fresh_database(mariadb.url) as url:
        monkeypatch.setenv("TASKKIT_DATABASE_URL", url)
        center = TaskCenter(url)
        center.upgrade_schema()
        start_and_end(center)
        run(url, 0)
        yield center
        center.close()


def start_and_end(center: TaskCenter) -> None:
    tasks = start(center, WORKER, *[new() for _ in range(3)])
    assert center.worker_desk(WORKER).finish([succeeded(task) for task in tasks]) == []


def outcomes(center: TaskCenter, task_id: int) -> list[str]:
    rows = sql(center, "SELECT outcome FROM task_run WHERE task_id = :i ORDER BY attempt", i=task_id)
    return [outcome for (outcome,) in rows]


def test_runs_by_day_keep_one_row_for_each_attempt_on_the_whole_path(by_day: TaskCenter) -> None:
    walk(by_day)
    assert sql(by_day, "SELECT task_id FROM task_run GROUP BY task_id, attempt HAVING COUNT(*) > 1") == []


def test_a_late_end_changes_the_row_of_its_lost_attempt_by_day_too(by_day: TaskCenter) -> None:
    (claimed,) = start(by_day, WORKER)

    def judged(lost: Claimed) -> Finish:
        return Finish(lost, Outcome.LOST, Move.LOSE, 0)

    assert by_day.recovery.lose(WORKER, {claimed.id: 1}, judged)
    assert outcomes(by_day, claimed.id) == ["lost"]
    assert by_day.worker_desk(WORKER).finish([succeeded(claimed)]) != [], "it comes too late"
    assert outcomes(by_day, claimed.id) == ["superseded"]


def test_a_message_that_was_lost_has_one_row_for_its_attempt_by_day_too(by_day: TaskCenter) -> None:
    node = Bounded(by_day)
    (task_id,) = by_day.intake.insert([new()])
    node.scan()
    for _ in range(2):
        by_day.recovery.ring_again([Suspect(task_id, 1, ListName("q"))])
    assert outcomes(by_day, task_id) == ["lost"]


def test_a_day_is_added_and_the_oldest_goes(by_day: TaskCenter, mariadb: MariaDB) -> None:
    url = by_day.database.url.render_as_string(hide_password=False).replace("mysql+pymysql", "mysql")
    assert partitions(by_day) == ["before_all", "p20261201", "later"]
    run(url, 1)
    assert partitions(by_day) == ["p20261201", "p20261202", "later"]
    start_and_end(by_day)


def test_doctor_finds_the_indexes_that_it_looks_for(by_day: TaskCenter) -> None:
    findings: dict[str, Any] = {one["id"]: one for one in cli("doctor", "--json").json["findings"]}
    assert findings["sql.indexes"]["level"] == "ok"
    assert findings["sql.schema"]["level"] == "ok"
