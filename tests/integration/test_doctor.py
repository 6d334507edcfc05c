"""``taskkit doctor`` on real servers: healthy ones, wrongly set ones, accounts that may too little, and none at all."""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import redis
import sqlalchemy as sa

from taskkit import Settings, Taskkit
from taskkit.center import TaskCenter
from taskkit.center.sql_facts import OUR_TABLES, read_facts
from taskkit.health.tables import judge_tables
from taskkit.model import ListName, Message
from taskkit.queues import codec
from taskkit.queues.keys import Keys
from tests import centers
from tests.commands import Answer, built, cli, done, refused
from tests.conftest import EXTERNAL_DATABASE
from tests.databases import fresh_database
from tests.processes import Stack
from tests.proxy import Proxy
from tests.servers import MariaDB, Valkey, available, free_port

pytest_plugins = ["tests.stacks"]


def levels(answer: Answer) -> dict[str, str]:
    """The level of each finding."""
    return {one["id"]: one["level"] for one in answer.json["findings"]}


def of(answer: Answer, name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(one for one in answer.json["findings"] if one["id"] == name)
    return found


def hurting(answer: Answer) -> dict[str, str]:
    """What is worse than a note; that this machine is busy is none of the installation's troubles."""
    return {
        name: level
        for name, level in levels(answer).items()
        if level == "error" or (level == "warning" and not name.endswith(".reachable"))
    }


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Sets the URLs and makes the schema."""

    def install(database: str | None = None, broker: str | None = None) -> None:
        for name, url in (("DATABASE", database), ("REDIS", broker)):
            if url is not None:
                monkeypatch.setenv(f"TASKKIT_{name}_URL", url)
        built()

    return install


# ---- healthy


def test_a_running_embedded_installation_has_nothing_above_a_note(
    embedded_stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for what other tests have left waiting in it, perhaps in queues that nobody serves."""
    kit = embedded_stack.home.kit
    for row in centers.sql(kit.center, "SELECT id FROM task_center WHERE status IN (0, 1, 4, 7)"):
        kit.operations.cancel(row[0], "the test of doctor")
    monkeypatch.setenv("TASKKIT_HOME", str(embedded_stack.home.settings.home))
    answer = done("doctor", "--json")
    assert list(answer.json) == ["worst", "findings"]
    assert hurting(answer) == {}
    assert levels(answer).keys() >= {
        "sql.flush",
        "broker.commands",
        "node.schedulers",
        "node.workers",
        "home.room",
    }
    assert {"node.schedulers", "node.workers", "broker.commands"} <= {
        n for n, v in levels(answer).items() if v == "ok"
    }
    assert "looked at and fine" in done("doctor").out


def test_an_embedded_installation_at_rest_has_nothing_above_a_note(installed: Any) -> None:
    installed()
    answer = done("doctor", "--json")
    assert hurting(answer) == {}
    assert answer.json["worst"] == "note"
    assert levels(answer)["broker.reachable"] == levels(answer)["node.workers"] == "note"


@pytest.mark.parametrize("width", [80, 100])
def test_the_page_has_whole_sentences_and_commands_at_any_width(
    installed: Any, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    installed()
    monkeypatch.setenv("COLUMNS", str(width))
    done("enqueue", "mail", "--queue", "mail" * 16)
    answer = cli("doctor")
    assert answer.code == 1
    assert max(map(len, answer.out.splitlines())) <= width
    assert answer.out.startswith("2 errors\n\nnode.schedulers  no scheduler is alive\n  why  tasks wait in")
    assert "\n  do   start one with `taskkit up` or `python -m taskkit.scheduler`\n" in answer.out


def test_looking_makes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "nothing is installed" in refused("doctor", code=1)
    monkeypatch.setenv("TASKKIT_DATABASE_URL", f"sqlite:///{tmp_path}/none/x.db")
    answer = cli("doctor", "--json")
    assert (answer.code, levels(answer)["sql.reachable"]) == (1, "error")
    assert sorted(tmp_path.iterdir()) == []


def test_running_servers(server_stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    for key, value in server_stack.home.environment.items():
        if key.startswith("TASKKIT_"):
            monkeypatch.setenv(key, value)
    center = server_stack.home.kit.center
    centers.sql(
        center, "UPDATE task_center SET status = 6 WHERE status IN (0, 1, 4)"
    )  # what other tests left
    answer = cli("doctor", "--json")
    if EXTERNAL_DATABASE is None:
        assert hurting(answer) == {}
        assert levels(answer)["broker.persistence"] == "note", "the tests' Valkey keeps nothing, and need not"
        assert of(answer, "sql.grants")["level"] == of(answer, "sql.grants_process")["level"] == "ok"
    assert levels(answer)["broker.commands"] == levels(answer)["broker.foreign"] == "ok"


def test_nothing_is_left_behind_in_redis(installed: Any, database_url: str, redis_url: str) -> None:
    installed(database_url, redis_url)
    done("doctor", "--json")
    with redis.Redis.from_url(redis_url) as client:
        assert client.keys() == []


# ---- SQL


def broken(**options: object) -> contextlib.AbstractContextManager[MariaDB]:
    return available(MariaDB, **options)


@pytest.mark.faults
def test_a_server_set_for_speed_is_told_what_each_setting_costs(installed: Any) -> None:
    wrong = {
        "log_bin": "bin", "server_id": 1, "binlog_format": "STATEMENT", "sync_binlog": 0,
        "innodb_flush_log_at_trx_commit": 2, "max_allowed_packet": 1 << 20, "wait_timeout": 30,
        "innodb_doublewrite": 0, "innodb_deadlock_detect": 0, "transaction_isolation": "SERIALIZABLE",
        "default_time_zone": "+08:00", "max_statement_time": 3, "max_user_connections": 5, "innodb_lock_wait_timeout": 900,
    }  # fmt: skip
    with broken(**wrong) as server:
        server.admin("SET GLOBAL binlog_format = 'ROW'")
        installed(server.url)
        server.admin("SET GLOBAL binlog_format = 'STATEMENT'")
        answer = cli("doctor", "--json")
    assert answer.code == 1
    found = levels(answer)
    assert {name: found[name] for name in hurting(answer) if name.startswith("sql.")} == {
        "sql.binlog_format": "error",
        "sql.packet": "error",
        "sql.sync_binlog": "warning",
        "sql.flush": "warning",
        "sql.wait_timeout": "warning",
        "sql.doublewrite": "warning",
        "sql.locks": "warning",
        "sql.isolation": "warning",
        "sql.statement_limit": "warning",
        "sql.connections": "error",
    }
    assert found["sql.time_zone"] == "ok", "a fixed offset"
    assert "innodb_flush_log_at_trx_commit = 1" in of(answer, "sql.flush")["advice"]


@pytest.mark.faults
def test_what_changes_under_a_running_server_is_seen(installed: Any, valkey: Valkey) -> None:
    with broken() as server:
        installed(server.url, valkey.url)
        assert "sql.writable" not in hurting(cli("doctor", "--json"))
        server.admin("SET GLOBAL read_only = ON")
        assert levels(cli("doctor", "--json"))["sql.writable"] == "error"
        server.admin("SET GLOBAL read_only = OFF")
        name = urlsplit(server.url).path.strip("/")
        server.admin(
            f"DROP INDEX ix_dispatch ON {name}.task_center",
            f"ALTER TABLE {name}.task_sample ENGINE = MyISAM",
            f"ALTER TABLE {name}.task_action DEFAULT CHARACTER SET latin1",
        )
        answer = cli("doctor", "--json")
        assert [of(answer, f"sql.{part}")["level"] for part in ("indexes", "engine", "charset")] == [
            "error"
        ] * 3
        assert "task_center.ix_dispatch" in of(answer, "sql.indexes")["what"]
        assert "ALTER TABLE task_sample ENGINE = InnoDB" in of(answer, "sql.engine")["advice"]
        server.pause()
        try:
            assert levels(cli("doctor", "--json"))["sql.reachable"] == "error", "it accepts and says nothing"
        finally:
            server.resume()
        server.kill()
        answer = cli("doctor", "--json")
        assert (answer.code, levels(answer)["sql.reachable"]) == (1, "error")
        assert levels(answer)["broker.reachable"] != "error", "it is looked at all the same"
        assert levels(answer)["broker.commands"] == "note", "the prefix stands in SQL"


@pytest.fixture
def little(mariadb: MariaDB, installed: Any) -> Iterator[Any]:
    """An account with these grants on a database with the schema; gives its URL."""
    with fresh_database(mariadb.url) as url:
        installed(url)
        name = urlsplit(url).path.strip("/")

        def account(*grants: str) -> str:
            mariadb.admin(
                "DROP USER IF EXISTS little@'127.0.0.1'",
                "CREATE USER little@'127.0.0.1' IDENTIFIED BY 'hunter2'",
                *(grant.format(db=name) + " TO little@'127.0.0.1'" for grant in grants),
            )
            return f"mysql://little:hunter2@127.0.0.1:{mariadb.port}/{name}"

        yield account
        mariadb.admin("DROP USER IF EXISTS little@'127.0.0.1'")


@pytest.mark.parametrize(
    ("grants", "level", "says"),
    [
        (("GRANT SELECT, INSERT, UPDATE, DELETE ON `{db}`.*",), "ok", "may read and write"),
        (("GRANT SELECT ON `{db}`.*",), "error", "lacks INSERT, UPDATE, DELETE"),
        (
            ("GRANT SELECT ON `{db}`.*", "GRANT INSERT ON `{db}`.task_center"),
            "error",
            "lacks INSERT, UPDATE, DELETE on",
        ),
        (("GRANT INSERT ON `{db}`.task_center",), "error", "lacks SELECT, INSERT, UPDATE, DELETE"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_the_grants_of_the_account(
    little: Any, monkeypatch: pytest.MonkeyPatch, grants: tuple[str, ...], level: str, says: str
) -> None:
    monkeypatch.setenv("TASKKIT_DATABASE_URL", little(*grants))
    answer = cli("doctor", "--json")
    assert (of(answer, "sql.grants")["level"], levels(answer)["sql.grants_process"]) == (level, "note")
    assert says in of(answer, "sql.grants")["what"]
    assert "hunter2" not in answer.out + answer.err
    assert "IDENTIFIED" not in answer.out


def test_the_advice_about_grants_works(
    little: Any, mariadb: MariaDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TASKKIT_DATABASE_URL", little("GRANT SELECT ON `{db}`.*"))
    answer = cli("doctor", "--json")
    mariadb.admin(of(answer, "sql.grants")["advice"], of(answer, "sql.grants_process")["advice"])
    answer = cli("doctor", "--json")
    assert [of(answer, name)["level"] for name in ("sql.grants", "sql.grants_process")] == ["ok", "ok"]


def test_a_wrong_password_is_a_finding_that_does_not_tell_it(
    mariadb: MariaDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(
        "TASKKIT_DATABASE_URL", f"mysql://taskkit:hunter2@127.0.0.1:{mariadb.port}/taskkit_test"
    )
    monkeypatch.setenv("TASKKIT_REDIS_URL", f"redis://:hunter2@127.0.0.1:{free_port()}/0")
    for arguments in (("doctor",), ("doctor", "--json")):
        answer = cli(*arguments)
        assert answer.code == 1
        assert "Access denied" in answer.out
        assert "cannot be reached" in answer.out
        assert "hunter2" not in answer.out + answer.err


def test_a_schema_that_does_not_fit(installed: Any, tmp_path: Path) -> None:
    installed()
    with contextlib.closing(sqlite3.connect(tmp_path / ".taskkit" / "taskkit.db")) as file:
        file.execute("UPDATE task_schema SET version_num = '0001'")
        file.commit()
    answer = cli("doctor", "--json")
    assert (answer.code, levels(answer)["sql.schema"]) == (1, "error")
    assert "taskkit db upgrade" in of(answer, "sql.schema")["advice"]


def test_the_list_of_our_tables_is_what_the_migrations_make(database_url: str) -> None:
    with contextlib.closing(TaskCenter(database_url)) as center:
        center.upgrade_schema()
        assert sorted(sa.inspect(center.database.engine).get_table_names()) == sorted(OUR_TABLES)
        assert read_facts(center.database).engines.keys() == set(OUR_TABLES)


def test_tables_of_the_applications_own_in_the_same_database_are_not_looked_at(database_url: str) -> None:
    with contextlib.closing(TaskCenter(database_url)) as center:
        center.upgrade_schema()
        latin = "" if center.database.sqlite else " ENGINE = MyISAM DEFAULT CHARACTER SET latin1"
        for statement in (
            f"CREATE TABLE task_orders (id INTEGER PRIMARY KEY, name VARCHAR(9)){latin}",
            f"CREATE TABLE task_center_old (id INTEGER PRIMARY KEY){latin}",
            "CREATE INDEX ix_names ON task_orders (name)",
            "CREATE VIEW task_open AS SELECT id FROM task_center",
        ):
            centers.sql(center, statement)
        facts = read_facts(center.database)
        assert facts.engines.keys() == set(OUR_TABLES)
        assert set(facts.collations) <= set(OUR_TABLES)
        assert {name.partition(".")[0] for name in facts.indexes or ()} <= set(OUR_TABLES)
        assert not [one for one in judge_tables(facts) if one.level != "ok"]


def test_the_grants_of_the_page_are_enough_for_locks_and_once(little: Any, valkey: Valkey) -> None:
    page = (Path(__file__).parents[2] / "docs/operations.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| one that uses `kit\.(\w+)` \| (.+) \|$", page, re.MULTILINE))
    rows["redis_lock"] = rows["redis_lock"].partition(";")[0].replace("the same", rows["lock"])
    for use, row in rows.items():
        grants = re.findall(r"([A-Z, ]+?) on ((?:`\w+`(?: and )?)+)", row)
        words = [
            f"GRANT {privileges.strip(', ')} ON `{{db}}`.{table}"
            for privileges, tables in grants
            for table in re.findall(r"`(\w+)`", tables)
        ]
        url = little(*words)
        with contextlib.closing(TaskCenter(os.environ["TASKKIT_DATABASE_URL"])) as center:
            center.nodes.installation_id()  # as the first scheduler does
        kit = Taskkit(Settings(database_url=url, redis_url=valkey.url))
        with contextlib.closing(kit):
            if use == "once":
                with contextlib.closing(sa.create_engine(kit.settings.sqlalchemy_url()).connect()) as own:
                    assert kit.once(own, "a")
            else:
                with getattr(kit, use)("nightly", timeout=0) as lock:
                    assert lock.fence


def test_the_facts_of_a_database_without_schema(database_url: str) -> None:
    with contextlib.closing(TaskCenter(database_url)) as center:
        facts = read_facts(center.database)
    assert facts.schema is None
    assert facts.schema_problem
    assert facts.version
    assert "hunter2" not in repr(facts)


@pytest.mark.faults
def test_a_connection_that_is_cut_in_the_middle_is_no_crash(
    installed: Any, mariadb: MariaDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    with fresh_database(mariadb.url) as url:
        installed(url)
        with Proxy(f"{url}") as proxy:
            monkeypatch.setenv("TASKKIT_DATABASE_URL", f"{proxy.url}?ssl_disabled=1")
            assert levels(cli("doctor", "--json"))["sql.reachable"] != "error"
            proxy.close()
            assert levels(cli("doctor", "--json"))["sql.reachable"] == "error"


# ---- the broker


@pytest.mark.faults
def test_a_broker_that_evicts_and_keeps_nothing(installed: Any) -> None:
    with available(Valkey, maxmemory="3mb", maxmemory_policy="allkeys-lru") as server:
        installed(broker=server.url)
        answer = cli("doctor", "--json")
        assert answer.code == 0 or levels(answer)["broker.memory"] == "error"
        assert {name: levels(answer)[name] for name in ("broker.eviction", "broker.persistence")} == {
            "broker.eviction": "warning",
            "broker.persistence": "note",
        }
        assert cli("doctor", "--strict").code == 1


@pytest.mark.faults
def test_a_broker_without_memory_refuses_the_push(installed: Any) -> None:
    with available(Valkey, maxmemory="1mb") as server:
        installed(broker=server.url)
        answer = cli("doctor", "--json")
        assert (answer.code, levels(answer)["broker.commands"], levels(answer)["broker.memory"]) == (
            1,
            "error",
            "error",
        )
        assert "RPUSH" in of(answer, "broker.commands")["what"]


@pytest.mark.faults
def test_a_replica_is_not_taken_for_a_broker(installed: Any, valkey: Valkey) -> None:
    with available(Valkey) as server:
        with redis.Redis.from_url(server.url) as client:
            client.execute_command("REPLICAOF", "127.0.0.1", str(valkey.port))
        installed(broker=server.url)
        answer = cli("doctor", "--json")
        assert (levels(answer)["broker.role"], levels(answer)["broker.commands"]) == ("error", "error")


@pytest.mark.faults
def test_what_an_account_of_redis_may_not_do_is_named_and_the_advice_works(installed: Any) -> None:
    with available(Valkey, appendonly="yes") as server, redis.Redis.from_url(server.url) as admin:
        admin.execute_command(
            "ACL", "SETUSER", "shop", "on", ">hunter2", "~tk:*", "+ping", "+llen", "+lrange"
        )
        installed(broker=f"redis://shop:hunter2@127.0.0.1:{server.port}/0")
        answer = cli("doctor", "--json")
        found = of(answer, "broker.commands")
        assert (answer.code, found["level"], levels(answer)["broker.told"]) == (1, "error", "note")
        assert "RPUSH" in found["what"]
        assert "LLEN" not in found["what"]
        assert "hunter2" not in answer.out
        admin.execute_command(*found["advice"].replace("<user>", "shop").split())
        answer = cli("doctor", "--json")
        assert (answer.code, levels(answer)["broker.commands"]) == (0, "ok")


@pytest.mark.faults
def test_a_wrong_password_of_redis_and_a_server_that_is_down(installed: Any) -> None:
    with available(Valkey, requirepass="s3cret") as server:
        installed(broker=server.url.replace("s3cret", "hunter2"))
        answer = cli("doctor", "--json")
        assert (answer.code, levels(answer)["broker.reachable"]) == (1, "error")
        assert "refuses user or password" in of(answer, "broker.reachable")["what"]
        assert "hunter2" not in answer.out
        server.kill()
        assert levels(cli("doctor", "--json"))["broker.reachable"] == "error"


def test_messages_of_another_installation_under_our_prefix_are_noticed(
    installed: Any, redis_url: str, tmp_path: Path
) -> None:
    (tmp_path / "taskkit.toml").write_text('key_prefix = ""')
    installed(broker=redis_url)
    settings = Settings.load()
    with (
        contextlib.closing(TaskCenter(settings.sqlalchemy_url())) as center,
        redis.Redis.from_url(redis_url) as client,
    ):
        center.intake.insert([centers.new(queue="mail")])
        key = Keys("").list(ListName("mail"))
        client.rpush(key, codec.encode(Message(1, "mail", 1, "2026-01-01T00:00:00.000000Z")))
        answer = cli("doctor", "--json")
        assert (levels(answer)["broker.foreign"], levels(answer)["broker.prefix"]) == ("ok", "note")
        client.lpush(key, codec.encode(Message(4711, "mail", 1, "2026-01-01T00:00:00.000000Z")))
        assert levels(cli("doctor", "--json"))["broker.foreign"] == "warning"
        client.lpop(key)
        client.lpush(key, codec.encode(Message(4711, "mail", 1, center.now().isoformat())))
        assert levels(cli("doctor", "--json"))["broker.foreign"] == "ok", "its row may not be committed yet"


# ---- nodes and places


def test_waiting_tasks_without_a_scheduler_and_a_node_in_other_time_zones(installed: Any) -> None:
    installed()
    done("enqueue", "mail", "--unchecked")
    answer = cli("doctor", "--json")
    assert (answer.code, levels(answer)["node.schedulers"]) == (1, "error")
    with contextlib.closing(TaskCenter(Settings.load().sqlalchemy_url())) as center:
        center.nodes.enter_scheduler("a:1:x", "a", 1)
        centers.sql(
            center,
            "UPDATE task_scheduler SET clock_offset_ms = 1500, tzdata_version = '1999a', last_scan_at = {now}",
        )
        answer = cli("doctor", "--json")
        assert levels(answer)["node.schedulers"] == "ok"
        assert (levels(answer)["node.clocks"], levels(answer)["node.tzdata"]) == ("error", "warning")
        centers.sql(center, "UPDATE task_scheduler SET heartbeat_at = '2026-01-01 00:00:00.000000'")
        assert levels(cli("doctor", "--json"))["node.silent_schedulers"] == "note"


def test_a_home_that_others_may_enter(installed: Any, tmp_path: Path) -> None:
    installed()
    (tmp_path / ".taskkit").chmod(0o755)
    answer = cli("doctor", "--json")
    assert levels(answer)["home.private"] == "warning"
    assert "chmod 700" in of(answer, "home.private")["advice"]


def test_the_grants_that_doctor_asks_for_are_enough_to_prune(
    little: Any, mariadb: MariaDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TASKKIT_DATABASE_URL", little("GRANT SELECT, INSERT, UPDATE, DELETE ON `{db}`.*"))
    done("enqueue", "mail", "--unchecked")
    with contextlib.closing(TaskCenter(Settings.load().sqlalchemy_url())) as center:
        centers.sql(
            center, "UPDATE task_center SET status = 6, created_at = '2026-01-01', updated_at = '2026-01-01'"
        )
    assert done("prune", "--json").json["tables"]["task_center"]["gone"] == 1
