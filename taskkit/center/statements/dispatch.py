"""Statements by which a scheduler finds due tasks, claims them (0, 4 → 1) and puts them back (1 → 0)."""

LISTS_MYSQL = """
SELECT status, queue, priority, MIN(plan_next_run_at) AS earliest, NOW(6) AS now
FROM task_center FORCE INDEX (ix_dispatch)
WHERE status IN (0, 4) GROUP BY status, queue, priority
"""

# Right after a large load the statistics are too old for the server to see that the scan above can be a loose one.
REFRESH_STATISTICS_MYSQL = "ANALYZE NO_WRITE_TO_BINLOG TABLE task_center"

# SQLite has no loose index scan: this walks from the head of one list to the head of the next.
LISTS_SQLITE = """
WITH RECURSIVE states(s) AS (VALUES (0), (4)), heads(s, id) AS (
  SELECT s, (SELECT id FROM task_center WHERE status = s
             ORDER BY queue, priority, plan_next_run_at LIMIT 1) FROM states
  UNION ALL
  SELECT h.s, COALESCE(
    (SELECT n.id FROM task_center n WHERE n.status = h.s AND n.queue = c.queue AND n.priority > c.priority
     ORDER BY n.priority, n.plan_next_run_at LIMIT 1),
    (SELECT n.id FROM task_center n WHERE n.status = h.s AND n.queue > c.queue
     ORDER BY n.queue, n.priority, n.plan_next_run_at LIMIT 1))
  FROM heads h JOIN task_center c ON c.id = h.id
)
SELECT c.status, c.queue, c.priority,
       (SELECT MIN(m.plan_next_run_at) FROM task_center m
        WHERE m.status = c.status AND m.queue = c.queue AND m.priority = c.priority) AS earliest,
       {now} AS now
FROM heads h JOIN task_center c ON c.id = h.id
"""

CANDIDATES = """
SELECT {columns} FROM task_center {force_dispatch}
WHERE status = :status AND queue = :queue AND priority = :priority AND plan_next_run_at <= {now}
ORDER BY plan_next_run_at LIMIT :n OFFSET :skip
"""

# One short range for each status: whether anything waits in a list that a new task would overtake.
WAITS = """
SELECT {now} AS now,
  EXISTS (SELECT 1 FROM task_center {force_dispatch}
          WHERE status = 0 AND queue = :queue AND priority = :priority AND plan_next_run_at <= {now}) AS pending,
  EXISTS (SELECT 1 FROM task_center {force_dispatch}
          WHERE status = 4 AND queue = :queue AND priority = :priority AND plan_next_run_at <= {now}) AS failed,
  EXISTS (SELECT 1 FROM task_limit WHERE scope = 'queue' AND (name = :queue OR (
            name LIKE '%*' AND SUBSTR(:queue, 1, {letters}(name) - 1) = SUBSTR(name, 1, {letters}(name) - 1)))) AS bound,
  (SELECT shards FROM task_queue WHERE queue = :queue) AS shards,
  (SELECT lists FROM task_queue WHERE queue = :queue) AS lists
"""

LOCK_DUE = """
SELECT {columns} FROM task_center {force_primary}
WHERE id IN :ids AND status IN :statuses AND plan_next_run_at <= {now}
ORDER BY id {skip_locked}
"""

# occurrence_attempt stands before attempt: MySQL assigns from left to right, SQLite from the old row.
CLAIM_DUE = """
UPDATE task_center {force_primary} SET
  status = :to,
  occurrence_attempt = CASE WHEN task_type = 1 AND occurrence_at IS NOT NULL AND occurrence_attempt IS NULL
                            THEN attempt + 1 ELSE occurrence_attempt END,
  attempt = attempt + 1, dispatched_at = :now, token = :token, list_name = {list_name(:shards)},
  worker_id = NULL, claimed_at = NULL, spare = {spare_dispatched}, updated_at = {now}
WHERE id IN :ids AND status IN :statuses AND plan_next_run_at <= {now}
"""

EXPIRE_DUE = """
UPDATE task_center {force_primary} SET status = :to, last_result = :note, token = NULL, updated_at = {now}
WHERE id IN :ids AND status IN :statuses
"""

WON_IN_BATCH = """
SELECT id, task_code, attempt, queue, priority, dispatched_at, list_name FROM task_center {force_primary}
WHERE id IN :ids AND status = :status AND token = :token ORDER BY id {or_refuse}
"""

# Occurrences that were fired by the very dispatch which is to be undone.
FIRED_BY = """
SELECT id, attempt, occurrence_at FROM task_center {force_primary}
WHERE id IN :ids AND status IN :statuses AND token = :token AND occurrence_attempt = attempt ORDER BY id {for_update}
"""

PUT_BACK = """
UPDATE task_center {force_primary} SET
  status = :to, token = NULL, updated_at = {now},
  occurrence_attempt = CASE WHEN occurrence_attempt = attempt THEN NULL ELSE occurrence_attempt END
WHERE id IN :ids AND status IN :statuses AND token = :token
"""
