"""Statements of the frames about repeated runs, nodes, schedules, people, and transactions of a server."""

# Tasks whose second or later attempt ended in the window, the newest first.
REPEATED = """
SELECT r.task_id FROM task_run r {force_finished}
WHERE r.finished_at >= :since AND r.finished_at < :until AND r.attempt > 1 AND r.occurrence_at IS NULL
GROUP BY r.task_id ORDER BY MAX(r.finished_at) DESC, r.task_id DESC LIMIT :most
"""

# One business key: the same unique key, or the same code and payload, written more than once.
TWINS = """
SELECT c.task_code, CASE WHEN c.unique_key IS NULL THEN 'payload' ELSE 'unique_key' END AS key_kind,
  COALESCE(c.unique_key, {digest(c.payload)}) AS business_key, t.tasks, t.first_id, t.last_id, t.first_at, t.last_at
FROM (
  SELECT {by_sorting} COUNT(*) AS tasks, MIN(id) AS first_id, MAX(id) AS last_id, MIN(created_at) AS first_at,
    MAX(created_at) AS last_at
  FROM (
    SELECT id, created_at,
      CASE WHEN unique_key IS NULL THEN {digest(payload)} ELSE {digest(unique_key)} END AS mark, task_code,
      CASE WHEN unique_key IS NULL THEN 0 ELSE 1 END AS keyed
    FROM task_center {force_primary}
    WHERE id >= :low AND id > :newest - 1000000 AND task_type <> 1 AND created_at >= :since AND created_at < :until
      AND (unique_key IS NOT NULL OR payload NOT IN ('{}', 'null'))) w
  GROUP BY mark, task_code, keyed HAVING COUNT(*) > 1 ORDER BY tasks DESC, first_id LIMIT 500) t
JOIN task_center c ON c.id = t.first_id ORDER BY t.tasks DESC, t.first_id
"""

_RUN = """r.task_id, r.attempt, r.task_code, r.queue, r.outcome, r.worker_id, r.host, r.pid, r.dispatched_at,
  r.started_at, r.finished_at, r.runtime_ms, r.occurrence_at, r.fingerprint, SUBSTR(r.error, 1, 200) AS error,
  c.created_at, c.plan_next_run_at AS due_at, c.retry_count, c.lost_count, c.unique_key"""
RUNS_OF = f"""
SELECT {_RUN} FROM task_run r LEFT JOIN task_center c ON c.id = r.task_id
WHERE r.task_id IN :ids AND r.occurrence_at IS NULL ORDER BY r.task_id, r.attempt
"""
# Occurrences with more than one run, one of which ended in the window: all runs of these, and none of any other.
RUNS_OF_OCCURRENCES = f"""
SELECT {_RUN} FROM (
  SELECT r.task_id, r.occurrence_at, CASE WHEN MIN(r.attempt) > 100 THEN MIN(r.attempt) - 100 ELSE 0 END AS low, MAX(r.attempt) + 100 AS high
  FROM task_run r {{force_finished}}
  WHERE r.finished_at >= :since AND r.finished_at < :until AND r.occurrence_at IS NOT NULL
  GROUP BY r.task_id, r.occurrence_at
  HAVING COUNT(*) > 1 OR MAX(EXISTS (SELECT 1 FROM task_run e
    WHERE e.task_id = r.task_id AND e.attempt = r.attempt - 1 AND e.occurrence_at = r.occurrence_at)) = 1
  ORDER BY MAX(r.finished_at) DESC, r.task_id DESC LIMIT :most) w
{{then_join}} task_run r ON r.task_id = w.task_id AND r.attempt BETWEEN w.low AND w.high
  AND r.occurrence_at = w.occurrence_at
LEFT JOIN task_center c ON c.id = r.task_id ORDER BY r.task_id, r.attempt
"""

WORKERS = """
SELECT worker_id, host, pid, queues, processes, started_at, heartbeat_at, last_progress_at, busy, processed, failed,
  dropped, retries, rss_bytes, cpu_percent, children, tasks, stacks, stopped_at,
  CASE WHEN lost_at >= heartbeat_at THEN lost_at END AS lost_at
FROM task_worker WHERE (stopped_at IS NULL OR stopped_at >= :since) AND heartbeat_at >= :since_a_day
ORDER BY worker_id LIMIT 2000
"""

SCHEDULERS = """
SELECT scheduler_id, host, pid, started_at, heartbeat_at, last_scan_at, scans, dispatched, retries, clock_offset_ms,
  stopped_at
FROM task_scheduler WHERE (stopped_at IS NULL OR stopped_at >= :since) AND heartbeat_at >= :since_a_day
ORDER BY scheduler_id LIMIT 200
"""

OCCURRENCES = """
SELECT {bucket(o.planned_at)} AS bucket_at, c.task_code, o.state, COUNT(*) AS occurrences, MAX(o.late_s) AS late_max_s,
  AVG(o.late_s) AS late_mean_s,
  SUM(CASE WHEN o.outcome IS NOT NULL AND o.outcome <> 'success' THEN 1 ELSE 0 END) AS failed
FROM task_occurrence o {force_state} {then_join} task_center c ON c.id = o.task_id
WHERE o.state IN ('planned', 'fired', 'skipped', 'missed') AND o.planned_at >= :since AND o.planned_at < :until
  AND o.planned_at <= :now GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
"""

TROUBLED_OCCURRENCES = """
SELECT o.task_id, c.task_code, c.queue, c.cron_expr, c.timezone, c.misfire, c.status, o.planned_at, o.state, o.reason,
  o.fired_at, o.late_s, o.attempt, o.outcome
FROM task_occurrence o {force_state} {then_join} task_center c ON c.id = o.task_id
WHERE o.state IN ('planned', 'fired', 'skipped', 'missed') AND o.planned_at >= :since AND o.planned_at < :until
  AND o.planned_at <= :now AND (o.state <> 'fired' OR o.late_s > 60 OR o.outcome <> 'success')
ORDER BY o.planned_at DESC, o.task_id LIMIT 2000
"""

DEAD_LETTERS = """
SELECT c.task_code, c.queue, COALESCE(r.fingerprint, '') AS fingerprint, COUNT(*) AS tasks,
  MIN(c.updated_at) AS first_at, MAX(c.updated_at) AS last_at, MIN(c.id) AS sample_id,
  SUM(CASE WHEN c.updated_at >= :since THEN 1 ELSE 0 END) AS new_tasks, SUBSTR(MIN(r.error), 1, 200) AS error
FROM task_center c {force_dispatch} LEFT JOIN task_run r ON r.task_id = c.id AND r.attempt = c.attempt
WHERE c.status = 5 AND c.updated_at < :until GROUP BY 1, 2, 3 ORDER BY tasks DESC, 1, 2, 3 LIMIT 500
"""

LIMITS = """
SELECT l.scope, l.name, l.concurrency, l.rate, l.period_s FROM task_limit l ORDER BY l.scope, l.name LIMIT 5000
"""
LIMIT_LINES = """
SELECT queue, COALESCE(limit_key, '') AS limit_key, state, COUNT(*) AS tasks, MIN(due_at) AS oldest_at
FROM task_limit_place WHERE state < 3 GROUP BY 1, 2, 3 ORDER BY tasks DESC, 1, 2, 3 LIMIT 5000
"""
SHARDS = "SELECT queue, shards, lists FROM task_queue ORDER BY queue LIMIT 5000"

ACTIONS = """
SELECT at, actor, action, task_id, SUBSTR(detail, 1, 200) AS detail FROM task_action
WHERE at < :until AND (at >= :since OR at >= :since_a_day AND action IN ('run_now', 'retry'))
ORDER BY id DESC LIMIT 1000
"""

# InnoDB tells when a transaction began by the clock on the server's wall.
TRANSACTIONS_MYSQL = """
SELECT t.trx_mysql_thread_id AS thread, p.USER AS account, p.HOST AS host, p.COMMAND AS command,
  t.trx_state AS state, COALESCE(t.trx_query, p.INFO) AS statement, t.trx_rows_locked AS rows_locked,
  t.trx_rows_modified AS rows_changed,
  TIMESTAMPDIFF(SECOND, CONVERT_TZ(t.trx_started, 'SYSTEM', '+00:00'), UTC_TIMESTAMP()) AS age_s
FROM information_schema.INNODB_TRX t LEFT JOIN information_schema.PROCESSLIST p ON p.ID = t.trx_mysql_thread_id
WHERE t.trx_mysql_thread_id NOT IN (0, CONNECTION_ID()) ORDER BY t.trx_started, thread LIMIT 500
"""
LOCK_WAITS_MARIADB = """
SELECT r.trx_mysql_thread_id AS waiting_thread, b.trx_mysql_thread_id AS holding_thread,
  l.lock_table AS table_name, l.lock_index AS index_name, 'row' AS kind,
  TIMESTAMPDIFF(SECOND, CONVERT_TZ(r.trx_wait_started, 'SYSTEM', '+00:00'), UTC_TIMESTAMP()) AS waited_s
FROM information_schema.INNODB_LOCK_WAITS w
JOIN information_schema.INNODB_TRX r ON r.trx_id = w.requesting_trx_id
JOIN information_schema.INNODB_TRX b ON b.trx_id = w.blocking_trx_id
LEFT JOIN information_schema.INNODB_LOCKS l ON l.lock_id = w.requested_lock_id ORDER BY 6 DESC, 1, 2 LIMIT 500
"""
LOCK_WAITS_MYSQL = """
SELECT rt.PROCESSLIST_ID AS waiting_thread, bt.PROCESSLIST_ID AS holding_thread,
  CONCAT(l.OBJECT_SCHEMA, '.', l.OBJECT_NAME) AS table_name, l.INDEX_NAME AS index_name, 'row' AS kind,
  TIMESTAMPDIFF(SECOND, CONVERT_TZ(t.trx_wait_started, 'SYSTEM', '+00:00'), UTC_TIMESTAMP()) AS waited_s
FROM performance_schema.data_lock_waits w
JOIN performance_schema.threads rt ON rt.THREAD_ID = w.REQUESTING_THREAD_ID
JOIN performance_schema.threads bt ON bt.THREAD_ID = w.BLOCKING_THREAD_ID
JOIN performance_schema.data_locks l ON l.ENGINE_LOCK_ID = w.REQUESTING_ENGINE_LOCK_ID
LEFT JOIN information_schema.INNODB_TRX t ON t.trx_mysql_thread_id = rt.PROCESSLIST_ID ORDER BY 6 DESC, 1, 2 LIMIT 500
"""
# A metadata lock is seen by its waiter's state; who holds it, only where performance_schema instruments it.
METADATA_WAITS_MYSQL = """
SELECT ID AS waiting_thread, NULL AS holding_thread, DB AS table_name, NULL AS index_name, 'metadata' AS kind,
  TIME AS waited_s
FROM information_schema.PROCESSLIST WHERE STATE LIKE 'Waiting for table metadata lock%' ORDER BY TIME DESC, ID LIMIT 500
"""

VERSION_SQLITE = "SELECT sqlite_version() AS version"
VERSION_MYSQL = "SELECT VERSION() AS version"
