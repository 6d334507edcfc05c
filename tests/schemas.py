"""The newest schema in an empty database, copied: walking through the migrations each time is a tenth of a test run."""

from __future__ import annotations

import atexit
import contextlib
import shutil
import tempfile
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

from taskkit.center import TaskCenter
from tests.databases import connect, fresh_database

SQLITE = "sqlite:///"


@contextlib.contextmanager
def on_sqlite(folder: Path, clock: Callable[[], datetime]) -> Iterator[TaskCenter]:
    """A task center in a file of this folder, whose database believes in ``clock``."""
    url = f"{SQLITE}{folder / 'center.db'}"
    build(url)
    center = TaskCenter(url, clock=clock)
    yield center
    center.close()


def build(url: str) -> None:
    """Do to a database what ``upgrade_schema`` does to an empty one, which makes the first of each kind; nothing if it has one."""
    if url.startswith(SQLITE):
        path = Path(url.removeprefix(SQLITE))
        if path.exists():
            return
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        shutil.copy(_file(), path)
        return
    if "pooler=" in url:  # which leads to one database only
        upgrade(url)
        return
    with contextlib.closing(connect(url)) as link, link.cursor() as cursor:
        if cursor.execute("SHOW TABLES LIKE 'task\\_schema'"):
            return
        for statement in _script(urlsplit(url)._replace(path="/").geturl()):
            cursor.execute(statement)


def upgrade(url: str) -> None:
    """Walk through the migrations."""
    with contextlib.closing(TaskCenter(url)) as center:
        center.upgrade_schema()


@cache
def _file() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="taskkit-schema-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    upgrade(f"{SQLITE}{folder}/taskkit.db")
    return folder / "taskkit.db"


@cache
def _script(server: str) -> list[str]:
    """The statements that make it on this server, which is known by its URL: its tables, and the revision."""
    with (
        fresh_database(server) as url,
        contextlib.closing(connect(url)) as link,
        link.cursor() as cursor,
    ):
        upgrade(url)
        cursor.execute("SHOW TABLES")
        names = [str(name) for (name,) in cursor.fetchall()]
        script = []
        for name in names:
            cursor.execute(f"SHOW CREATE TABLE `{name}`")
            script.append(str(cursor.fetchall()[0][1]))
            cursor.execute(f"SELECT COUNT(*) FROM `{name}`")
            assert cursor.fetchall()[0][0] == (name == "task_schema"), (
                f"{name} has rows that would not be copied"
            )
        cursor.execute("SELECT version_num FROM task_schema")
        return [*script, f"INSERT INTO task_schema VALUES ('{cursor.fetchall()[0][0]}')"]
