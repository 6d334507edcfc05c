"""Statements of the frame ``load``: what came to the slots and when, in slots of time, for a replay.

A first attempt arrives when its task was due. Of a retry, and of an occurrence, only the dispatch is known. What began
before the window arrives with it, with what was left of its run.
"""

_FIRST = "r.attempt = 1 AND c.task_type <> 1 AND c.retry_count = 0 AND c.lost_count = 0"
ENDED = f"""
SELECT {{by_sorting}} at_slot AS slot, queue, priority, task_code, kind, COUNT(*) AS tasks, SUM(ms) AS service_ms
FROM (
  SELECT r.queue, COALESCE(c.priority, 5) AS priority, r.task_code,
    CASE WHEN r.started_at < :since THEN 'carried' WHEN {_FIRST} THEN 'first' ELSE 'again' END AS kind,
    CASE WHEN r.started_at < :since THEN {{slot(:since)}} WHEN {_FIRST} THEN {{slot(c.plan_next_run_at)}}
      ELSE COALESCE({{slot(r.dispatched_at)}}, {{slot(r.started_at)}}) END AS at_slot,
    CASE WHEN r.started_at >= :since AND r.runtime_ms IS NOT NULL THEN r.runtime_ms
      WHEN r.started_at >= :since THEN ({{micros(r.finished_at)}} - {{micros(r.started_at)}}) / 1000.0
      ELSE ({{micros(r.finished_at)}} - {{micros(:since)}}) / 1000.0 END AS ms
  FROM task_run r {{force_finished}} LEFT JOIN task_center c ON c.id = r.task_id
  WHERE r.finished_at >= :since AND r.finished_at < :until AND r.started_at IS NOT NULL) x
GROUP BY 1, 2, 3, 4, 5 ORDER BY 1, 2, 3, 4, 5 LIMIT :most
"""
LEFT = """
SELECT {by_sorting} at_slot AS slot, queue, priority, task_code, kind, COUNT(*) AS tasks, NULL AS service_ms
FROM (
  SELECT queue, priority, task_code, CASE status WHEN 2 THEN 'running' ELSE 'waiting' END AS kind,
    CASE WHEN status <> 2 OR task_type <> 1 AND retry_count = 0 AND lost_count = 0 THEN {slot(plan_next_run_at)}
      ELSE {slot(claimed_at)} END AS at_slot
  FROM task_center {force_dispatch}
  WHERE status IN (0, 1, 2, 4) AND plan_next_run_at < :until AND plan_next_run_at <= :now) x
GROUP BY 1, 2, 3, 4, 5 ORDER BY 1, 2, 3, 4, 5 LIMIT :most
"""

# What a slot needs from one run to the next, when that one stood ready: its message was out before the first ended.
TURNS = """
SELECT queue, {bin(ms)} AS bin, COUNT(*) AS runs, MIN(ms) AS min_ms, MAX(ms) AS max_ms, SUM(ms) AS sum_ms
FROM (
  SELECT queue, (begun - ended) / 1000.0 AS ms
  FROM (
    SELECT queue, sent, begun, LAG(begun + 1000 * runtime_ms) OVER (PARTITION BY worker_id, pid ORDER BY begun) AS ended
    FROM (
      SELECT r.queue, r.worker_id, r.pid, r.runtime_ms, {micros(r.dispatched_at)} AS sent, {micros(r.started_at)} AS begun
      FROM task_run r {force_finished}
      WHERE r.finished_at >= :since AND r.finished_at < :until AND r.runtime_ms IS NOT NULL AND r.pid IS NOT NULL
        AND r.started_at IS NOT NULL
      ORDER BY r.finished_at DESC LIMIT 100000) newest) one_by_one
  WHERE ended IS NOT NULL AND sent <= ended AND begun >= ended) t
GROUP BY 1, 2 ORDER BY 1, 2
"""
