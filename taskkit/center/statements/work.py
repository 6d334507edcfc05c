"""Statements by which a worker claims tasks (1 → 2) and writes their ends (2 → 0, 3, 4, 5, 6)."""

from __future__ import annotations

from taskkit.center.statements.rows import Each, update_each

SAME_ATTEMPT, SAME_CODE = " AND attempt = :attempt", " AND task_code = :code"

_CLAIM = """
UPDATE task_center {force_primary} SET
  status = :to, worker_id = :worker, token = :token, claimed_at = {now}, progress = NULL, progress_text = NULL,
  spare = {spare_claimed}, updated_at = {now}
WHERE id IN :ids AND status IN :statuses AND (expires_at IS NULL OR expires_at > {now})
"""

# Goes before claims that are sent together with their COMMIT, which must not wait for a lock.
BEGIN = "START TRANSACTION"
LOCK_MESSAGES = """
SELECT id FROM task_center {force_primary} WHERE id IN :ids ORDER BY id {or_refuse}
"""

CLAIMED_IN_BATCH = """
SELECT {columns} FROM task_center {force_primary}
WHERE id IN :ids AND status = :status AND token = :token AND worker_id = :worker ORDER BY id
"""

# What a worker should hold; the payload is not asked for, since nothing of it is run.
HELD = """
SELECT id, task_code, attempt, queue, '' AS payload, task_type, timeout, max_retry, retry_count, retry_delays,
       dispatched_at, claimed_at, occurrence_at, cron_expr, timezone, misfire, dst_gap, dst_overlap, trace_id, suspect,
       lost_count
FROM task_center {force_dispatch} WHERE status = :status AND worker_id = :worker LIMIT :most
"""

UNCLAIMED = """
SELECT id, task_code, status, attempt, CASE WHEN expires_at <= {now} THEN 1 ELSE 0 END AS expired
FROM task_center {force_primary} WHERE id IN :ids
"""

EXPIRE_QUEUED = """
UPDATE task_center {force_primary} SET status = :to, last_result = :note, token = NULL, updated_at = {now}
WHERE id IN :ids AND status IN :statuses AND expires_at <= {now}
"""

LOCK_HELD = """
SELECT {columns} FROM task_center {force_primary}
WHERE id IN :ids AND status = :status AND worker_id = :worker ORDER BY id {for_update}
"""

END_COLUMNS = "id status retry_count delay moved occurrence_at next_fire_at last_result result suspect lost ended".split()

_ENDS = (
    ("status", "v.status"),
    ("retry_count", "v.retry_count"),
    (
        "plan_next_run_at",
        "CASE WHEN v.moved = 1 THEN v.occurrence_at ELSE COALESCE({after(v.delay)}, {c}.plan_next_run_at) END",
    ),
    ("occurrence_at", "CASE WHEN v.moved = 1 THEN v.occurrence_at ELSE {c}.occurrence_at END"),
    ("next_fire_at", "CASE WHEN v.moved = 1 THEN v.next_fire_at ELSE {c}.next_fire_at END"),
    ("occurrence_attempt", "CASE WHEN v.moved = 1 THEN NULL ELSE {c}.occurrence_attempt END"),
    ("lost_count", "CASE WHEN v.ended = 1 THEN 0 ELSE {c}.lost_count + v.lost END"),
    ("cancel_requested_at", "CASE WHEN v.ended = 1 THEN NULL ELSE {c}.cancel_requested_at END"),
    ("last_run_at", "{now}"),
    ("last_result", "v.last_result"),
    ("result", "v.result"),
    ("suspect", "v.suspect"),
    ("token", "NULL"),
    ("spare", "NULL"),
    ("updated_at", "{now}"),
)

OWN_RUNS = """
SELECT task_id, attempt, outcome FROM task_run WHERE task_id IN :ids AND worker_id = :worker
"""

CLOCK = "SELECT {now}"

RUN_COLUMNS = (
    "task_id attempt task_code queue outcome worker_id host pid dispatched_at started_at finished_at runtime_ms "
    "occurrence_at result error traceback fingerprint"
).split()

CANCEL_REQUESTED = """
SELECT id, attempt FROM task_center {force_primary}
WHERE id IN :ids AND worker_id = :worker AND status = :status AND cancel_requested_at IS NOT NULL
"""

PROGRESS = """
UPDATE task_center {force_primary} SET progress = :progress, progress_text = :text, updated_at = {now}
WHERE id = :id AND attempt = :attempt AND status = :status
"""

OCCURRENCE_ENDED = """
UPDATE task_occurrence SET outcome = :outcome WHERE task_id = :task_id AND planned_at = :planned_at
"""


def claim(*, attempt: bool, code: bool) -> str:
    """1 → 2 for messages that are alike: guarded by the attempt and the code that they name, if they do."""
    return _CLAIM + (SAME_ATTEMPT if attempt else "") + (SAME_CODE if code else "")


# Ends that are alike in all but the row; what moves a row in time stands in write_ends alone.
END_ALIKE = """
UPDATE task_center {force_primary} SET
  status = :status, retry_count = :retry_count, last_run_at = {now}, last_result = :last_result, result = :result,
  lost_count = 0, cancel_requested_at = NULL, suspect = :suspect, token = NULL, spare = NULL, updated_at = {now}
WHERE id IN :ids
"""
AS_THOUGHT = """AND status = :running AND worker_id = :worker AND attempt = :attempt AND task_type <> 1
  AND cancel_requested_at IS NULL AND granted_at IS NULL
"""


def write_ends(mysql: bool) -> Each:
    """One UPDATE for the ends of many locked tasks, each with values of its own."""
    return update_each(mysql, END_COLUMNS, _ENDS)


def insert_runs(mysql: bool, *, late: bool = False) -> Each:
    """INSERT of many run rows. One that is there already stays; a ``late`` end fills in a lost one."""
    head = f"INSERT INTO task_run ({', '.join(RUN_COLUMNS)}) VALUES "
    learnt = ", ".join(_learnt(mysql)) if late else "attempt = attempt"
    if mysql:
        return Each(head, f" ON DUPLICATE KEY UPDATE {learnt}")
    if not late:
        return Each(head, " ON CONFLICT (task_id, attempt) DO NOTHING")
    return Each(
        head, f" ON CONFLICT (task_id, attempt) DO UPDATE SET {learnt} WHERE task_run.outcome = 'lost'"
    )


def _learnt(mysql: bool) -> list[str]:
    """What a late end tells of a lost attempt; the outcome last, since MySQL assigns from left to right."""
    columns = "started_at finished_at runtime_ms pid result error traceback fingerprint outcome".split()
    if not mysql:
        return [f"{c} = COALESCE(excluded.{c}, task_run.{c})" for c in columns]
    one = "{c} = CASE WHEN task_run.outcome = 'lost' THEN COALESCE(VALUES({c}), task_run.{c}) ELSE task_run.{c} END"
    return [one.replace("{c}", c) for c in columns]
