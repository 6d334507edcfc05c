"""Statements of the watchdog's checks: each only reads, and a part of an index, so that it may be asked every few seconds."""

from taskkit.names import DRILL_LETTERS, DRILL_QUEUES

# The newest sample of each queue, where it is not too old to count.
SAMPLED = """
SELECT queue, due, queued, oldest_age_s FROM task_sample
WHERE sampled_at = (SELECT MAX(sampled_at) FROM task_sample) AND sampled_at >= {after(-:age)}
"""

_OURS = f"NOT LIKE '{DRILL_QUEUES}{'_' * DRILL_LETTERS}'"
"""What a queue is that is no drill's."""
_RUNS = f"FROM task_run r {{force_finished}} WHERE r.finished_at >= :since AND r.finished_at < :until AND r.queue {_OURS}"

OUTCOMES = f"""
SELECT r.outcome, CASE WHEN r.worker_id IS NULL THEN 0 ELSE 1 END AS claimed, COUNT(*) AS runs {_RUNS} GROUP BY 1, 2
"""

RUNS_BY_CODE = f"SELECT r.task_code, COUNT(*) AS runs {_RUNS} AND r.runtime_ms IS NOT NULL GROUP BY 1"

WORKERS = """
SELECT worker_id, host, pid, queues, processes, busy, started_at, heartbeat_at, {age(heartbeat_at)} AS heartbeat_age_s,
  last_progress_at, {age(last_progress_at)} AS progress_age_s, {age(started_at)} AS started_age_s, stopped_at,
  CASE WHEN lost_at >= heartbeat_at THEN lost_at END AS lost_at
FROM task_worker ORDER BY worker_id
"""

SCHEDULERS = """
SELECT scheduler_id, host, pid, started_at, heartbeat_at, {age(heartbeat_at)} AS heartbeat_age_s, last_scan_at,
  {age(last_scan_at)} AS scan_age_s, clock_offset_ms, stopped_at
FROM task_scheduler ORDER BY scheduler_id
"""

HELD_BY = """
SELECT worker_id, COUNT(*) AS held FROM task_center {force_dispatch} WHERE status = 2 GROUP BY worker_id
"""

# Running rows whose worker has shown no sign of life for so long, and which nobody has taken back.
ORPHANED = f"""
SELECT COUNT(*) AS tasks, MIN(c.claimed_at) AS oldest_at, MIN(c.worker_id) AS worker_id, MIN(c.id) AS sample_id
FROM task_center c {{force_dispatch}} LEFT JOIN task_worker w ON w.worker_id = c.worker_id
WHERE c.status = 2 AND c.queue {_OURS} AND c.claimed_at <= {{after(-:age)}} AND (
  w.worker_id IS NULL OR (w.stopped_at IS NOT NULL AND w.stopped_at <= {{after(-:age)}})
  OR w.heartbeat_at <= {{after(-:age)}})
"""

DUE_BEFORE = """
SELECT COUNT(*) AS tasks, MIN(id) AS sample_id FROM (
  SELECT id FROM task_center {force_dispatch}
  WHERE status IN (0, 4) AND queue = :queue AND priority = :priority AND plan_next_run_at <= {after(-:age)}
  LIMIT 100000) late
"""
DISPATCHED = """
SELECT priority, COUNT(*) AS tasks FROM task_center {force_dispatch} WHERE status = 1 AND queue = :queue GROUP BY priority
"""

# The run with which a task gave up, or the last one of an occurrence that did.
NEW_DEAD = f"""
SELECT r.task_code, r.queue, COALESCE(r.fingerprint, '') AS fingerprint, COUNT(*) AS tasks, MIN(r.finished_at) AS first_at,
  MAX(r.task_id) AS sample_id, SUBSTR(MIN(r.error), 1, 300) AS error
FROM task_run r {{force_finished}} {{then_join}} task_center c {{force_primary}} ON c.id = r.task_id
WHERE r.finished_at >= :since AND r.queue {_OURS} AND r.outcome IN ('failed', 'timeout', 'lost', 'given_up') AND (
  (c.status = 5 AND c.attempt = r.attempt AND NOT EXISTS (
        SELECT 1 FROM task_action a WHERE a.task_id = r.task_id AND a.action = 'give_up' AND a.at >= r.finished_at))
  OR (c.task_type = 1 AND r.occurrence_at IS NOT NULL AND EXISTS (
        SELECT 1 FROM task_occurrence o
        WHERE o.task_id = r.task_id AND o.planned_at = r.occurrence_at AND o.outcome = 'given_up')
      AND NOT EXISTS (
        SELECT 1 FROM task_run l
        WHERE l.task_id = r.task_id AND l.occurrence_at = r.occurrence_at AND l.attempt > r.attempt)))
GROUP BY 1, 2, 3 ORDER BY tasks DESC, 1, 2, 3 LIMIT :most
"""

DEAD = "SELECT COUNT(*) AS tasks FROM task_center WHERE status = 5 AND task_code = :code"

# Of a task that was cancelled nobody expects a run any more. What is still planned has not fired, however long ago it was.
NOT_FIRED = """
SELECT c.task_code, o.state, COALESCE(o.reason, '') AS reason, CASE WHEN c.status = 7 THEN 1 ELSE 0 END AS held,
  COUNT(*) AS occurrences, MIN(o.planned_at) AS first_at, MIN(o.task_id) AS sample_id
FROM task_occurrence o {force_state} {then_join} task_center c {force_primary} ON c.id = o.task_id
WHERE c.status <> 6 AND ((o.state = 'planned' AND o.planned_at <= :until)
  OR (o.state IN ('skipped', 'missed') AND o.planned_at >= :since AND o.planned_at <= :until))
GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4 LIMIT 5000
"""
