"""What the account of this process may do in SQL, against what taskkit's processes need."""

from __future__ import annotations

from collections.abc import Iterator

from taskkit.center.grants import ALL, Grants
from taskkit.center.sql_facts import OUR_TABLES, SqlFacts
from taskkit.health.findings import Finding, error, note, ok, quoted, untold

ROWS = ("SELECT", "INSERT", "UPDATE", "DELETE")
TOO_MUCH = frozenset({ALL, "SUPER", "SHUTDOWN", "FILE", "CREATE USER"})


def judge_grants(sql: SqlFacts) -> Iterator[Finding]:
    """Findings about the account; none on SQLite, where the file's owner decides."""
    if sql.grants is None:
        if sql.product != "sqlite":
            yield untold("sql.grants", "what this account may do (SHOW GRANTS)")
        return
    yield _rows(sql, sql.grants)
    yield _process(sql, sql.grants)
    if TOO_MUCH & sql.grants.server:
        yield note(
            "sql.grants_wide",
            f"{sql.account} may do {', '.join(sorted(TOO_MUCH & sql.grants.server))} on the whole server",
            "whoever learns its password has all databases",
            "use an account of its own, with the grants in docs/operations.md",
        )


def _rows(sql: SqlFacts, grants: Grants) -> Finding:
    tables = sorted(OUR_TABLES)
    lacking = {p: [t for t in tables if not grants.has(p, t)] for p in ROWS}
    missing = [privilege for privilege, where in lacking.items() if where]
    if not missing:
        return ok("sql.grants", f"{sql.account} may read and write all rows")
    if not grants.complete:
        what = f"{sql.account} has roles, whose privileges could not be looked into"
        return note("sql.grants", what, "", "see SHOW GRANTS … USING the role; needed are " + ", ".join(ROWS))
    where = f" on {', '.join(lacking[missing[0]])}" if len(lacking[missing[0]]) < len(tables) else ""
    why = (
        "schedulers, workers and the taskkit command need them on all of its tables; an application that only \
enqueues needs less"
    )
    return error("sql.grants", f"{sql.account} lacks {', '.join(missing)}{where}", why, _grant(sql, missing))


def _grant(sql: SqlFacts, privileges: list[str]) -> str:
    return f"GRANT {', '.join(privileges)} ON `{sql.database}`.* TO {quoted(sql.account)}"


def _process(sql: SqlFacts, grants: Grants) -> Finding:
    if grants.has("PROCESS"):
        return ok("sql.grants_process", f"{sql.account} may see who holds a lock (PROCESS)")
    what = f"{sql.account} lacks PROCESS"
    why = "when tasks stand behind a row lock, nothing can say whose transaction holds it"
    return note("sql.grants_process", what, why, f"GRANT PROCESS ON *.* TO {quoted(sql.account)}")
