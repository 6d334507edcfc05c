"""What open transactions mean: while one may still read old rows InnoDB keeps them, and every scan steps over them."""

from __future__ import annotations

from collections.abc import Iterator

from taskkit.center.sql_facts import SqlFacts
from taskkit.center.transactions import OpenTransaction
from taskkit.health.findings import Finding, note, ok, quoted, untold, warning

LONG_S, TOO_LONG_S = 60.0, 300.0
MANY, TOO_MANY = 100_000, 1_000_000
"""Changes that wait to be purged: a busy server has thousands for moments."""
OLD_ROWS = (
    "InnoDB must keep every row that was changed since as it was before: each scan for due tasks steps over what was "
    "dispatched meanwhile, and grows with it"
)
LOCKS = "what it has locked waits for it: claims and ends of those tasks give up after 10 s and try again"


def judge_transactions(sql: SqlFacts) -> Iterator[Finding]:
    """Findings about what is open on the server, and what waits to be purged."""
    yield _open(sql)
    yield _purge(sql)


def _open(sql: SqlFacts) -> Finding:
    facts = sql.transactions
    if not facts.told:
        return note(
            "sql.transaction",
            "which transactions are open is not known",
            "a report that stays open for long makes every scan slower, and nothing can say whose it is",
            f"GRANT PROCESS ON *.* TO {quoted(sql.account)}",
        )
    found = facts.longest
    if found is None or found.age_s < LONG_S:
        return ok("sql.transaction", f"no transaction has been open for {LONG_S:.0f} s")
    level = warning if found.age_s >= TOO_LONG_S else note
    why = OLD_ROWS if found.keeps_old_rows else LOCKS
    return level("sql.transaction", _told(found), why, _advice(found))


def _told(found: OpenTransaction) -> str:
    who = f" of {found.user}@{found.host}" if found.user else ""
    doing = "idle" if found.idle else "running"
    last = " after" if found.idle else ""
    statement = f"{last} `{found.statement}`" if found.statement else ""
    rows = f", {found.rows_locked} rows locked" if found.rows_locked else ""
    return (
        f"a transaction has been open for {_minutes(found.age_s)}: thread {found.thread}{who}, {found.isolation}, "
        f"{doing}{statement}{rows}"
    )


def _advice(found: OpenTransaction) -> str:
    return (
        f"end it where it runs, or KILL {found.thread}; let reports read from a replica, or commit between their "
        "statements, or set READ COMMITTED"
    )


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _purge(sql: SqlFacts) -> Finding:
    history = sql.transactions.history
    if history is None:
        return untold("sql.purge", "how many changes wait to be purged")
    what = f"{history} changes wait to be purged (history list length)"
    if history < MANY:
        return ok("sql.purge", what)
    longest = sql.transactions.longest
    old = longest is not None and longest.age_s >= LONG_S and longest.keeps_old_rows
    why = "scans step over rows that are gone, and the undo log fills the disk"
    advice = (
        "end the transaction that is open for longest, see sql.transaction; it shrinks within minutes then"
        if old
        else "let purge keep up: innodb_purge_threads = 4 or more, faster disks, innodb_max_purge_lag"
    )
    return (warning if history >= TOO_MANY else note)("sql.purge", what, why, advice)
