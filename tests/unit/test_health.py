"""Doctor's judgement: every finding, both when it is fine and when it hurts; nothing is asked of a server here."""

from __future__ import annotations

import re
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Any

import pytest

from taskkit.center.grants import Grants
from taskkit.center.schema import HEAD
from taskkit.center.sql_facts import OUR_TABLES, SqlFacts
from taskkit.center.transactions import OpenTransaction, TransactionFacts
from taskkit.doors import open_center
from taskkit.health import Finding, Level, judge, worst
from taskkit.health.facts import AlertingFacts, BrokerFacts, Facts, Folder, NodeFacts
from taskkit.health.findings import size, version_of
from taskkit.health.tables import INDEXES
from taskkit.queues.server_facts import ClusterFacts, ServerFacts
from taskkit.scheduler.process import BESIDE
from taskkit.worker.child import HANDLERS_CONNECTIONS

OK, NOTE, WARNING, ERROR = Level.OK, Level.NOTE, Level.WARNING, Level.ERROR
TABLES = ("task_center", "task_run", "task_occurrence")
SETTINGS = {
    "version": "10.11.19-MariaDB",
    "read_only": "OFF",
    "innodb_flush_log_at_trx_commit": "1",
    "sync_binlog": "1",
    "log_bin": "ON",
    "binlog_format": "ROW",
    "innodb_doublewrite": "ON",
    "innodb_deadlock_detect": "ON",
    "max_allowed_packet": str(16 << 20),
    "wait_timeout": "28800",
    "max_connections": "151",
    "max_user_connections": "0",
    "innodb_lock_wait_timeout": "50",
    "tx_isolation": "REPEATABLE-READ",
    "time_zone": "SYSTEM",
    "system_time_zone": "UTC",
    "max_statement_time": "0.000000",
}
SQL = SqlFacts(
    "mariadb",
    "10.11.19-MariaDB",
    SETTINGS,
    connected=10,
    account="taskkit@10.%",
    database="shop",
    grants=Grants(
        server=frozenset({"PROCESS"}), database=frozenset({"SELECT", "INSERT", "UPDATE", "DELETE"})
    ),
    engines=dict.fromkeys(TABLES, "InnoDB"),
    collations=dict.fromkeys(TABLES, "utf8mb4_general_ci"),
    indexes=frozenset(INDEXES),
    schema=HEAD,
    offset_ms=1.0,
    latency_ms=1.0,
    transactions=TransactionFacts(told=True, history=700),
)
FILE = SqlFacts(
    "sqlite",
    "3.40.1",
    {"journal_mode": "wal", "synchronous": "2"},
    engines=dict.fromkeys(TABLES, "sqlite"),
    indexes=frozenset(INDEXES),
    schema=HEAD,
    offset_ms=0.0,
    latency_ms=1.0,
)
SERVER = ServerFacts(
    "redis",
    "7.2.4",
    lmpop=True,
    persistence="aof",
    maxmemory_policy="noeviction",
    maxmemory=1 << 30,
    used_memory=1 << 20,
    clients=10,
    maxclients=10_000,
    role="master",
    saving=True,
    evicted=0,
)
BROKER = BrokerFacts(SERVER, latency_ms=0.3, prefix="tk:1:", foreign=0, dead=0)
SCHEDULER = {
    "host": "a",
    "pid": 1,
    "heartbeat_age_s": 1.0,
    "scan_age_s": 0.1,
    "clock_offset_ms": 3.0,
    "tzdata_version": "2026a",
}
WORKER = {"host": "a", "pid": 2, "heartbeat_age_s": 1.0, "queues": "mail,report"}
NODES = NodeFacts((SCHEDULER,), (WORKER,), ("mail",))
HOME = Folder("home", "/srv/taskkit", free_bytes=50 << 30)
HEALTHY = Facts(sql=SQL, broker=BROKER, nodes=NODES, folders=(HOME,), tzdata="2026a")


def of(findings: list[Finding], name: str) -> Finding:
    (found,) = [one for one in findings if one.id == name]
    return found


def with_sql(**settings: str) -> Facts:
    return replace(HEALTHY, sql=replace(SQL, settings={**SETTINGS, **settings}))


def sql(**fields: Any) -> Facts:
    return replace(HEALTHY, sql=replace(SQL, **fields))


def broker(**fields: Any) -> Facts:
    return replace(HEALTHY, broker=replace(BROKER, **fields))


def server(**fields: Any) -> Facts:
    return broker(server=replace(SERVER, **fields))


def opened(age_s: float, history: int = 700, **fields: Any) -> Facts:
    """A report that has been open for so long."""
    kept = {"user": "report", "host": "10.0.0.5", "isolation": "REPEATABLE READ", "idle": True}
    found = OpenTransaction(57, age_s, **(kept | fields))
    return sql(transactions=TransactionFacts(told=True, longest=found, history=history))


def clustered(uncovered: int = 0, alone: tuple[str, ...] = (), **fields: Any) -> Facts:
    """A cluster of two masters, one of which is as said."""
    masters = {"a:1": SERVER, "b:1": replace(SERVER, **fields)}
    return broker(cluster=ClusterFacts(masters, uncovered, alone))


def scheduler(**fields: Any) -> Facts:
    return replace(HEALTHY, nodes=replace(NODES, schedulers=({**SCHEDULER, **fields},)))


def home(**fields: Any) -> Facts:
    return replace(HEALTHY, folders=(replace(HOME, **fields),))


def test_a_healthy_installation_is_fine_in_every_respect() -> None:
    for facts in (HEALTHY, replace(HEALTHY, sql=FILE)):
        assert [one for one in judge(facts) if one.level is not OK] == []


def without(*names: str) -> Facts:
    """A server that does not tell these settings."""
    return sql(settings={name: value for name, value in SETTINGS.items() if name not in names})


UNTOLD_SETTINGS = {
    "sql.writable": ["read_only"],
    "sql.flush": ["innodb_flush_log_at_trx_commit"],
    "sql.doublewrite": ["innodb_doublewrite"],
    "sql.sync_binlog": ["sync_binlog"],
    "sql.binlog_format": ["log_bin"],
    "sql.packet": ["max_allowed_packet"],
    "sql.connections": ["max_connections"],
    "sql.wait_timeout": ["wait_timeout"],
    "sql.statement_limit": ["max_statement_time"],
    "sql.locks": ["innodb_lock_wait_timeout"],
    "sql.isolation": ["tx_isolation"],
    "sql.time_zone": ["time_zone", "system_time_zone"],
}
UNTOLD_SQL = {
    "sql.reachable": "latency_ms",
    "node.clock": "offset_ms",
    "sql.indexes": "indexes",
    "sql.grants": "grants",
}
UNTOLD_BROKER = {"broker.reachable": "latency_ms", "broker.foreign": "foreign", "broker.dead": "dead"}
UNTOLD_SERVER = {
    "broker.role": "role",
    "broker.eviction": "maxmemory_policy",
    "broker.memory": "maxmemory",
    "broker.clients": "clients",
    "broker.saving": "saving",
    "broker.evicted": "evicted",
}
CASES: list[tuple[str, Facts, Level]] = [
    ("sql.reachable", sql(latency_ms=19.0), OK),
    ("sql.reachable", sql(latency_ms=20.0), NOTE),
    ("sql.reachable", sql(latency_ms=200.0), WARNING),
    ("sql.reachable", Facts(sql_problem="database x: refused"), ERROR),
    ("sql.version", sql(version="10.6.0-MariaDB"), OK),
    ("sql.version", sql(version="10.5.9-MariaDB"), ERROR),
    ("sql.version", sql(product="mysql", version="8.0.36"), OK),
    ("sql.version", sql(product="mysql", version="9.1.0"), OK),
    ("sql.version", sql(product="mysql", version="5.7.44-log"), ERROR),
    ("sql.version", replace(HEALTHY, sql=replace(FILE, version="3.34.1")), ERROR),
    ("sql.schema", sql(schema="0000", schema_problem="the schema is 0000"), ERROR),
    ("sql.schema", sql(schema=None, schema_problem="the database has no taskkit schema yet"), ERROR),
    ("sql.schema", sql(schema="9999"), NOTE),
    ("sql.schema", sql(schema=None), NOTE),
    ("node.clock", sql(offset_ms=-249.0), OK),
    ("node.clock", sql(offset_ms=-251.0), WARNING),
    ("node.clock", sql(offset_ms=1001.0), ERROR),
    ("sql.journal", replace(HEALTHY, sql=replace(FILE, settings={"journal_mode": "delete"})), ERROR),
    ("sql.flush", replace(HEALTHY, sql=replace(FILE, settings={"synchronous": "1"})), WARNING),
    ("sql.writable", with_sql(read_only="ON"), ERROR),
    ("sql.writable", with_sql(read_only="OFF", super_read_only="1"), ERROR),
    ("sql.flush", with_sql(innodb_flush_log_at_trx_commit="0"), WARNING),
    ("sql.flush", with_sql(innodb_flush_log_at_trx_commit="2"), WARNING),
    ("sql.flush", with_sql(innodb_flush_log_at_trx_commit="3"), OK),
    ("sql.doublewrite", with_sql(innodb_doublewrite="OFF"), WARNING),
    ("sql.doublewrite", with_sql(innodb_doublewrite="DETECT_AND_RECOVER"), OK),
    ("sql.binlog_format", with_sql(binlog_format="STATEMENT"), ERROR),
    ("sql.binlog_format", with_sql(binlog_format="STATEMENT", log_bin="OFF"), OK),
    ("sql.binlog_format", with_sql(binlog_format="MIXED"), OK),
    ("sql.sync_binlog", with_sql(sync_binlog="0"), WARNING),
    ("sql.packet", with_sql(max_allowed_packet=str(4 << 20)), WARNING),
    ("sql.packet", with_sql(max_allowed_packet=str(1 << 20)), ERROR),
    ("sql.packet", replace(HEALTHY, payload_bytes=10 << 20), ERROR),
    ("sql.packet", replace(HEALTHY, payload_bytes=7 << 20), OK),
    ("sql.connections", sql(connected=120), OK),
    ("sql.connections", sql(connected=125), WARNING),
    ("sql.connections", sql(connected=146), ERROR),
    ("sql.connections", with_sql(max_user_connections="4"), ERROR),
    ("sql.connections", sql(connected=None), NOTE),
    ("sql.wait_timeout", with_sql(wait_timeout="600"), NOTE),
    ("sql.wait_timeout", with_sql(wait_timeout="10"), WARNING),
    ("sql.statement_limit", with_sql(max_statement_time="2.000000"), WARNING),
    ("sql.statement_limit", with_sql(max_execution_time="2000"), WARNING),
    ("sql.statement_limit", with_sql(max_execution_time="20000"), OK),
    ("sql.locks", with_sql(innodb_deadlock_detect="OFF"), WARNING),
    ("sql.locks", with_sql(innodb_lock_wait_timeout="600"), NOTE),
    ("sql.isolation", with_sql(tx_isolation="SERIALIZABLE"), WARNING),
    ("sql.isolation", with_sql(transaction_isolation="READ-COMMITTED"), OK),
    ("sql.time_zone", with_sql(system_time_zone="CEST"), NOTE),
    ("sql.time_zone", with_sql(time_zone="+08:00"), OK),
    ("sql.time_zone", with_sql(time_zone="Europe/Berlin"), NOTE),
    *[("sql.indexes", sql(indexes=frozenset(INDEXES) - {name}), ERROR) for name in INDEXES],
    ("sql.engine", sql(engines={**SQL.engines, "task_run": "MyISAM"}), ERROR),
    ("sql.charset", sql(collations={**SQL.collations, "task_run": "utf8mb3_general_ci"}), ERROR),
    ("sql.grants", sql(grants=Grants(database=frozenset({"SELECT", "INSERT"}))), ERROR),
    ("sql.grants", sql(grants=Grants(database=frozenset({"SELECT"}), complete=False)), NOTE),
    ("sql.grants", sql(grants=Grants(database=frozenset({"ALL PRIVILEGES"}))), OK),
    ("sql.grants_process", sql(grants=Grants(database=frozenset({"ALL PRIVILEGES"}))), NOTE),
    ("sql.grants_wide", sql(grants=Grants(server=frozenset({"ALL PRIVILEGES"}))), NOTE),
    ("broker.reachable", broker(latency_ms=30.0), NOTE),
    ("broker.reachable", broker(latency_ms=300.0), WARNING),
    ("broker.reachable", replace(HEALTHY, broker=None, broker_problem="redis x cannot be reached"), ERROR),
    ("broker.reachable", replace(HEALTHY, broker=None), NOTE),
    ("broker.commands", broker(refused={"RPUSH": "redis x is out of memory"}), ERROR),
    ("broker.commands", broker(prefix=None, rehearsed=False), NOTE),
    ("broker.prefix", broker(prefix=""), NOTE),
    ("broker.foreign", broker(foreign=2), WARNING),
    ("broker.dead", broker(dead=2), NOTE),
    ("broker.told", server(version=None), NOTE),
    ("broker.version", server(version="6.0.16"), ERROR),
    ("broker.version", server(version="6.2.0"), OK),
    ("broker.version", server(product="valkey", version="8.0.1"), OK),
    ("broker.role", server(role="slave"), ERROR),
    ("broker.eviction", server(maxmemory_policy="allkeys-lru"), WARNING),
    ("broker.eviction", server(maxmemory_policy="allkeys-lru", maxmemory=0), NOTE),
    ("broker.eviction", server(maxmemory_policy="volatile-ttl"), NOTE),
    ("broker.memory", server(used_memory=int(0.8 * (1 << 30))), WARNING),
    ("broker.memory", server(used_memory=int(0.95 * (1 << 30))), ERROR),
    ("broker.memory", server(maxmemory=0), OK),
    ("broker.clients", server(clients=8_500), WARNING),
    ("broker.clients", server(clients=9_900), ERROR),
    ("broker.persistence", server(persistence="none"), NOTE),
    ("broker.persistence", broker(embedded=True, server=replace(SERVER, persistence="none")), OK),
    ("broker.persistence", server(persistence=None), NOTE),
    ("broker.saving", server(saving=False), ERROR),
    ("broker.evicted", server(evicted=7), WARNING),
    ("node.schedulers", replace(HEALTHY, nodes=replace(NODES, schedulers=())), ERROR),
    ("node.schedulers", replace(HEALTHY, nodes=NodeFacts()), NOTE),
    ("node.workers", replace(HEALTHY, nodes=replace(NODES, workers=())), ERROR),
    ("node.silent_schedulers", scheduler(heartbeat_age_s=60.0), NOTE),
    (
        "node.silent_workers",
        replace(HEALTHY, nodes=replace(NODES, workers=({**WORKER, "heartbeat_age_s": 60.0},))),
        NOTE,
    ),
    ("node.schedulers", scheduler(heartbeat_age_s=60.0), ERROR),
    ("node.clocks", scheduler(clock_offset_ms=-300.0), WARNING),
    ("node.clocks", scheduler(clock_offset_ms=-3000.0), ERROR),
    ("node.clocks", scheduler(clock_offset_ms=None), NOTE),
    ("node.scans", scheduler(scan_age_s=31.0), ERROR),
    ("node.scans", scheduler(scan_age_s=None), NOTE),
    ("node.schedulers", scheduler(heartbeat_age_s=None), ERROR),
    ("sql.transaction", opened(30.0), OK),
    ("sql.transaction", opened(61.0), NOTE),
    ("sql.transaction", opened(720.0), WARNING),
    ("sql.transaction", sql(transactions=TransactionFacts(history=5)), NOTE),
    ("sql.purge", sql(transactions=TransactionFacts(told=True, history=150_000)), NOTE),
    ("sql.purge", opened(720.0, history=3_000_000), WARNING),
    ("sql.purge", sql(transactions=TransactionFacts()), NOTE),
    ("sql.pooler", sql(sessions=3), ERROR),
    ("sql.pooler", sql(sessions=3, pooled=True), OK),
    ("sql.pooler", sql(pooled=True), NOTE),
    ("broker.cluster", clustered(), OK),
    ("broker.cluster", clustered(alone=("b:1",)), NOTE),
    ("broker.cluster", clustered(uncovered=5461), ERROR),
    ("broker.memory", clustered(used_memory=int(0.95 * (1 << 30))), ERROR),
    ("sql.settings", sql(settings={}), NOTE),
    *[(name, without(*gone), NOTE) for name, gone in UNTOLD_SETTINGS.items()],
    *[(name, sql(**{gone: None}), NOTE) for name, gone in UNTOLD_SQL.items()],
    ("sql.engine", sql(engines={}), NOTE),
    ("sql.charset", sql(collations={}), NOTE),
    *[(name, broker(**{gone: None}), NOTE) for name, gone in UNTOLD_BROKER.items()],
    *[(name, server(**{gone: None}), NOTE) for name, gone in UNTOLD_SERVER.items()],
    ("home.room", home(free_bytes=None), NOTE),
    ("node.tzdata", scheduler(tzdata_version="2025b"), WARNING),
    ("node.tzdata", scheduler(tzdata_version=None), NOTE),
    ("node.queues", replace(HEALTHY, nodes=replace(NODES, waiting=("mail", "video"))), WARNING),
    ("node.drills", replace(HEALTHY, nodes=replace(NODES, waiting=("taskkit.drill-0a1b2c",))), NOTE),
    ("node.queues", replace(HEALTHY, nodes=replace(NODES, waiting=("taskkit.drill-0a1b2c",))), OK),
    ("home.writable", home(writable=False), ERROR),
    ("home.room", home(free_bytes=500 << 20), WARNING),
    ("home.room", home(free_bytes=50 << 20), ERROR),
    ("home.private", home(open_to_others=True), WARNING),
    ("alerting.receivers", replace(HEALTHY, alerting=AlertingFacts(problem="receivers.toml line 4: …")), WARNING),
    ("alerting.receivers", replace(HEALTHY, alerting=AlertingFacts(("ops",))), OK),
]  # fmt: skip


@pytest.mark.parametrize(("name", "facts", "level"), CASES, ids=lambda value: str(value)[:30])
def test_the_level_of_each_finding(name: str, facts: Facts, level: Level) -> None:
    assert of(judge(facts), name).level is level


@pytest.mark.parametrize(("name", "facts", "level"), CASES, ids=lambda value: str(value)[:30])
def test_what_is_not_fine_says_what_and_what_to_do(name: str, facts: Facts, level: Level) -> None:
    found = of(judge(facts), name)
    assert found.what
    assert "\n" not in found.what + found.why + found.advice
    if level in {WARNING, ERROR}:
        assert found.why
        assert found.advice
    if level is OK:
        assert not found.why


def test_every_finding_has_a_case_in_which_it_hurts() -> None:
    """And each is known to be fine in a healthy installation, unless it only appears when it hurts."""
    hurting = {name for name, _, level in CASES if level is not OK}
    assert {one.id for facts in (HEALTHY, replace(HEALTHY, sql=FILE)) for one in judge(facts)} <= hurting


def test_the_worst_comes_first_and_counts() -> None:
    findings = judge(replace(with_sql(read_only="ON"), broker=replace(BROKER, foreign=1, dead=1)))
    order = [list(Level).index(one.level) for one in findings]
    assert order == sorted(order)
    assert worst(findings) is ERROR
    assert worst([]) is OK


def test_of_some_schedulers_that_do_not_tell_only_the_others_are_judged() -> None:
    silent = {**SCHEDULER, "host": "b", "clock_offset_ms": None, "scan_age_s": None, "tzdata_version": None}
    findings = judge(replace(HEALTHY, nodes=replace(NODES, schedulers=(SCHEDULER, silent))))
    for name in ("node.clocks", "node.scans", "node.tzdata"):
        assert of(findings, name).level is NOTE
        assert "b:1" in of(findings, name).what
        assert "a:1" not in of(findings, name).what
    off = {**SCHEDULER, "clock_offset_ms": 3000.0, "scan_age_s": 60.0, "tzdata_version": "2025b"}
    findings = judge(replace(HEALTHY, nodes=replace(NODES, schedulers=(off, silent))))
    assert [of(findings, f"node.{name}").level for name in ("clocks", "scans", "tzdata")] == [
        ERROR,
        ERROR,
        WARNING,
    ]


def test_what_is_said_of_connections_is_what_the_processes_and_the_page_have() -> None:
    page = (Path(__file__).parents[2] / "docs/operations.md").read_text(encoding="utf-8")
    scheduler_most = 2 + BESIDE
    application_most = sum(
        signature(open_center).parameters[name].default for name in ("pool_size", "overflow")
    )
    found = of(judge(sql(connected=146)), "sql.connections")
    assert f"a worker needs up to 3, a scheduler up to {scheduler_most}" in found.why
    for who, most in (
        ("scheduler", f"{scheduler_most}"),
        ("worker, however many children it has", "3"),
        ("application that enqueues", f"as many as write at the same moment, at most {application_most}"),
        (
            "child of a worker",
            "0; {} for handlers that use the kit, {} more for moments".format(*HANDLERS_CONNECTIONS),
        ),
    ):
        assert f"\n| {who} | {most} |" in page, who


def test_the_page_lists_our_tables_and_no_other() -> None:
    page = (Path(__file__).parents[2] / "docs/operations.md").read_text(encoding="utf-8")
    section = page.split("| table | one row for |")[1].split("\n\n")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    assert sorted(re.findall(r"`(task_\w+)`", " ".join(rows))) == sorted(OUR_TABLES)


def test_the_missing_grant_is_written_out() -> None:
    found = of(judge(sql(grants=Grants(database=frozenset({"SELECT", "INSERT"})))), "sql.grants")
    assert found.what == "taskkit@10.% lacks UPDATE, DELETE"
    assert found.advice == "GRANT UPDATE, DELETE ON `shop`.* TO 'taskkit'@'10.%'"


def test_grants_on_some_tables_only_are_named() -> None:
    rows = frozenset({"SELECT", "INSERT", "UPDATE", "DELETE"})
    tables = {name: rows for name in OUR_TABLES if name not in {"task_occurrence", "task_run"}}
    found = of(judge(sql(grants=Grants(tables=tables))), "sql.grants")
    assert "on task_occurrence, task_run" in found.what


def test_the_longest_transaction_is_named_with_what_it_costs_and_how_to_end_it() -> None:
    found = of(judge(opened(720.0, statement="SELECT * FROM task_run WHERE host = '…'")), "sql.transaction")
    assert found.what == (
        "a transaction has been open for 12 min: thread 57 of report@10.0.0.5, REPEATABLE READ, idle after "
        "`SELECT * FROM task_run WHERE host = '…'`"
    )
    assert "steps over what was dispatched meanwhile" in found.why
    assert "KILL 57" in found.advice
    idle = of(judge(opened(720.0, isolation="READ COMMITTED", rows_locked=3)), "sql.transaction")
    assert "3 rows locked" in idle.what
    assert "steps over" not in idle.why
    assert "sql.transaction" in of(judge(opened(720.0, history=200_000)), "sql.purge").advice
    assert "innodb_purge_threads" in of(judge(opened(7.0, history=200_000)), "sql.purge").advice


def test_the_grant_that_shows_transactions_is_named() -> None:
    found = of(judge(sql(transactions=TransactionFacts())), "sql.transaction")
    assert found.advice == "GRANT PROCESS ON *.* TO 'taskkit'@'10.%'"


def test_of_a_cluster_the_master_that_is_worst_off_is_named() -> None:
    found = of(judge(clustered(used_memory=int(0.95 * (1 << 30)))), "broker.memory")
    assert found.what.startswith("b:1: ")
    assert of(judge(clustered()), "broker.memory").level is OK


def test_without_sql_nothing_is_guessed() -> None:
    findings = judge(Facts(sql_problem="database x: refused", broker=replace(BROKER, rehearsed=False)))
    assert {one.id for one in findings if one.id.startswith(("sql.", "node."))} == {"sql.reachable"}


@pytest.mark.parametrize(
    ("text", "version"),
    [("10.11.19-MariaDB-0+deb12u1", (10, 11, 19)), ("8.0.36", (8, 0, 36)), ("", ()), ("9.x", (9,))],
)
def test_versions(text: str, version: tuple[int, ...]) -> None:
    assert version_of(text) == version


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (1023, "1023 B"), (16 << 20, "16 MiB"), (1 << 40, "1024 GiB")]
)
def test_sizes(count: int, text: str) -> None:
    assert size(count) == text


def test_the_page_names_every_finding() -> None:
    page = (Path(__file__).parents[2] / "docs/operations.md").read_text(encoding="utf-8")
    section = page.split("\n## Doctor\n")[1].split("\n## ")[0]
    assert set(re.findall(r"`((?:sql|broker|node|home|alerting)\.\w+)`", section)) == {
        name for name, _, _ in CASES
    }
