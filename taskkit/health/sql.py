"""What SQL facts mean: what breaks, what weakens durability, what will be too small."""

from __future__ import annotations

from collections.abc import Iterator

from taskkit.center.sql_facts import SqlFacts
from taskkit.health.access import judge_grants
from taskkit.health.facts import Facts
from taskkit.health.findings import (
    Finding,
    answers,
    error,
    is_on,
    note,
    number,
    ok,
    size,
    untold,
    version_of,
    warning,
)
from taskkit.health.sessions import judge_sessions
from taskkit.health.tables import judge_tables
from taskkit.health.transactions import judge_transactions

LEAST = {"mysql": (8, 0), "mariadb": (10, 6), "sqlite": (3, 35)}
NAMES = {"mysql": "MySQL", "mariadb": "MariaDB", "sqlite": "SQLite"}
USUAL_PACKET = 16 << 20
RECYCLE_S = 1800
SHORT_WAIT_S = 60
OFF_MS, FAR_OFF_MS = 250.0, 1000.0


def judge_sql(sql: SqlFacts, facts: Facts) -> Iterator[Finding]:
    """All findings about the database."""
    yield _reachable(sql)
    yield _version(sql)
    yield _schema(sql)
    yield _clock(sql)
    if sql.product == "sqlite":
        yield from _file(sql)
    elif sql.settings:
        yield from _server(sql, facts)
    else:
        yield untold("sql.settings", "what the server is set to (SHOW GLOBAL VARIABLES)")
    yield from judge_tables(sql)
    yield from judge_grants(sql)


def _server(sql: SqlFacts, facts: Facts) -> Iterator[Finding]:
    yield _writable(sql)
    yield _flushed(sql)
    yield _torn_pages(sql)
    yield from _binary_log(sql)
    yield _packet(sql, facts)
    yield _connections(sql)
    yield _patience(sql)
    yield from judge_sessions(sql)
    yield from judge_transactions(sql)


def _reachable(sql: SqlFacts) -> Finding:
    who = "the database" if sql.latency_ms is None else NAMES[sql.product]
    why = "every claim and every end of tasks waits for it several times"
    advice = "put schedulers and workers near the database, or look at its load"
    return answers("sql.reachable", who, sql.latency_ms, why, advice)


def _version(sql: SqlFacts) -> Finding:
    what = f"{NAMES[sql.product]} {sql.version}"
    least = LEAST[sql.product]
    if version_of(sql.version)[:2] >= least:
        return ok("sql.version", what)
    wanted = ".".join(map(str, least))
    why = "it lacks SKIP LOCKED, CHECKs or other things that taskkit stands on"
    return error("sql.version", what, why, f"upgrade it to {NAMES[sql.product]} {wanted} or later")


def _schema(sql: SqlFacts) -> Finding:
    if sql.schema_problem is not None:
        advice = (
            "run `taskkit db upgrade`"
            if "too new" not in sql.schema_problem
            else "upgrade taskkit on this node"
        )
        return error("sql.schema", sql.schema_problem, "this taskkit refuses to work on it", advice)
    if sql.schema is None:
        what = "this account may not read which schema the database has"
        return note("sql.schema", what, "only what needs no table could be looked at", "see sql.grants")
    if sql.schema != sql.schema_needed:
        what = f"the schema is {sql.schema}, one ahead of this taskkit ({sql.schema_needed})"
        return note("sql.schema", what, "a rolling upgrade is under way", "upgrade taskkit on this node, too")
    return ok("sql.schema", f"the schema is {sql.schema}, the one needed")


def _clock(sql: SqlFacts) -> Finding:
    if sql.offset_ms is None:
        return untold("node.clock", "how far this node's clock is from the database's")
    off = sql.offset_ms
    what = f"this node's clock is {abs(off):.0f} ms {'ahead of' if off > 0 else 'behind'} the database's"
    if abs(off) < OFF_MS:
        return ok("node.clock", what)
    level = error if abs(off) >= FAR_OFF_MS else warning
    why = "the database's clock decides what is due, but logs, heartbeats and your eyes go by this one"
    return level(
        "node.clock", what, why, "let NTP (chrony, systemd-timesyncd) set it, on the database's machine too"
    )


def _file(sql: SqlFacts) -> Iterator[Finding]:
    journal = sql.settings.get("journal_mode", "")
    if journal == "wal":
        yield ok("sql.journal", "journal_mode is WAL")
    else:
        why = "readers and writers wait for each other, and more than one process gets `database is locked`"
        yield error("sql.journal", f"journal_mode is {journal}, not WAL", why, "put the file on a local disk")
    level = number(sql.settings.get("synchronous"))
    if level is not None and level >= 2:
        yield ok("sql.flush", "synchronous is FULL: what is committed survives a power cut")
    else:
        yield warning(
            "sql.flush",
            f"synchronous is {level}, below FULL",
            "a power cut may take the last committed tasks with it",
            "set PRAGMA synchronous = FULL",
        )


def _writable(sql: SqlFacts) -> Finding:
    names = ("read_only", "super_read_only", "innodb_read_only")
    on = [name for name in names if is_on(sql.settings.get(name))]
    if "read_only" not in sql.settings and not on:
        return untold("sql.writable", "whether the server is read only")
    if not on:
        return ok("sql.writable", "the server takes writes")
    why = "no task can be written, dispatched or finished"
    advice = "point TASKKIT_DATABASE_URL at the primary, or SET GLOBAL read_only = OFF there"
    return error("sql.writable", f"the server is read only ({', '.join(on)})", why, advice)


def _flushed(sql: SqlFacts) -> Finding:
    value = sql.settings.get("innodb_flush_log_at_trx_commit")
    if value is None:
        return untold("sql.flush", "innodb_flush_log_at_trx_commit")
    what = f"innodb_flush_log_at_trx_commit is {value}"
    if value in {"1", "3"}:
        return ok("sql.flush", f"{what}: what is committed survives a power cut")
    when = "a crash of the server or a power cut" if value == "0" else "a power cut or a crash of its machine"
    why = f"{when} takes up to a second of committed tasks with it, and starts again what had ended"
    return warning("sql.flush", what, why, "SET GLOBAL innodb_flush_log_at_trx_commit = 1, and in my.cnf")


def _torn_pages(sql: SqlFacts) -> Finding:
    value = sql.settings.get("innodb_doublewrite")
    if value is None:
        return untold("sql.doublewrite", "innodb_doublewrite")
    if value.upper() in {"ON", "1", "DETECT_AND_RECOVER"}:
        return ok("sql.doublewrite", "pages are written twice: a power cut tears none")
    why = "a power cut in the middle of a page breaks the table, unless the disk writes 16 KiB at once"
    return warning(
        "sql.doublewrite", f"innodb_doublewrite is {value}", why, "innodb_doublewrite = ON in my.cnf"
    )


def _binary_log(sql: SqlFacts) -> Iterator[Finding]:
    if "log_bin" not in sql.settings:
        yield untold("sql.binlog_format", "whether there is a binary log")
        return
    if not is_on(sql.settings["log_bin"]):
        yield ok("sql.binlog_format", "there is no binary log")
        return
    form = sql.settings.get("binlog_format", "").upper()
    if not form:
        yield untold("sql.binlog_format", "binlog_format")
    elif form in {"ROW", "MIXED"}:
        yield ok("sql.binlog_format", f"binlog_format is {form}")
    else:
        why = "taskkit's sessions are READ COMMITTED, and InnoDB refuses their writes in this format (error 1665)"
        yield error(
            "sql.binlog_format", f"binlog_format is {form}", why, "set it to ROW or MIXED, also in my.cnf"
        )
    every = sql.settings.get("sync_binlog")
    if every is None:
        yield untold("sql.sync_binlog", "sync_binlog")
    elif every == "1":
        yield ok("sql.sync_binlog", "sync_binlog is 1: replicas miss nothing after a crash")
    else:
        why = "after a power cut replicas and point-in-time recovery may lack the last committed tasks"
        yield warning(
            "sql.sync_binlog", f"sync_binlog is {every}", why, "SET GLOBAL sync_binlog = 1, and in my.cnf"
        )


def _packet(sql: SqlFacts, facts: Facts) -> Finding:
    packet = number(sql.settings.get("max_allowed_packet"))
    if packet is None:
        return untold("sql.packet", "max_allowed_packet")
    largest = max(facts.payload_bytes, facts.result_bytes)
    need = 2 * largest + (1 << 20)
    what = f"max_allowed_packet is {size(packet)}"
    if packet < need:
        why = f"a payload or result of {size(largest)}, which the settings allow, may be refused and cuts the connection"
        advice = f"SET GLOBAL max_allowed_packet = {max(need, USUAL_PACKET)}, or lower max_payload_bytes"
        return error("sql.packet", what, why, advice)
    if packet < USUAL_PACKET:
        why = "writes of many tasks at once go in statements of up to 16 MiB"
        return warning(
            "sql.packet", what, why, f"SET GLOBAL max_allowed_packet = {USUAL_PACKET}, and in my.cnf"
        )
    return ok("sql.packet", what)


def _connections(sql: SqlFacts) -> Finding:
    most = number(sql.settings.get("max_connections"))
    own = number(sql.settings.get("max_user_connections"))
    if most is None or sql.connected is None:
        return untold("sql.connections", "how many connections there are and may be")
    what = f"{sql.connected} of {most} connections are in use"
    if own and own < most:
        what += f", and one account may have {own}"
    room = most - sql.connected
    why = "a process that gets none (error 1040) cannot start or carry on; a worker needs up to 3, a scheduler up to 4"
    advice = f"SET GLOBAL max_connections = {2 * most}, and in my.cnf; or find out who holds them"
    if room < most * 0.05 or (own and own < 8):
        return error("sql.connections", what, why, advice)
    if room < most * 0.2:
        return warning("sql.connections", what, why, advice)
    return ok("sql.connections", what)


def _patience(sql: SqlFacts) -> Finding:
    limit = number(sql.settings.get("wait_timeout"))
    if limit is None:
        return untold("sql.wait_timeout", "wait_timeout")
    what = f"wait_timeout is {limit} s"
    if limit >= RECYCLE_S:
        return ok("sql.wait_timeout", what)
    level = warning if limit < SHORT_WAIT_S else note
    why = (
        "idle connections are cut before taskkit renews them (30 min); each cut costs one repeated statement"
    )
    return level("sql.wait_timeout", what, why, "SET GLOBAL wait_timeout = 28800, and in my.cnf")
