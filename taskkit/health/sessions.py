"""What sessions get by default, ours and those of other programs: limits, lock waits, isolation, time zone."""

from __future__ import annotations

from collections.abc import Iterator

from taskkit.center.sql_facts import SqlFacts
from taskkit.health.findings import Finding, error, is_on, note, number, ok, untold, warning

FIXED_ZONES = ("UTC", "GMT", "ETC/", "+", "-")


def judge_sessions(sql: SqlFacts) -> Iterator[Finding]:
    """Findings about what a server gives its sessions."""
    yield _pooler(sql)
    yield _statement_limit(sql)
    yield _locks(sql)
    yield _isolation(sql)
    yield _zone(sql)


def _pooler(sql: SqlFacts) -> Finding:
    several = sql.sessions > 1
    if several and not sql.pooled:
        what = f"{sql.sessions} sessions answered transactions of one connection: a pooler stands in between"
        why = "what taskkit sets its sessions to is lost from one transaction to the next"
        advice = "write ?pooler=transaction at the end of the database's URL, or connect to the server itself"
        return error("sql.pooler", what, why, advice)
    if sql.pooled and not several:
        what = (
            "?pooler=transaction stands in the URL, and one session answered all transactions of a connection"
        )
        why = "each transaction costs one trip to the server more than it may need"
        return note("sql.pooler", what, why, "leave it out, unless the pooler changes sessions under load")
    kind = (
        "another session for each transaction, set anew each time" if several else "one session a connection"
    )
    return ok("sql.pooler", kind)


def _statement_limit(sql: SqlFacts) -> Finding:
    if not {"max_statement_time", "max_execution_time"} & sql.settings.keys():
        return untold("sql.statement_limit", "whether the server ends statements that take long")
    seconds = max(
        float(sql.settings.get("max_statement_time") or 0),
        float(sql.settings.get("max_execution_time") or 0) / 1000,
    )
    if seconds == 0 or seconds >= 10:
        return ok(
            "sql.statement_limit",
            f"statements may take {f'{seconds:g} s' if seconds else 'as long as they need'}",
        )
    what = f"the server ends statements after {seconds:g} s"
    return warning(
        "sql.statement_limit",
        what,
        "under load it may end the scan for due tasks, or a batch of ends, again and again",
        "raise max_statement_time (MariaDB) or max_execution_time (MySQL) to 10 s or more, or to 0",
    )


def _locks(sql: SqlFacts) -> Finding:
    wait = number(sql.settings.get("innodb_lock_wait_timeout"))
    if "innodb_deadlock_detect" in sql.settings and not is_on(sql.settings["innodb_deadlock_detect"]):
        why = "two sessions that wait for each other stand still for 10 s instead of some milliseconds"
        return warning(
            "sql.locks", "innodb_deadlock_detect is OFF", why, "SET GLOBAL innodb_deadlock_detect = ON"
        )
    if wait is None:
        return untold("sql.locks", "innodb_lock_wait_timeout")
    what = f"others wait {wait} s for a row lock (innodb_lock_wait_timeout), taskkit 10 s"
    if wait > 120:
        why = "an application that inserts tasks may hang for so long behind somebody's transaction"
        return note("sql.locks", what, why, "SET GLOBAL innodb_lock_wait_timeout = 50, its default, or less")
    return ok("sql.locks", what)


def _isolation(sql: SqlFacts) -> Finding:
    value = sql.settings.get("transaction_isolation") or sql.settings.get("tx_isolation")
    if value is None:
        return untold("sql.isolation", "the server's default isolation")
    what = f"taskkit's sessions are READ COMMITTED; the server's default is {value.replace('-', ' ')}"
    if value.upper() != "SERIALIZABLE":
        return ok("sql.isolation", what)
    why = "every SELECT of other programs on task_center locks what it reads, and dispatch waits for it"
    return warning(
        "sql.isolation", what, why, "SET GLOBAL transaction_isolation = 'REPEATABLE-READ', its default"
    )


def _zone(sql: SqlFacts) -> Finding:
    zone = sql.settings.get("time_zone", "SYSTEM")
    zone = sql.settings.get("system_time_zone", "") if zone == "SYSTEM" else zone
    if not zone:
        return untold("sql.time_zone", "the server's default zone")
    what = f"taskkit's sessions are at +00:00; the server's default zone is {zone}"
    if zone.upper().startswith(FIXED_ZONES):
        return ok("sql.time_zone", what)
    why = (
        "instants stay right, but where the zone has daylight saving, NOW() of a foreign session is ambiguous for an "
        "hour in autumn"
    )
    return note(
        "sql.time_zone", what, why, "SET GLOBAL time_zone = '+00:00', or see `Instants` in docs/operations.md"
    )
