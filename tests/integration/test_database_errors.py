"""The session of our connections, forks and locked files, many at once, and errors in one line."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa

from taskkit.center import TaskCenter
from taskkit.errors import DatabaseUnavailable, StoreError
from taskkit.model import Message
from taskkit.states import Status
from tests.centers import at_once, dispatch, in_child, messages, new, sql, succeeded
from tests.proxy import Proxy
from tests.servers import MariaDB

pytest_plugins = ["tests.center_fixtures"]


def test_rule_03_rule_24_every_connection_has_our_session_and_holds_no_transaction_open(
    mariadb_center: TaskCenter, mariadb: MariaDB
) -> None:
    """UTC, READ COMMITTED and short waits for locks, whatever the server's own defaults are."""
    shown = "SHOW SESSION VARIABLES WHERE Variable_name IN :names"
    right = {
        "time_zone": "+00:00", "tx_isolation": "READ-COMMITTED", "innodb_lock_wait_timeout": "10",
        "lock_wait_timeout": "30", "character_set_connection": "utf8mb4", "idle_transaction_timeout": "30",
    }  # fmt: skip
    text = sa.text(shown).bindparams(sa.bindparam("names", list(right), expanding=True))
    rows = mariadb_center.database.read(lambda c: c.execute(text).all())
    assert dict(map(tuple, rows)) == right
    mariadb_center.read.counts()
    mariadb_center.intake.insert([new()])
    assert mariadb.admin("SELECT COUNT(*) FROM information_schema.innodb_trx") == [(0,)]


@pytest.mark.parametrize(
    ("sent", "arrives", "told"),
    [
        (b"time_zone = '+00:00'", b"time_zone = '+08:00'", r"time_zone \+08:00"),
        (b"innodb_lock_wait_timeout = 10", b"innodb_lock_wait_timeout = 50", "innodb_lock_wait_timeout 50"),
        (b"LEVEL READ COMMITTED", b"LEVEL SERIALIZABLE  ", "tx_isolation SERIALIZABLE"),
    ],
)
def test_rule_03_rule_24_a_pooler_that_drops_our_session_settings_is_noticed(
    mariadb_center_url: str, sent: bytes, arrives: bytes, told: str
) -> None:
    with Proxy(mariadb_center_url) as proxy:
        proxy.replaced[sent] = arrives
        center = TaskCenter(proxy.url)
        with pytest.raises(
            DatabaseUnavailable, match=rf"did not hold \({told}\): a pooler in between drops them"
        ):
            center.now()
        center.close()


def test_sql_04_new_rows_are_seen_by_the_next_statement_of_a_reading(center: TaskCenter) -> None:
    """No snapshot stays open from one look to the next."""

    def look(connection: sa.Connection) -> list[int]:
        text = sa.text("SELECT COUNT(*) FROM task_center")
        counts = [connection.execute(text).scalar_one()]
        center.intake.insert([new()])
        return [*counts, connection.execute(text).scalar_one()]

    assert center.database.read(look) == [0, 1]


def test_sql_08_children_that_inherit_a_warm_pool_share_no_connection_with_anyone(
    center: TaskCenter, tmp_path: Path
) -> None:
    """Children that end in order or by SIGKILL, while the parent goes on."""
    number = "SELECT 0" if center.database.sqlite else "SELECT CONNECTION_ID()"
    sql(center, number)
    ((mine,),) = sql(center, number)
    ends = [lambda: None, lambda: os.kill(os.getpid(), signal.SIGKILL), lambda: sys.exit(0)]

    def act(child: int) -> None:
        own = {sql(center, number)[0][0] for _ in range(20)}
        for _ in range(20):
            center.intake.insert([new(f"child-{child}")])
        (tmp_path / f"child-{child}").write_text(",".join(map(str, own)))

    pids = [in_child(lambda n=n: act(n), ends[n % 3]) for n in range(6)]  # type: ignore[misc]
    for _ in range(20):
        center.intake.insert([new("parent")])
    statuses = [os.waitpid(pid, 0)[1] for pid in pids]
    assert statuses == [0, signal.SIGKILL, 0] * 2
    seen = [(tmp_path / f"child-{n}").read_text() for n in range(6)]
    if not center.database.sqlite:
        assert len({mine, *map(int, seen)}) == 7
        assert sql(center, number) == [(mine,)]
    counts = dict(map(tuple, sql(center, "SELECT task_code, COUNT(*) FROM task_center GROUP BY task_code")))
    assert counts == {f"child-{n}": 20 for n in range(6)} | {"parent": 20}
    assert center.database.counters == {}


HOLD = """
import sqlite3, sys, time
link = sqlite3.connect(sys.argv[1], isolation_level=None)
link.execute("BEGIN IMMEDIATE")
print("held", flush=True)
time.sleep(3)
link.execute("COMMIT")
"""


def test_sql_10_a_sqlite_file_that_another_process_locks_for_three_seconds_is_waited_for(
    sqlite_center_url: str, tmp_path: Path
) -> None:
    center = TaskCenter(sqlite_center_url)
    ids = center.intake.insert([new()] * 2)
    command = [sys.executable, "-S", "-c", HOLD, str(tmp_path / "center.db")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        acts: list[Callable[[], object]] = [
            lambda: center.intake.insert([new()]),
            lambda: center.dispatch.claim(ids[:1]),
            lambda: center.people.cancel(ids[1], "ann"),
        ]
        at_once(3, lambda n: acts[n]())
    assert [one.status for one in center.read.tasks([*ids, ids[1] + 1])] == [1, 6, 0]
    assert center.database.counters == {}
    center.close()


def crew(url: str, waiting: queue.Queue[Message | None], stop: threading.Event, number: int) -> None:
    """One scheduler (the first two) or worker; schedulers hand over in threads what a broker would."""
    center = TaskCenter(url)
    if number < 2:
        while not stop.is_set():
            for message in messages(dispatch(center, n=40)):
                waiting.put(message)
            time.sleep(0.01)
    else:
        desk = center.worker_desk(f"host:{number}:a")
        while (message := waiting.get()) is not None:
            desk.finish([succeeded(claimed) for claimed in desk.claim([message]).won])
    center.close()


def backwards(url: str, stop: threading.Event) -> None:
    """A side session that writes the same rows in reverse order, so that others meet deadlocks."""
    center = TaskCenter(url)
    while not stop.is_set():
        with center.database.engine.connect() as connection:
            try:
                for (task_id,) in connection.execute(
                    sa.text("SELECT id FROM task_center WHERE status < 3 ORDER BY id DESC LIMIT 30")
                ).all():
                    connection.execute(
                        sa.text("UPDATE task_center SET trace_id = 'x' WHERE id = :i"), {"i": task_id}
                    )
                connection.commit()
            except sa.exc.DBAPIError:
                connection.rollback()
    center.close()


def test_sql_01_d_sql_10_two_schedulers_and_four_workers_end_every_task_once_whatever_disturbs_them(
    center_url: str,
) -> None:
    """On MariaDB beside a session that provokes deadlocks; on SQLite in one file."""
    center, stop = TaskCenter(center_url), threading.Event()
    ids = center.intake.insert([new()] * 120)
    waiting: queue.Queue[Message | None] = queue.Queue()
    threads = [threading.Thread(target=crew, args=(center_url, waiting, stop, n)) for n in range(6)]
    if not center.database.sqlite:
        threads.append(threading.Thread(target=backwards, args=(center_url, stop)))
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 60
    while center.read.counts()[Status.SUCCESS] < len(ids) and time.monotonic() < deadline:
        time.sleep(0.02)
    stop.set()
    for _ in range(4):
        waiting.put(None)
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads)
    assert center.read.counts()[Status.SUCCESS] == len(ids)
    assert [(run.task_id, run.attempt) for run in center.read.runs(ids)] == [(i, 1) for i in ids]
    center.close()


PASSWORD = "hunter2-never-show"


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("mysql://taskkit:{p}@127.0.0.1:1/taskkit_test", "127.0.0.1:1/taskkit_test: Can't connect.*host and port"),
        ("mysql://taskkit:{p}@127.0.0.1:{port}/taskkit_test", "Access denied for user 'taskkit'.*check user, password"),
        ("mysql://taskkit:{p}@no.such.host.invalid/x", "no.such.host.invalid:3306/x: Can't connect"),
        ("mysql://taskkit:taskkit@127.0.0.1:{port}/taskkit_none", "taskkit_none.*check user, password, database"),
        ("mysql://taskkit:taskkit@127.0.0.1:{port}/other", "Access denied.*to database 'other'"),
    ],
    ids=["unreachable", "wrong password", "unknown host", "unknown database", "no grant"],
)  # fmt: skip
def test_what_keeps_us_from_the_server_is_told_in_one_line_without_the_password(
    mariadb: MariaDB, url: str, told: str
) -> None:
    center = TaskCenter(url.format(p=PASSWORD, port=mariadb.port))
    began = time.monotonic()
    for act in (center.check_schema, center.upgrade_schema, lambda: center.intake.insert([new()])):
        with pytest.raises(DatabaseUnavailable, match=told) as raised:
            act()
        assert "\n" not in str(raised.value)
        assert PASSWORD not in str(raised.value) + repr(center) + repr(center.database)
    assert time.monotonic() - began < 20
    center.close()


@pytest.mark.parametrize(
    ("path", "told"),
    [
        (
            "file.txt/center.db",
            "database folder .*/file.txt: cannot make it: .*; check that the file and its folder exist",
        ),
        ("file.txt", "file is not a database.*check that the file"),
        ("folder", "unable to open database file.*check that the file"),
    ],
)
def test_what_keeps_us_from_a_sqlite_file_is_told_in_one_line(tmp_path: Path, path: str, told: str) -> None:
    (tmp_path / "file.txt").write_text("not a database, but long enough to look at it as at one" * 20)
    (tmp_path / "folder").mkdir()
    with pytest.raises(DatabaseUnavailable, match=told) as raised:
        TaskCenter(f"sqlite:///{tmp_path}/{path}").upgrade_schema()
    assert "\n" not in str(raised.value)


def test_an_error_that_repeating_cannot_help_is_told_and_not_repeated(center: TaskCenter) -> None:
    attempts: list[int] = []

    def work(connection: sa.Connection) -> None:
        attempts.append(1)
        connection.execute(sa.text("SELECT nonsense("))

    with pytest.raises(StoreError) as raised:
        center.database.write(work)
    assert (len(attempts), "\n" in str(raised.value)) == (1, False)
