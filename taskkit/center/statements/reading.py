"""Statements that only read tasks, runs and counts, for people and for programs."""

TASK_COLUMNS = (
    "id, task_code, task_type, queue, status, priority, payload, cron_expr, timezone, misfire, dst_gap, dst_overlap, "
    "delay, timeout, max_retry, retry_count, lost_count, attempt, plan_next_run_at, occurrence_at, next_fire_at, "
    "dispatched_at, claimed_at, worker_id, list_name, unique_key, held_reason, limit_key, granted_at, expires_at, "
    "cancel_requested_at, trace_id, progress, progress_text, result, last_run_at, last_result, created_at, updated_at"
)

TASKS_BY_ID = f"SELECT {TASK_COLUMNS} FROM task_center WHERE id IN :ids ORDER BY id"

TASKS = f"""
SELECT {TASK_COLUMNS} FROM task_center
WHERE (:before = 0 OR id < :before) {{filters}} ORDER BY id DESC LIMIT :n
"""

LIVE_BY_KEY = f"""
SELECT {TASK_COLUMNS} FROM task_center
WHERE live_key >= :low AND live_key < :high ORDER BY live_key LIMIT :n
"""

RUNS = """
SELECT task_id, attempt, task_code, queue, outcome, worker_id, host, pid, dispatched_at, started_at, finished_at,
       runtime_ms, occurrence_at, result, error, traceback, fingerprint
FROM task_run WHERE task_id IN :ids ORDER BY task_id, attempt
"""

OCCURRENCES = """
SELECT task_id, planned_at, state, reason, fired_at, late_s, attempt, outcome
FROM task_occurrence WHERE task_id = :id ORDER BY planned_at DESC LIMIT :n
"""

RECENT = """
SELECT id, task_code, queue, status FROM task_center ORDER BY id DESC LIMIT :n
"""

STATUS_OF = """
SELECT id, status, result, last_result FROM task_center WHERE id IN :ids
"""

COUNTS = """
SELECT status, COUNT(*) AS n FROM task_center GROUP BY status
"""

WAITING_BY_LIST = """
SELECT queue, priority, status, COUNT(*) AS n,
       SUM(CASE WHEN plan_next_run_at <= {now} THEN 1 ELSE 0 END) AS due,
       MIN(plan_next_run_at) AS earliest, {now} AS now
FROM task_center {force_dispatch} WHERE status IN (0, 1, 2, 4, 7) GROUP BY queue, priority, status
"""

PING = "SELECT 1"
