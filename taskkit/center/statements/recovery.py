"""Statements by which a scheduler finds what is lost: dispatched rows (1 → 0), and running ones (2 → 0, 5)."""

DISPATCHED_LISTS = """
SELECT DISTINCT queue, priority FROM task_center {force_dispatch} WHERE status = :status
"""

# Older than the head of their list, which is first in first out; or in a list that has no head, or is none we know.
_SUSPECTS = """
SELECT id, attempt, list_name FROM task_center {force_dispatch}
WHERE status = :status AND queue = :queue AND priority = :priority AND dispatched_at <= {after(-:age)} {older}
ORDER BY plan_next_run_at LIMIT :n
"""


def suspects(heads: int) -> str:
    """With so many lists that have a head, by their names ``:list_0`` … and the heads ``:head_0`` …"""
    each = [f"(list_name = :list_{n} AND dispatched_at <= :head_{n})" for n in range(heads)]
    older = f"AND (list_name NOT IN :names OR {' OR '.join(each)})" if heads else ""
    return _SUSPECTS.replace("{older}", older)


_ATTEMPT = """
  id, task_code, attempt, queue, '' AS payload, task_type, timeout, max_retry, retry_count, retry_delays, lost_count,
  dispatched_at, claimed_at, occurrence_at, cron_expr, timezone, misfire, dst_gap, dst_overlap, trace_id, suspect,
  next_fire_at, cancel_requested_at, progress, progress_text, {now} AS now
"""

LOCK_DISPATCHED = f"""
SELECT {_ATTEMPT} FROM task_center {{force_primary}}
WHERE id IN :ids AND status IN :statuses ORDER BY id {{skip_locked}}
"""

RING_AGAIN = """
UPDATE task_center {force_primary} SET status = :to, token = NULL, updated_at = {now}
WHERE id IN :ids AND status IN :statuses
"""

WATCHED = """
SELECT worker_id, heartbeat_count, {age(heartbeat_at)} AS age_s,
  CASE WHEN lost_at >= heartbeat_at THEN 1 ELSE 0 END AS lost
FROM task_worker WHERE stopped_at IS NULL
"""

# A heartbeat after the look means that it lives; then nothing is written.
DECLARE_DEAD = """
UPDATE task_worker SET lost_at = {now}
WHERE worker_id = :worker AND heartbeat_count = :heartbeat_count AND stopped_at IS NULL
"""

_GONE = """
  w.worker_id IS NULL OR c.claimed_at <= w.stopped_at OR (w.lost_at >= w.heartbeat_at AND c.claimed_at <= w.lost_at)
"""

# Who holds running rows; those orphaned were claimed before their worker stopped or was declared dead.
HOLDERS = f"""
SELECT c.worker_id, COUNT(*) AS held, SUM(CASE WHEN {_GONE} THEN 1 ELSE 0 END) AS orphaned
FROM task_center c {{force_dispatch}} LEFT JOIN task_worker w ON w.worker_id = c.worker_id
WHERE c.status = :status GROUP BY c.worker_id
"""

ORPHANS = f"""
SELECT c.id, c.attempt FROM task_center c {{force_dispatch}} LEFT JOIN task_worker w ON w.worker_id = c.worker_id
WHERE c.status = :status AND c.worker_id = :worker AND ({_GONE}) ORDER BY c.id LIMIT :n
"""

# Looked at again under the lock: the worker may have woken up, and even claimed the same task again.
LOCK_ORPHANS = f"""
SELECT {_ATTEMPT} FROM task_center {{force_primary}}
WHERE id IN :ids AND status = :status AND worker_id = :worker AND NOT EXISTS (
  SELECT 1 FROM task_worker w WHERE w.worker_id = :worker AND CASE
    WHEN task_center.claimed_at <= w.stopped_at THEN 0
    WHEN w.lost_at >= w.heartbeat_at AND task_center.claimed_at <= w.lost_at THEN 0 ELSE 1 END = 1)
ORDER BY id {{skip_locked}}
"""

OVERDUE = """
SELECT id, task_code, attempt, worker_id, timeout, {age(claimed_at)} AS age_s FROM task_center {force_dispatch}
WHERE status = :status AND {age(claimed_at)} > timeout + :margin ORDER BY id LIMIT :n
"""
