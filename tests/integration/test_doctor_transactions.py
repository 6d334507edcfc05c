"""``taskkit doctor`` names the transaction that has been open for longest, and how much waits to be purged behind it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import pymysql
import pytest

from taskkit.center import TaskCenter
from taskkit.health import transactions
from tests.centers import new
from tests.commands import cli, done
from tests.databases import connect, fresh_database
from tests.pooler import Pooler
from tests.servers import MariaDB, available
from tests.waiting import wait_until


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """What has been open for a second has been open for long; so much waits to be purged at once."""
    monkeypatch.setattr(transactions, "LONG_S", 1.0)
    monkeypatch.setattr(transactions, "TOO_LONG_S", 2.0)
    monkeypatch.setattr(transactions, "MANY", 150)


@pytest.fixture
def url(mariadb: MariaDB, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with fresh_database(mariadb.url) as found:
        monkeypatch.setenv("TASKKIT_DATABASE_URL", found)
        done("db", "upgrade")
        yield found


@contextlib.contextmanager
def report(url: str) -> Iterator[Any]:
    """A report in REPEATABLE READ that has read something and goes on thinking."""
    with contextlib.closing(connect(url)) as link, link.cursor() as cursor:
        cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        cursor.execute("SELECT COUNT(*) FROM task_center WHERE task_code = 'somebody''s secret'")
        yield link
        link.rollback()


def doctor(name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(one for one in cli("doctor", "--json").json["findings"] if one["id"] == name)
    return found


def said(name: str, text: str) -> dict[str, Any]:
    """The finding, once it says this."""

    def look() -> dict[str, Any] | None:
        found = doctor(name)
        return found if text in found["what"] else None

    found = wait_until(look, 20)
    assert found is not None
    return found


@pytest.mark.usefixtures("soon")
def test_a_report_that_stays_open_is_named_by_its_thread_user_and_age(url: str) -> None:
    assert doctor("sql.transaction")["level"] == "ok"
    with report(url) as link:
        wait_until(lambda: doctor("sql.transaction")["level"] == "warning", 20)
        found = doctor("sql.transaction")
        assert f"thread {link.thread_id()} of taskkit@127.0.0.1, REPEATABLE READ, idle" in found["what"]
        assert "each scan for due tasks steps over" in found["why"]
        assert f"KILL {link.thread_id()}" in found["advice"]
    # the server notices a moment later that its client has gone
    wait_until(lambda: doctor("sql.transaction")["level"] == "ok", 20)


@pytest.mark.usefixtures("soon")
def test_one_that_runs_is_named_with_its_statement_and_no_data_of_it(url: str) -> None:
    center = TaskCenter(url)
    center.intake.insert([new()])
    center.close()
    with contextlib.closing(connect(url)) as link:

        def run() -> None:
            with contextlib.suppress(pymysql.Error), link.cursor() as cursor:
                cursor.execute("SELECT SLEEP(30) FROM task_center WHERE task_code <> 'hunter2'")

        thread = threading.Thread(target=run)
        thread.start()
        found = said("sql.transaction", "SELECT SLEEP(30)")
        assert "running `SELECT SLEEP(30) FROM task_center WHERE task_code <> '…'`" in found["what"]
        assert "hunter2" not in str(found)
        with contextlib.closing(connect(url)) as other, other.cursor() as cursor:
            cursor.execute(f"KILL {link.thread_id()}")
        thread.join()


@pytest.mark.usefixtures("soon")
def test_what_was_changed_since_waits_to_be_purged_and_is_counted(url: str) -> None:
    center = TaskCenter(url)
    (task_id,) = center.intake.insert([new()])
    with report(url), contextlib.closing(connect(url)) as link, link.cursor() as cursor:
        for n in range(200):
            cursor.execute("UPDATE task_center SET last_result = %s WHERE id = %s", [str(n), task_id])
        wait_until(lambda: doctor("sql.purge")["level"] == "note", 20)
        wait_until(lambda: doctor("sql.transaction")["level"] != "ok", 20)
        found = doctor("sql.purge")
        assert int(found["what"].split()[0]) >= 150
        assert "see sql.transaction" in found["advice"]
    wait_until(lambda: doctor("sql.purge")["level"] == "ok", 30)
    center.close()


def test_without_process_the_grant_is_named_and_with_it_all_is_seen(
    url: str, mariadb: MariaDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = url.rpartition("/")[2]
    mariadb.admin(
        "DROP USER IF EXISTS few@'127.0.0.1'",
        "CREATE USER few@'127.0.0.1' IDENTIFIED BY 'few'",
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON `{name}`.* TO few@'127.0.0.1'",
    )
    monkeypatch.setenv("TASKKIT_DATABASE_URL", f"mysql://few:few@127.0.0.1:{mariadb.port}/{name}")
    found = doctor("sql.transaction")
    assert (found["level"], found["what"]) == ("note", "which transactions are open is not known")
    assert doctor("sql.purge")["level"] == "ok", "MariaDB tells this to everybody"
    mariadb.admin(found["advice"])
    assert doctor("sql.transaction")["level"] == "ok"
    mariadb.admin("DROP USER few@'127.0.0.1'")


@pytest.mark.usefixtures("soon")
def test_the_age_is_right_whatever_the_clock_on_the_servers_wall_and_the_last_statement_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """InnoDB tells the beginning in the zone of the machine; performance_schema, where it is on, the last statement."""
    monkeypatch.setenv("TZ", "Asia/Shanghai")
    as_mysql = {"consumer_events_statements_current": "ON", "instrument": "statement/%=ON"}
    options = {"performance_schema": "ON"} | {f"performance_schema_{k}": v for k, v in as_mysql.items()}
    with available(MariaDB, **options) as server:
        server.admin("GRANT SELECT ON performance_schema.* TO taskkit@'127.0.0.1'")
        monkeypatch.setenv("TASKKIT_DATABASE_URL", server.url)
        done("db", "upgrade")
        with report(server.url):
            found = said("sql.transaction", "thread")
            age = int(found["what"].partition("open for ")[2].split()[0])
            assert 1 <= age <= 60
            assert found["what"].partition("open for ")[2].split()[1] == "s:"
            assert "idle after `SELECT COUNT(*) FROM task_center WHERE task_code = '…'`" in found["what"]


def test_a_pooler_in_between_is_found_out(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert doctor("sql.pooler")["level"] == "ok"
    monkeypatch.setenv("TASKKIT_DATABASE_URL", f"{url}?pooler=transaction")
    assert doctor("sql.pooler")["level"] == "note", "one trip for each transaction that nobody needs"
    with Pooler(url) as between:
        monkeypatch.setenv("TASKKIT_DATABASE_URL", f"{between.url}?pooler=transaction")
        assert doctor("sql.pooler")["what"] == "another session for each transaction, set anew each time"
        monkeypatch.setenv("TASKKIT_DATABASE_URL", between.url)
        found = doctor("sql.reachable")
        assert found["level"] == "error"
        assert "write ?pooler=transaction" in found["what"]
