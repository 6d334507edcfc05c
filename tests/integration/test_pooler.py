"""Behind a pooler that gives each transaction another session, left as somebody else had it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from taskkit import Settings
from taskkit.center import TaskCenter, schema
from taskkit.center.sessions import MYSQL_EXPECTED, MYSQL_SHOW
from taskkit.errors import DatabaseUnavailable, SchemaError
from taskkit.states import Status
from tests.centers import in_status, new, sql, task
from tests.main_path import walk
from tests.pooler import Pooler
from tests.processes import APP, Installation
from tests.proxy import Proxy
from tests.servers import MariaDB, Valkey, fresh_database

pytest_plugins = ["tests.center_fixtures"]
OPTION = "pooler=transaction"


@pytest.fixture
def pooler(mariadb_center_url: str) -> Iterator[Pooler]:
    with Pooler(mariadb_center_url.partition("?")[0]) as found:
        yield found


@pytest.fixture
def pooled(pooler: Pooler) -> Iterator[TaskCenter]:
    """A task center whose transactions have a session each."""
    center = TaskCenter(f"{pooler.url}?{OPTION}")
    yield center
    center.close()


def test_rule_03_rule_24_the_main_path_with_another_session_for_each_transaction(
    pooler: Pooler, pooled: TaskCenter
) -> None:
    walk(pooled)
    assert len(pooler.lent) == 3
    assert min(pooler.lent.values()) > 20, "they took turns"


def test_rule_03_each_transaction_is_read_committed_in_utc_with_short_waits(pooled: TaskCenter) -> None:
    def look(connection: sa.Connection) -> tuple[int, dict[str, str]]:
        number = connection.execute(sa.text("SELECT CONNECTION_ID()")).scalar_one()
        return number, dict(map(tuple, connection.execute(sa.text(MYSQL_SHOW)).all()))  # type: ignore[arg-type]

    seen = [pooled.database.write(look) for _ in range(4)] + [pooled.database.read(look) for _ in range(4)]
    assert len({number for number, _ in seen}) == 3
    for _, settings in seen:
        for title, value in settings.items():
            assert set(value.split(",")) == set(MYSQL_EXPECTED[title].split(",")), title


def test_what_a_failed_transaction_wrote_is_undone_as_a_whole(pooled: TaskCenter) -> None:
    """It begins by itself: without autocommit = 0, which the pooler forgets, each statement would stand alone."""

    def fails(connection: sa.Connection) -> None:
        connection.execute(sa.text("INSERT INTO task_center (task_code) VALUES ('half')"))
        connection.execute(sa.text("INSERT INTO task_center (task_code) VALUES ('other half')"))
        raise ValueError("in the middle")

    with pytest.raises(ValueError, match="in the middle"):
        pooled.database.write(fails)
    assert sql(pooled, "SELECT COUNT(*) FROM task_center") == [(0,)]


def test_without_the_option_the_first_connect_says_what_to_write(pooler: Pooler) -> None:
    center = TaskCenter(pooler.url)
    with pytest.raises(
        DatabaseUnavailable, match=r"pooler in between drops them; write \?pooler=transaction"
    ):
        center.now()
    center.close()


def test_a_session_that_is_lost_later_is_noticed_before_its_work_counts_as_done(
    mariadb_center: TaskCenter,
) -> None:
    """What a pooler does that kept the session at first: now every statement commits by itself."""

    def work(connection: sa.Connection) -> None:
        connection.exec_driver_sql("SET SESSION autocommit = 1")
        connection.exec_driver_sql("INSERT INTO task_center (task_code) VALUES ('alone')")

    with pytest.raises(DatabaseUnavailable, match="committed one by one"):
        mariadb_center.database.write(work)
    assert mariadb_center.intake.insert([new()]), "over a connection that is ours again"


def test_a_pooler_that_passes_on_no_transaction_is_refused(mariadb_center_url: str) -> None:
    """Nothing may be written as if there were one."""
    with Proxy(mariadb_center_url) as proxy:
        proxy.replaced[b"START TRANSACTION"] = b"DO 0             "
        center = TaskCenter(f"{proxy.url}&{OPTION}")
        with pytest.raises(DatabaseUnavailable, match="began no transaction"):
            center.now()
        center.close()


def test_the_schema_is_brought_up_through_the_pooler_by_one_of_two_at_once(mariadb: MariaDB) -> None:
    """CREATE and ALTER commit, so that the pooler takes the connection back in the middle; the lock stays."""
    with fresh_database(mariadb.url) as url, Pooler(url, size=5) as between:
        centers = [TaskCenter(f"{between.url}?{OPTION}") for _ in range(2)]
        found: list[object] = []
        threads = [threading.Thread(target=lambda c=c: found.append(c.upgrade_schema())) for c in centers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == 2
        for center in centers:
            center.check_schema()
        assert task(centers[0], in_status(centers[0], Status.PENDING)).status is Status.PENDING
        for center in centers:
            center.close()


def test_an_upgrade_through_the_pooler_waits_for_another_one(
    pooler: Pooler, pooled: TaskCenter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "WAIT_S", 1)
    other = TaskCenter(f"{pooler.url}?{OPTION}")
    with schema._alone(other.database):
        for _ in range(5):
            other.now()
        with pytest.raises(SchemaError, match="another `taskkit db upgrade`"), schema._alone(pooled.database):
            pass
    with schema._alone(pooled.database):
        pass
    other.close()


def test_locks_of_rows_hold_for_a_whole_transaction(pooled: TaskCenter) -> None:
    (task_id,) = pooled.intake.insert([new()])
    held, done = threading.Event(), threading.Event()

    def hold(connection: sa.Connection) -> None:
        connection.execute(sa.text("SELECT id FROM task_center WHERE id = :i FOR UPDATE"), {"i": task_id})
        held.set()
        assert done.wait(10)

    thread = threading.Thread(target=lambda: pooled.database.write(hold))
    thread.start()
    assert held.wait(10)
    assert pooled.dispatch.claim([task_id]).won == [], "skipped, since it is locked"
    done.set()
    thread.join()
    assert [won.id for won in pooled.dispatch.claim([task_id]).won] == [task_id]


def test_real_processes_behind_the_pooler(
    mariadb: MariaDB, valkey: Valkey, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    """A scheduler and a worker with four children, a limit, retries, an enqueueing handler and a cron, over six sessions."""
    folder = tmp_path_factory.mktemp("pooled")
    with fresh_database(mariadb.url) as url, Pooler(url, size=6) as between:
        home = Installation(folder, settings=settings_of(folder, between, valkey), worker_processes=4)
        with home:
            home.scheduler()
            worker = home.begin("worker", "--app", APP).ready()
            home.kit.operations.set_limit(queue="nap", concurrency=2, actor="test")
            notes = str(tmp_path / "notes")
            ids = home.enqueue_many("echo", [{"value": n} for n in range(300)])
            ids += home.enqueue_many("nap", [{"seconds": 0.05}] * 10)
            ids += home.enqueue_many("fail", [{"path": notes, "succeed_at": 2}] * 5)
            ids += [home.enqueue("follow", {"path": notes})]
            home.enqueue("echo", cron="* * * * * *", timezone="UTC")
            assert {one.status for one in home.wait_all(ids, seconds=60)} == {Status.SUCCESS}
            assert worker.stop() == 0
            troubles = [line for one in home.processes for line in one.lines() if line["level"] == "error"]
            assert troubles == []
        assert len(between.lent) == 6


def settings_of(folder: Path, between: Pooler, valkey: Valkey) -> Settings:
    url = f"{between.url}?{OPTION}"
    return Settings(
        home=folder / "home", database_url=url, redis_url=valkey.url, key_prefix=f"{folder.name}:"
    )
