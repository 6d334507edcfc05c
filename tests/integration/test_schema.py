"""The schema: one command brings it up, whoever runs it at once; impossible rows are refused by the database."""

from __future__ import annotations

import ast
import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.exc import DBAPIError

from taskkit.center import TaskCenter, schema
from taskkit.center.schema import HEAD
from taskkit.errors import DatabaseUnavailable, SchemaError, StoreError
from taskkit.states import Status
from tests.centers import (
    at_once,
    columns,
    in_child,
    in_status,
    new,
    plain_insert,
    sql,
    start,
    succeeded,
    task,
)
from tests.schemas import build
from tests.servers import MariaDB, fresh_database
from tests.waiting import wait_until

pytest_plugins = ["tests.center_fixtures"]

MIGRATIONS = Path(schema.__file__).parent / "migrations" / "versions"
LATER_MIGRATIONS = sorted(path for path in MIGRATIONS.glob("[0-9]*.py") if not path.name.startswith("0001"))

TABLES = {
    "task_center", "task_run", "task_worker", "task_occurrence", "task_sample", "task_schedule",
    "task_scheduler", "task_lease", "task_action", "task_installation", "task_schema", "task_lock", "task_once",
    "task_limit", "task_limit_line", "task_limit_place", "task_queue", "task_watchdog", "task_rule", "task_alert",
    "task_silence", "task_notice", "task_notice_alert", "task_delivery", "task_robot",
}  # fmt: skip


@pytest.fixture
def bare(database_url: str) -> Iterator[TaskCenter]:
    """A task center on a database without a schema."""
    center = TaskCenter(database_url)
    yield center
    center.close()


def test_the_copy_that_other_tests_start_from_is_what_the_migrations_make(
    bare: TaskCenter, database_url: str, tmp_path: Path
) -> None:
    bare.upgrade_schema()
    with contextlib.ExitStack() as stack:
        url = f"sqlite:///{tmp_path}/copy.db"
        if not bare.database.sqlite:
            url = stack.enter_context(fresh_database(database_url))
        build(url)
        build(url)
        copy = stack.enter_context(contextlib.closing(TaskCenter(url)))
        assert shown_tables(copy) == shown_tables(bare)
        assert copy.upgrade_schema() == (HEAD, HEAD)


def shown_tables(center: TaskCenter) -> dict[str, str]:
    """Every table and index, as the database itself describes it."""
    read = center.database.read
    if center.database.sqlite:
        rows = read(lambda c: c.execute(sa.text("SELECT name, sql FROM sqlite_master")).all())
        return {name: str(text) for name, text in rows}
    names = sa.inspect(center.database.engine).get_table_names()
    return {
        name: read(lambda c, n=name: c.execute(sa.text(f"SHOW CREATE TABLE `{n}`")).one()[1])
        for name in names
    }


def test_rule_28_one_command_brings_up_the_schema_and_a_second_time_does_nothing(bare: TaskCenter) -> None:
    assert bare.schema_revision() is None
    with pytest.raises(SchemaError, match="run `taskkit db upgrade`"):
        bare.check_schema()
    with pytest.raises(SchemaError, match=r"task_center.*run `taskkit db upgrade`"):
        bare.intake.insert([new()])
    assert bare.upgrade_schema() == (None, HEAD)
    assert set(sa.inspect(bare.database.engine).get_table_names()) == TABLES
    (task_id,) = bare.intake.insert([new()])
    assert bare.upgrade_schema() == (HEAD, HEAD)
    bare.check_schema()
    assert task(bare, task_id).status == Status.PENDING
    keeps_its_revision_rules(bare)


def keeps_its_revision_rules(center: TaskCenter) -> None:
    """An old schema is refused, the next one is not (a rolling upgrade), what comes later or is no number is."""
    for revision, message in (
        (version(-1), f"needs {HEAD}; run `taskkit db upgrade`"),
        (version(+2), "too new for this taskkit"),
        ("abcd", "which no taskkit wrote"),
    ):
        sql(center, "UPDATE task_schema SET version_num = :r", r=revision)
        with pytest.raises(SchemaError, match=message):
            center.check_schema()
    sql(center, "UPDATE task_schema SET version_num = :r", r=version(+1))
    center.check_schema()
    assert center.upgrade_schema() == (version(+1), version(+1))


def test_rule_28_this_code_does_its_work_on_the_schema_of_the_next_version(bare: TaskCenter) -> None:
    """A rolling upgrade: the new version has added its columns and tables, the old processes go on."""
    bare.upgrade_schema()
    sql(bare, "CREATE TABLE task_future (id INTEGER PRIMARY KEY)")
    sql(bare, "ALTER TABLE task_center ADD COLUMN future_column VARCHAR(20) NOT NULL DEFAULT 'later'")
    sql(bare, "UPDATE task_schema SET version_num = :r", r=version(+1))
    bare.check_schema()
    (claimed,) = start(bare, "host:1:a", new())
    assert bare.worker_desk("host:1:a").finish([succeeded(claimed)]) == []
    bare.plan.sweep()
    assert task(bare, claimed.id).status == Status.SUCCESS
    assert columns(bare, claimed.id, "future_column") == ("later",)


@pytest.mark.parametrize("path", LATER_MIGRATIONS, ids=[path.stem for path in LATER_MIGRATIONS])
def test_rule_28_a_migration_only_adds(path: Path) -> None:
    """What it would take away, processes of the version before still use."""
    (upgrade,) = [
        node
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name == "upgrade"
    ]
    calls = {ast.unparse(node.func) for node in ast.walk(upgrade) if isinstance(node, ast.Call)}
    assert not [call for call in calls if "drop" in call or "rename" in call or "alter" in call], calls


def version(difference: int) -> str:
    """The revision so many after the one this code was made for."""
    return f"{int(HEAD) + difference:04d}"


def test_an_upgrade_that_was_killed_between_two_steps_goes_on(bare: TaskCenter) -> None:
    bare.upgrade_schema()
    on = "" if bare.database.sqlite else " ON task_once"
    for remains in (f"DROP INDEX ix_once_done{on}", "DROP TABLE task_once"):
        sql(bare, remains)
        sql(bare, "UPDATE task_schema SET version_num = '0001'")
        assert bare.upgrade_schema() == ("0001", HEAD)
        indexes = sa.inspect(bare.database.engine).get_indexes("task_once")
        assert [index["name"] for index in indexes] == ["ix_once_done"]


def test_what_a_killed_upgrade_left_behind_is_said_in_one_line(bare: TaskCenter) -> None:
    sql(bare, "CREATE TABLE task_center (id INTEGER)")
    with pytest.raises(SchemaError, match="an upgrade was cut short") as raised:
        bare.upgrade_schema()
    assert "\n" not in str(raised.value)


def test_an_upgrade_that_fails_says_why_in_one_line(bare: TaskCenter) -> None:
    sql(bare, "CREATE TABLE task_run (id INTEGER)")
    with pytest.raises(StoreError, match="task_run") as raised:
        bare.upgrade_schema()
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("remains", "verb", "table"),
    [
        ("ALTER TABLE task_worker DROP COLUMN lost_at", "ALTER", "task_worker"),
        ("DROP INDEX ix_once_done ON task_once", "CREATE", "task_once"),
    ],
)
def test_an_upgrade_behind_an_open_transaction_says_what_it_waits_for(
    mariadb: MariaDB, remains: str, verb: str, table: str
) -> None:
    """A SELECT is enough: it holds the table's definition until its transaction ends."""
    with fresh_database(mariadb.url) as url, contextlib.closing(TaskCenter(url)) as bare:
        bare.upgrade_schema()
        sql(bare, remains)
        sql(bare, "UPDATE task_schema SET version_num = '0001'")
        event.listen(
            bare.database.engine, "begin", lambda c: c.exec_driver_sql("SET SESSION lock_wait_timeout = 1")
        )
        other = sa.create_engine(bare.database.url)
        with other.connect() as reader:
            reader.exec_driver_sql(f"SELECT COUNT(*) FROM {table}")
            with pytest.raises(DatabaseUnavailable) as raised:
                bare.upgrade_schema()
            said = str(raised.value)
            assert f"the {verb} waited for a metadata lock: a transaction that has used {table}," in said
            assert "SHOW PROCESSLIST" in said
            assert "these rows" not in said
            assert "\n" not in said
            (holder,) = reader.exec_driver_sql("SELECT CONNECTION_ID()").one()
            found = sql(bare, schema.OPEN_TRANSACTIONS)
            assert holder in [row[0] for row in found], "what it advises to look for is found there"
        other.dispose()
        assert bare.upgrade_schema() == ("0001", HEAD)


def test_several_that_upgrade_at_once_make_one_schema(database_url: str) -> None:
    """Also while the file is new: its switch to WAL wants it for itself; whoever comes second must wait, not fail."""

    def act(_: int) -> int:
        center = TaskCenter(database_url)
        center.upgrade_schema()
        center.check_schema()
        (task_id,) = center.intake.insert([new()])
        center.close()
        return task_id

    assert sorted(at_once(4, act)) == [1, 2, 3, 4]


def test_processes_that_upgrade_a_file_at_once_make_one_schema(tmp_path: Path) -> None:
    """Locks of a file are those of a process, so threads alone prove nothing about it."""
    url, gate = f"sqlite:///{tmp_path}/new.db", tmp_path / "gate"

    def act() -> None:
        wait_until(gate.exists, every=0.001)
        center = TaskCenter(url)
        center.upgrade_schema()
        center.check_schema()
        center.close()

    pids = [in_child(act) for _ in range(3)]
    gate.touch()
    assert [os.waitpid(pid, 0)[1] for pid in pids] == [0, 0, 0]


PERIODIC = {"task_type": 1, "cron_expr": "* * * * *"}
RUNNING = {"status": 2, "worker_id": "w", "claimed_at": "2026-01-01 00:00:00"}
DISPATCHED = {"status": 1, "dispatched_at": "2026-01-01 00:00:00", "attempt": 1, "list_name": "q:5"}
IMPOSSIBLE = {
    "no code": {"task_code": ""},
    "unknown status": {"status": 8},
    "unknown type": {"task_type": 3},
    "unknown priority": {"priority": 10},
    "no time to run": {"timeout": 0},
    "negative delay": {"delay": -1},
    "negative retries": {"max_retry": -1},
    "more retries than counted": {"max_retry": 256},
    "more retries than can be": {"retry_count": 256},
    "payload that is no JSON": {"payload": "{'a': 1}"},
    "payload with NaN": {"payload": '{"x": NaN}'},
    "dispatched nowhere": DISPATCHED | {"list_name": None},
    "dispatched at no time": DISPATCHED | {"dispatched_at": None},
    "dispatched as no attempt": DISPATCHED | {"attempt": 0},
    "running by nobody": RUNNING | {"worker_id": None},
    "running since never": RUNNING | {"claimed_at": None},
    "held for no reason": {"status": 7},
    "periodic without a schedule": {"task_type": 1},
    "periodic and finished": PERIODIC | {"status": 3},
    "periodic and given up": PERIODIC | {"status": 5},
    "unknown misfire policy": {"misfire": "never"},
    "unknown gap policy": {"dst_gap": "before"},
    "unknown overlap policy": {"dst_overlap": "third"},
    "priority that is no number": {"priority": "high"},
    "delay that is no number": {"delay": "soon"},
}


def test_no_impossible_row_can_be_written(center: TaskCenter) -> None:
    taken = {}
    for name, values in IMPOSSIBLE.items():
        try:
            plain_insert(center, **({"task_code": "mail"} | values))
        except DBAPIError:
            continue
        taken[name] = values
    assert taken == {}
    for values in (PERIODIC, RUNNING, DISPATCHED, {"status": 7, "held_reason": "x"}, {"max_retry": 255}):
        assert plain_insert(center, **({"task_code": "mail"} | values))


def test_rule_11_guarantee_4_a_run_and_an_occurrence_can_be_written_once_only(center: TaskCenter) -> None:
    run = (
        "INSERT INTO task_run (task_id, attempt, task_code, queue, outcome) VALUES (1, {0}, 'm', 'q', '{1}')"
    )
    fire = "INSERT INTO task_occurrence (task_id, planned_at, state, fired_at) VALUES (1, '2026-01-01 00:00:00', {0})"
    sql(center, run.format(1, "success"))
    sql(center, fire.format("'planned', NULL"))
    for refused in (
        run.format(1, "failed"),
        run.format(0, "failed"),
        run.format(2, "wonderful"),
        fire.format("'planned', NULL"),
        fire.replace("2026-01-01", "2026-01-02").format("'fired', NULL"),
        fire.replace("2026-01-01", "2026-01-02").format("'perhaps', NULL"),
    ):
        with pytest.raises(DBAPIError):
            sql(center, refused)


def test_impossible_rows_of_alerts_are_refused(center: TaskCenter) -> None:
    alert = "INSERT INTO task_alert (rule, open_key, state, severity) VALUES ('backlog', '{0}', '{1}', '{2}')"
    notice = "INSERT INTO task_notice (uuid, receiver, severity, state, body) VALUES ('{0}', 'ops', 'note', '{1}', '{{}}')"
    silence = (
        "INSERT INTO task_silence (ends_at, author, reason) VALUES ('2036-01-01 00:00:00', 'ada', '{0}')"
    )
    rule = "INSERT INTO task_rule (rule, state) VALUES ('backlog', '{0}')"
    for taken in (
        alert.format("backlog|", "firing", "critical"),
        notice.format("u1", "waiting"),
        silence.format("why"),
        rule.format("no_data"),
    ):
        sql(center, taken)
    for refused in (
        alert.format("backlog|", "pending", "critical"),
        alert.format("backlog|mail", "over", "critical"),
        alert.format("backlog|mail", "firing", "grave"),
        notice.format("u1", "waiting"),
        notice.format("u2", "flying"),
        silence.format(""),
        rule.format("no_data"),
        rule.format("perhaps").replace("backlog", "lost"),
    ):
        with pytest.raises(DBAPIError):
            sql(center, refused)


def test_an_upgrade_to_alerts_that_was_killed_goes_on(bare: TaskCenter) -> None:
    bare.upgrade_schema()
    on = "" if bare.database.sqlite else " ON task_alert"
    for remains in (f"DROP INDEX uq_alert_open{on}", "DROP TABLE task_robot"):
        sql(bare, remains)
        sql(bare, "UPDATE task_schema SET version_num = '0003'")
        assert bare.upgrade_schema() == ("0003", HEAD)
    assert set(sa.inspect(bare.database.engine).get_table_names()) == TABLES
    names = {index["name"] for index in sa.inspect(bare.database.engine).get_indexes("task_alert")}
    assert names == {"uq_alert_open", "ix_alert_state"}


def test_a_plain_insert_of_a_code_gets_the_defaults_of_the_specification(center: TaskCenter) -> None:
    task_id = plain_insert(center, task_code="mail")
    found = task(center, task_id)
    assert (found.payload, found.queue, found.priority, found.status) == ("{}", "", 5, Status.PENDING)
    assert (found.delay, found.timeout, found.max_retry, found.retry_count) == (0, 300, 3, 0)
    assert (found.task_type, found.attempt, found.misfire) == (0, 0, "once")
    assert (found.dst_gap, found.dst_overlap, found.plan_next_run_at) == ("after", "first", None)
    assert abs((found.created_at - center.now()).total_seconds()) < 30


WRONG_INSTANTS = (
    "2026-01-01T00:00:00Z",
    "2026-01-01T00:00:00",
    "2026-01-01 00:00:00Z",
    "2026-01-01 00:00:00+08:00",
    "2026-01-01 00:00:00.",
    "2026-01-01 00:00:00.1234567",
    "2026-01-01 00:00",
    "2026-01-01",
    "01/01/2026 00:00:00",
    "2026-13-01 00:00:00",
    "2026-02-30 00:00:00",
    "2026-01-01 24:00:01",
    "xxxx-xx-xx xx:xx:xx",
    "1767225600",
    "",
)


@pytest.mark.parametrize(
    "column", ["plan_next_run_at", "expires_at", "occurrence_at", "next_fire_at", "created_at"]
)
def test_sqlite_refuses_an_instant_in_another_notation(sqlite_center_url: str, column: str) -> None:
    """SQLite compares instants as text: another notation would be due at another time, or stop the scan."""
    center = TaskCenter(sqlite_center_url)
    for wrong in (*WRONG_INSTANTS, 1767225600):
        with pytest.raises(DBAPIError):
            plain_insert(center, task_code="mail", **{column: wrong})
    for right in ("2026-01-01 00:00:00", "2026-01-01 00:00:00.5", "2026-02-28 23:59:59.123456"):
        task_id = plain_insert(center, task_code="mail", **{column: right})
        assert getattr(task(center, task_id), column).year == 2026
    center.close()


def test_names_are_compared_byte_by_byte(center: TaskCenter) -> None:
    """On MySQL most collations take ``a`` and ``a `` with a space for the same key."""
    keys = ["key", "Key", "key ", "kéy", "ke\u0301y"]
    ids = center.intake.insert([new(unique_key=key) for key in keys])
    assert len(set(ids)) == len(keys)
    assert [columns(center, i, "unique_key")[0] for i in ids] == keys
    assert center.intake.insert([new(unique_key=key) for key in keys]) == ids


def test_the_id_of_a_deleted_task_is_not_given_again(center: TaskCenter) -> None:
    """A message or a run may still name it."""
    (gone,) = center.intake.insert([new()])
    sql(center, "DELETE FROM task_center WHERE id = :id", id=gone)
    assert center.intake.insert([new()]) > [gone]


def test_rule_22_a_key_is_free_again_when_its_task_has_ended(center: TaskCenter) -> None:
    for status in Status:
        task_id = in_status(center, status, unique_key=f"key {status.label}")
        (again,) = center.intake.insert([new(unique_key=f"key {status.label}")])
        assert (again == task_id) == (status in {0, 1, 2, 4, 7}), status.label


def test_an_upgrade_waits_for_another_one_and_says_so_after_a_minute(
    mariadb_center: TaskCenter, monkeypatch: pytest.MonkeyPatch
) -> None:
    from taskkit.center import schema

    monkeypatch.setattr(schema, "WAIT_S", 0)
    monkeypatch.setattr(schema, "HEAD", version(+1))
    with mariadb_center.database.engine.connect() as holder:
        assert holder.exec_driver_sql("SELECT GET_LOCK('taskkit_upgrade', 0)").scalar() == 1
        with pytest.raises(SchemaError, match="another `taskkit db upgrade` is running"):
            mariadb_center.upgrade_schema()
        holder.exec_driver_sql("SELECT RELEASE_LOCK('taskkit_upgrade')")


def test_a_sqlite_file_that_stays_locked_is_reported_in_one_line(sqlite_center_url: str) -> None:
    center, holder = TaskCenter(sqlite_center_url), TaskCenter(sqlite_center_url)
    with center.database.engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA busy_timeout = 50")
    locked = pytest.raises(DatabaseUnavailable, match=r"center\.db: database is locked")
    with holder.database.engine.connect() as connection, connection.begin(), locked:
        center.intake.insert([new()])
    assert start(center, "host:1:w")
    assert center.database.counters["busy"] == 6
    center.close()
    holder.close()
