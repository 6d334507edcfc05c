"""Fixtures for tests of the task center: one with its schema and no rows, on each kind of database.

A test module takes them with ``pytest_plugins = ["tests.center_fixtures"]``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from taskkit.center import TaskCenter
from tests.centers import NOON, Clock, on_clock
from tests.conftest import DATABASES, EXTERNAL_DATABASE
from tests.databases import connect, fresh_database
from tests.schemas import build
from tests.servers import MariaDB

TABLES = (
    "task_center task_run task_occurrence task_schedule task_worker task_scheduler task_sample task_lease task_action "
    "task_lock task_once task_limit task_limit_line task_limit_place task_queue "
    "task_watchdog task_rule task_alert task_silence task_notice task_notice_alert task_delivery task_robot"
).split()


@pytest.fixture(scope="session")
def mariadb_schema(mariadb: MariaDB) -> Iterator[str]:
    """A database of the session's MariaDB with the schema; without TLS, whose set-up costs 0.1 s a connection."""
    with fresh_database(mariadb.url) as url:
        build(f"{url}?ssl_disabled=1")
        yield f"{url}?ssl_disabled=1"


@pytest.fixture(scope="session")
def external_schema() -> Iterator[str]:
    """A database of the server of TASKKIT_TEST_DATABASE_URL with the schema."""
    assert EXTERNAL_DATABASE is not None
    with fresh_database(EXTERNAL_DATABASE) as url:
        build(url)
        yield url


@pytest.fixture
def sqlite_center_url(tmp_path: Path) -> str:
    """A SQLite file with the schema and no rows."""
    url = f"sqlite:///{tmp_path}/center.db"
    build(url)
    return url


@pytest.fixture
def mariadb_center_url(mariadb_schema: str) -> str:
    """A database of the session's MariaDB with the schema and no rows."""
    empty(mariadb_schema)
    return mariadb_schema


@pytest.fixture(params=DATABASES)
def center_url(request: pytest.FixtureRequest) -> str:
    """A database of each kind with the schema and no rows."""
    if request.param != "external":
        return str(request.getfixturevalue(f"{request.param}_center_url"))
    if urlsplit(EXTERNAL_DATABASE or "").scheme.startswith("sqlite"):
        return str(request.getfixturevalue("sqlite_center_url"))
    url = str(request.getfixturevalue("external_schema"))
    empty(url)
    return url


@pytest.fixture
def center(center_url: str) -> Iterator[TaskCenter]:
    """A task center on an empty database of each kind."""
    opened = TaskCenter(center_url)
    yield opened
    opened.close()


@pytest.fixture
def mariadb_center(mariadb_center_url: str) -> Iterator[TaskCenter]:
    """A task center on the session's MariaDB."""
    opened = TaskCenter(mariadb_center_url)
    yield opened
    opened.close()


def empty(url: str) -> None:
    with contextlib.closing(connect(url, ssl_disabled=True)) as link, link.cursor() as cursor:
        cursor.execute("BEGIN")
        for table in TABLES:
            cursor.execute(f"DELETE FROM {table}")
        cursor.execute("COMMIT")


@pytest.fixture
def clock() -> Clock:
    return Clock(NOON)


@pytest.fixture
def moving(center_url: str, clock: Clock) -> Iterator[TaskCenter]:
    """A task center whose database believes in ``clock``."""
    center = on_clock(center_url, clock)
    yield center
    center.close()
