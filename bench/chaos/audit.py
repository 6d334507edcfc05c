"""Triggers that write down every transition of task_center in the database itself, and the reading of what they wrote."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from bench.chaos.evidence import Move

Rows = Sequence[Sequence[Any]]
COLUMNS = "task, at, old, new, attempt_old, attempt_new, worker_old, worker_new, lost_count, firing, undone, session"
WATCHED = "status attempt worker_id occurrence_at occurrence_attempt lost_count".split()

TABLE = """
CREATE TABLE chaos_audit (
  seq {serial}, task BIGINT NOT NULL, at DOUBLE NOT NULL, old INT, new INT, attempt_old INT NOT NULL,
  attempt_new INT NOT NULL, worker_old VARCHAR(120), worker_new VARCHAR(120), lost_count INT NOT NULL,
  firing DOUBLE, undone DOUBLE, session BIGINT)
"""

CLOCK = {"mysql": "UNIX_TIMESTAMP(SYSDATE(6))", "sqlite": "(julianday('now') - 2440587.5) * 86400.0"}
SERIAL = {
    "mysql": "BIGINT AUTO_INCREMENT PRIMARY KEY",
    "sqlite": "INTEGER PRIMARY KEY AUTOINCREMENT",
}
SESSION = {"mysql": "CONNECTION_ID()", "sqlite": "NULL"}
INSTANT = {
    "mysql": "UNIX_TIMESTAMP(NEW.occurrence_at)",
    "sqlite": "(julianday(NEW.occurrence_at) - 2440587.5) * 86400.0",
}
SAME = {"mysql": "<=>", "sqlite": "IS"}
END = "END"


def statements(kind: str) -> list[str]:
    """What makes the audit table and its triggers, for ``mysql`` (MariaDB too) or ``sqlite``."""
    clock, session = CLOCK[kind], SESSION[kind]
    fired = f"CASE WHEN NEW.occurrence_attempt = NEW.attempt AND NEW.status = 1 AND NOT OLD.status {SAME[kind]} 1 "
    fired += f"AND OLD.occurrence_attempt IS NULL THEN {INSTANT[kind]} END"
    undone = "CASE WHEN OLD.status = 1 AND NEW.status = 0 AND OLD.occurrence_attempt = OLD.attempt "
    undone += f"AND NEW.occurrence_attempt IS NULL THEN {INSTANT[kind]} END"
    changed = "NOT (" + " AND ".join(f"OLD.{c} {SAME[kind]} NEW.{c}" for c in WATCHED) + ")"
    on_insert = f"NEW.id, {clock}, NULL, NEW.status, 0, NEW.attempt, NULL, NEW.worker_id, NEW.lost_count, NULL, NULL, "
    on_update = (
        f"NEW.id, {clock}, OLD.status, NEW.status, OLD.attempt, NEW.attempt, OLD.worker_id, NEW.worker_id, "
        f"NEW.lost_count, {fired}, {undone}, "
    )
    on_delete = f"OLD.id, {clock}, OLD.status, NULL, OLD.attempt, 0, OLD.worker_id, NULL, OLD.lost_count, NULL, NULL, "
    found = [TABLE.format(serial=SERIAL[kind])]
    for event, values, guard in (
        ("INSERT", on_insert, ""),
        ("UPDATE", on_update, changed),
        ("DELETE", on_delete, ""),
    ):
        found.append(
            _trigger(kind, event, f"INSERT INTO chaos_audit ({COLUMNS}) VALUES ({values}{session})", guard)
        )
    return found


def _trigger(kind: str, event: str, action: str, guard: str) -> str:
    head = f"CREATE TRIGGER chaos_{event.lower()} AFTER {event} ON task_center FOR EACH ROW"
    if kind == "sqlite":
        return f"{head}{f' WHEN {guard}' if guard else ''} BEGIN {action}; END"
    return f"{head} BEGIN {f'IF {guard} THEN {action}; END IF' if guard else action}; END"


def read(query: Callable[[str], Rows], offset: float) -> list[Move]:
    """The audit in its order; ``offset`` takes instants of the database's clock to the monotonic axis."""
    return list(_moves(query(f"SELECT seq, {COLUMNS} FROM chaos_audit ORDER BY seq"), offset))


def _moves(rows: Rows, offset: float) -> Iterable[Move]:
    for seq, task, at, old, new, before, after, worker_old, worker_new, lost, firing, undone, _ in rows:
        planned = (None if at is None else round(float(at)) for at in (firing, undone))
        yield Move(
            seq, task, float(at) + offset, old, new, before, after, worker_old, worker_new, lost, *planned
        )
