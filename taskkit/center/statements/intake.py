"""Statements that write new tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from taskkit.center.statements.rows import Each
from taskkit.model import NewTask


class Words(Protocol):
    """What composing an INSERT needs from a dialect."""

    name: str
    mark: str
    instant_around: str

    def render(self, template: str) -> str: ...


COLUMNS = (
    "task_code task_type queue payload cron_expr timezone misfire dst_gap dst_overlap priority delay timeout max_retry "
    "retry_delays unique_key trace_id token"
).split()
INSTANTS = ("plan_next_run_at", "occurrence_at", "next_fire_at", "expires_at")
LIMIT_KEY = "limit_key"
"""Stands at the end, and only for tasks that have one."""

IDS_OF_BATCH = """
SELECT id FROM task_center {force_primary} WHERE id >= :first AND token = :token ORDER BY id LIMIT :n
"""
HOLDERS_OF_KEYS = """
SELECT id, live_key FROM task_center WHERE live_key IN :keys {for_share}
"""

WRITTEN = """
SELECT id FROM task_center {force_primary} WHERE id IN :ids {for_share}
"""

# Not SELECT @@…, after which ProxySQL no longer shares the connection.
PACKET_MYSQL = "SHOW SESSION VARIABLES WHERE Variable_name = 'max_allowed_packet'"

REMEMBER_SCHEDULE = """
{insert_ignore} INTO task_schedule (task_id, digest) VALUES (:task_id, :digest)
"""


def insert_dispatched(dialect: Words, status: int) -> Each:
    """INSERT of many tasks that are dispatched already, attempt 1, now; the name of its list is a row's last value."""
    alike = {"status": str(status), "attempt": "1", "dispatched_at": "{now}"}
    return _insert(dialect, "{after(?)}", ["list_name"], alike)


def insert(dialect: Words, due_now: bool, skip_taken: bool, bound: bool = False) -> Each:
    """INSERT of many tasks; ``due_now`` takes the database's clock (plus ``delay``) for plan_next_run_at."""
    plan = "{after(?)}" if due_now else dialect.instant_around
    tail = ""
    if skip_taken:
        tail = " ON DUPLICATE KEY UPDATE id = id" if dialect.name == "mysql" else " ON CONFLICT DO NOTHING"
    return _insert(dialect, plan, [LIMIT_KEY] if bound else [], {}, tail)


def _insert(dialect: Words, plan: str, last: Sequence[str], alike: Mapping[str, str], tail: str = "") -> Each:
    """``last``: columns after those that every task has; ``alike``: what stands in all rows."""
    if dialect.name == "sqlite":  # its default rounds to milliseconds, perhaps beyond the dispatch
        alike = {**alike, "created_at": "{now}"}
    names = ", ".join([*COLUMNS, *INSTANTS, *last, *alike])
    around = [None] * len(COLUMNS) + [dialect.render(plan)] + [dialect.instant_around] * (len(INSTANTS) - 1)
    return Each(
        f"INSERT INTO task_center ({names}) VALUES ",
        tail,
        around=[*around, *[None for _ in last]],
        alike="".join(f", {dialect.render(value)}" for value in alike.values()),
    )


def values(task: NewTask, token: str, instants: Mapping[str, object]) -> list[object]:
    """The parameters of one row of :func:`insert`."""
    return [
        task.task_code, int(task.task_type), task.queue, task.payload, task.cron_expr, task.timezone, task.misfire,
        task.dst_gap, task.dst_overlap, task.priority, -(-int(task.delay * 1000) // 1000), task.timeout,
        task.max_retry, task.retry_delays, task.unique_key, task.trace_id, token,
        *(instants[name] for name in INSTANTS), *(() if task.limit_key is None else (task.limit_key,)),
    ]  # fmt: skip
