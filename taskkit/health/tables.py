"""What the tables themselves must be like: engine, letters, and the indexes that everything rests on."""

from __future__ import annotations

from collections.abc import Iterator

from taskkit.center.sql_facts import SqlFacts
from taskkit.health.findings import Finding, error, ok, untold

INDEXES = {
    "task_center.ix_dispatch": "every scan reads the whole table",
    "task_center.uq_live_key": "a unique_key is kept by nobody",
    "task_run.uq_run_attempt": "an attempt could be recorded twice",
    "task_run.ix_run_finished": "samples and retention read all runs",
    "task_occurrence.ix_occurrence_state": "the planner and retention read all occurrences",
}


def judge_tables(sql: SqlFacts) -> Iterator[Finding]:
    """Findings about the tables; none where there is no schema yet."""
    if sql.schema is None:
        return
    yield _indexes(sql.indexes)
    if sql.product != "sqlite":
        yield _engines(sql)
        yield _letters(sql)


def _indexes(there: frozenset[str] | None) -> Finding:
    if there is None:
        return untold("sql.indexes", "which indexes there are (information_schema.STATISTICS)")
    missing = [name for name in INDEXES if name not in there]
    if not missing:
        return ok("sql.indexes", "the indexes that dispatch and keys rest on are there")
    why = "; ".join(INDEXES[name] for name in missing)
    advice = (
        "create it as docs and migrations have it; somebody dropped it, or a copy of the table left it out"
    )
    return error("sql.indexes", f"missing: {', '.join(missing)}", why, advice)


def _engines(sql: SqlFacts) -> Finding:
    if not sql.engines:
        return untold("sql.engine", "the engine of the tables (information_schema.TABLES)")
    wrong = sorted(name for name, engine in sql.engines.items() if engine.lower() != "innodb")
    if not wrong:
        return ok("sql.engine", "all tables are InnoDB")
    why = "without transactions and row locks a task may run twice or be lost"
    advice = f"ALTER TABLE {wrong[0]} ENGINE = InnoDB" + (", and so on" if wrong[1:] else "")
    return error("sql.engine", f"not InnoDB: {', '.join(wrong)}", why, advice)


def _holds_all(name: str, collation: str) -> bool:
    """The table of the version, which only holds digits, is as the database's default has it."""
    return collation.startswith("utf8mb4") or name == "task_schema"


def _letters(sql: SqlFacts) -> Finding:
    if not sql.collations:
        return untold("sql.charset", "the character set of the tables (information_schema.TABLES)")
    wrong = sorted(name for name, collation in sql.collations.items() if not _holds_all(name, collation))
    if not wrong:
        return ok("sql.charset", "all tables are utf8mb4")
    why = "payloads and errors with emoji or rare characters are refused"
    advice = f"ALTER TABLE {wrong[0]} DEFAULT CHARACTER SET utf8mb4; never CONVERT, which changes how names compare"
    return error("sql.charset", f"not utf8mb4: {', '.join(wrong)}", why, advice)
