"""Statements of the metrics: what waits by queue as of now, runs by their ids, and what fires."""

# The newest sample of each queue, where it is not too old to count.
SAMPLED = """
SELECT queue, due, queued, running, retrying, held, oldest_age_s FROM task_sample
WHERE sampled_at = (SELECT MAX(sampled_at) FROM task_sample) AND sampled_at >= {after(-:age)}
"""
NEWEST_RUN = "SELECT MAX(id) AS id FROM task_run {force_primary}"
# Ids may have gaps of any size: where so many runs end is found by walking along them.
RUN_AFTER = """
SELECT MAX(id) AS id FROM (SELECT id FROM task_run {force_primary} WHERE id > :low ORDER BY id LIMIT :most) some
"""
RUNS_BETWEEN = """
SELECT queue, outcome, COUNT(*) AS runs, SUM(COALESCE(runtime_ms, 0)) AS busy_ms FROM task_run {force_primary}
WHERE id > :low AND id <= :high GROUP BY queue, outcome
"""
FIRING = (
    "SELECT rule, severity, COUNT(*) AS alerts FROM task_alert WHERE state = 'firing' GROUP BY rule, severity"
)
NODES = """
SELECT 'workers' AS kind, COUNT(*) AS alive, SUM(busy) AS busy, SUM(processes) AS slots FROM task_worker
WHERE stopped_at IS NULL AND heartbeat_at >= {after(-:age)}
UNION ALL SELECT 'schedulers', COUNT(*), 0, 0 FROM task_scheduler WHERE stopped_at IS NULL AND heartbeat_at >= {after(-:age)}
UNION ALL SELECT 'watchdogs', COUNT(*), 0, 0 FROM task_watchdog WHERE stopped_at IS NULL AND heartbeat_at >= {after(-:age)}
"""
