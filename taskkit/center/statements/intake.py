"""Statements that write new tasks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from taskkit.model import NewTask


class Words(Protocol):
    """What composing an INSERT needs from a dialect."""

    name: str
    mark: str
    instant_mark: str

    def render(self, template: str) -> str: ...


COLUMNS = (
    "task_code task_type queue payload cron_expr timezone misfire dst_gap dst_overlap priority delay timeout max_retry "
    "retry_delays unique_key trace_id token"
).split()
INSTANTS = ("plan_next_run_at", "occurrence_at", "next_fire_at", "expires_at")

IDS_OF_BATCH = """
SELECT id FROM task_center {force_primary} WHERE id >= :first AND token = :token ORDER BY id LIMIT :n
"""
HOLDERS_OF_KEYS = """
SELECT id, live_key FROM task_center WHERE live_key IN :keys {for_share}
"""

WRITTEN = """
SELECT id FROM task_center {force_primary} WHERE id IN :ids {for_share}
"""

PACKET_MYSQL = "SELECT @@max_allowed_packet"

REMEMBER_SCHEDULE = """
{insert_ignore} INTO task_schedule (task_id, digest) VALUES (:task_id, :digest)
"""


def insert(dialect: Words, rows: int, due_now: bool, skip_taken: bool) -> str:
    """INSERT of ``rows`` tasks; ``due_now`` takes the database's clock (plus ``delay``) for plan_next_run_at."""
    plan = dialect.render(f"{{after({dialect.mark})}}") if due_now else dialect.instant_mark
    marks = [dialect.mark] * len(COLUMNS) + [plan] + [dialect.instant_mark] * (len(INSTANTS) - 1)
    one = "(" + ", ".join(marks) + ")"
    names = ", ".join([*COLUMNS, *INSTANTS])
    text = f"INSERT INTO task_center ({names}) VALUES {', '.join([one] * rows)}"
    if skip_taken:
        text += " ON DUPLICATE KEY UPDATE id = id" if dialect.name == "mysql" else " ON CONFLICT DO NOTHING"
    return text


def values(task: NewTask, token: str, instants: Mapping[str, object]) -> list[object]:
    """The parameters of one row of :func:`insert`."""
    row = [getattr(task, column) for column in COLUMNS[:-1]]
    row[COLUMNS.index("task_type")] = int(task.task_type)
    row[COLUMNS.index("delay")] = -(-int(task.delay * 1000) // 1000)
    return [*row, token, *(instants[name] for name in INSTANTS)]
