"""Statements that look for what is older than its retention, in bounded steps, and delete it by primary key.

Each look reads ``:n`` rows after the cursor ``(:at, :after)``, without a lock, and says of each whether it ``goes``
and whether the walk has a reason to go on behind it (``more``). Each lock looks again at what may have changed.
"""

TASK_GOES = """
task_type <> 1 AND ((status IN (3, 6) AND updated_at < :tasks) OR (status = 5 AND updated_at < :dead))
"""

# Ids grow with time: behind a step in which every row is younger than both retentions nothing is old enough.
LOOK_TASKS = f"""
SELECT id, id AS after, NULL AS at, CASE WHEN {TASK_GOES} THEN 1 ELSE 0 END AS goes,
       CASE WHEN created_at < :youngest THEN 1 ELSE 0 END AS more
FROM task_center {{force_primary}} WHERE id > :after ORDER BY id LIMIT :n
"""
LOCK_TASKS = f"""
SELECT id FROM task_center {{force_primary}} WHERE id IN :keys AND {TASK_GOES} ORDER BY id {{skip_locked}}
"""

LOOK_RUNS = """
SELECT r.id, r.id AS after, r.finished_at AS at, 1 AS more,
       CASE WHEN c.id IS NULL OR c.status IN (3, 6)
              OR ((c.status = 5 OR c.task_type = 1) AND r.attempt < c.attempt) THEN 1 ELSE 0 END AS goes
FROM (SELECT id, task_id, attempt, finished_at FROM task_run {force_finished}
      WHERE finished_at < :until AND finished_at >= :at AND (finished_at > :at OR id > :after)
      ORDER BY finished_at, id LIMIT :n) r
LEFT JOIN task_center c ON c.id = r.task_id ORDER BY r.finished_at, r.id
"""
LOCK_RUNS = """
SELECT id FROM task_run {force_primary} WHERE id IN :keys AND finished_at < :until ORDER BY id {skip_locked}
"""

LOOK_OCCURRENCES = """
SELECT o.task_id, o.planned_at, o.planned_at AS at, o.task_id AS after, 1 AS more,
       CASE WHEN c.occurrence_at = o.planned_at THEN 0 ELSE 1 END AS goes
FROM (SELECT task_id, planned_at FROM task_occurrence {force_state}
      WHERE state = :state AND planned_at < :until AND planned_at >= :at AND (planned_at > :at OR task_id > :after)
      ORDER BY planned_at, task_id LIMIT :n) o
LEFT JOIN task_center c ON c.id = o.task_id ORDER BY o.planned_at, o.task_id
"""
LOCK_OCCURRENCES = """
SELECT task_id, planned_at FROM task_occurrence {force_primary}
WHERE (task_id, planned_at) IN :keys AND state = :state ORDER BY task_id, planned_at {skip_locked}
"""

LOOK_SAMPLES = """
SELECT sampled_at, queue, sampled_at AS at, queue AS after, 1 AS goes, 1 AS more FROM task_sample {force_primary}
WHERE sampled_at < :until AND sampled_at >= :at AND (sampled_at > :at OR queue > :after)
ORDER BY sampled_at, queue LIMIT :n
"""
LOCK_SAMPLES = """
SELECT sampled_at, queue FROM task_sample {force_primary}
WHERE (sampled_at, queue) IN :keys ORDER BY sampled_at, queue {skip_locked}
"""

LOOK_ACTIONS = """
SELECT id, id AS after, NULL AS at, CASE WHEN at < :until THEN 1 ELSE 0 END AS goes,
       CASE WHEN at < :until THEN 1 ELSE 0 END AS more
FROM task_action {force_primary} WHERE id > :after ORDER BY id LIMIT :n
"""
LOCK_ACTIONS = """
SELECT id FROM task_action {force_primary} WHERE id IN :keys ORDER BY id {skip_locked}
"""

LOOK_ALERTS = """
SELECT id, id AS after, NULL AS at, CASE WHEN state = 'resolved' AND resolved_at < :until THEN 1 ELSE 0 END AS goes,
       CASE WHEN since < :until THEN 1 ELSE 0 END AS more
FROM task_alert {force_primary} WHERE id > :after ORDER BY id LIMIT :n
"""
LOCK_ALERTS = """
SELECT id FROM task_alert {force_primary} WHERE id IN :keys AND state = 'resolved' ORDER BY id {skip_locked}
"""

LOOK_NOTICES = """
SELECT id, id AS after, NULL AS at,
       CASE WHEN created_at < :until AND state NOT IN ('waiting', 'sending') THEN 1 ELSE 0 END AS goes,
       CASE WHEN created_at < :until THEN 1 ELSE 0 END AS more
FROM task_notice {force_primary} WHERE id > :after ORDER BY id LIMIT :n
"""
LOCK_NOTICES = """
SELECT id FROM task_notice {force_primary}
WHERE id IN :keys AND state NOT IN ('waiting', 'sending') ORDER BY id {skip_locked}
"""

# What its notice has left behind; a notice is older than what it tells of, so the first that has one ends the walk.
LOOK_TOLD = """
SELECT a.id, a.id AS after, NULL AS at, CASE WHEN n.id IS NULL THEN 1 ELSE 0 END AS goes,
       CASE WHEN n.id IS NULL OR n.created_at < :until THEN 1 ELSE 0 END AS more
FROM task_notice_alert a {force_primary} LEFT JOIN task_notice n ON n.id = a.notice_id
WHERE a.id > :after ORDER BY a.id LIMIT :n
"""
LOCK_TOLD = """
SELECT id FROM task_notice_alert {force_primary} WHERE id IN :keys ORDER BY id {skip_locked}
"""

LOOK_DELIVERIES = """
SELECT id, id AS after, NULL AS at, CASE WHEN at < :until THEN 1 ELSE 0 END AS goes,
       CASE WHEN at < :until THEN 1 ELSE 0 END AS more
FROM task_delivery {force_primary} WHERE id > :after ORDER BY id LIMIT :n
"""
LOCK_DELIVERIES = """
SELECT id FROM task_delivery {force_primary} WHERE id IN :keys ORDER BY id {skip_locked}
"""

LOOK_ONCE = """
SELECT name, name AS after, done_at AS at, 1 AS goes, 1 AS more FROM task_once {force_done}
WHERE done_at < :until AND done_at >= :at AND (done_at > :at OR name > :after) ORDER BY done_at, name LIMIT :n
"""
LOCK_ONCE = """
SELECT name FROM task_once {force_primary} WHERE name IN :keys AND done_at < :until ORDER BY name {skip_locked}
"""

LOOK_WORKERS = """
SELECT worker_id, worker_id AS after, NULL AS at, 1 AS more,
       CASE WHEN heartbeat_at < :until THEN 1 ELSE 0 END AS goes
FROM task_worker {force_primary} WHERE worker_id > :after ORDER BY worker_id LIMIT :n
"""
LOCK_WORKERS = """
SELECT worker_id FROM task_worker {force_primary}
WHERE worker_id IN :keys AND heartbeat_at < :until ORDER BY worker_id {skip_locked}
"""

LOOK_SCHEDULERS = """
SELECT scheduler_id, scheduler_id AS after, NULL AS at, 1 AS more,
       CASE WHEN heartbeat_at < :until THEN 1 ELSE 0 END AS goes
FROM task_scheduler {force_primary} WHERE scheduler_id > :after ORDER BY scheduler_id LIMIT :n
"""
LOCK_SCHEDULERS = """
SELECT scheduler_id FROM task_scheduler {force_primary}
WHERE scheduler_id IN :keys AND heartbeat_at < :until ORDER BY scheduler_id {skip_locked}
"""
LOOK_WATCHDOGS = """
SELECT watchdog_id, watchdog_id AS after, NULL AS at, 1 AS more,
       CASE WHEN heartbeat_at < :until THEN 1 ELSE 0 END AS goes
FROM task_watchdog {force_primary} WHERE watchdog_id > :after ORDER BY watchdog_id LIMIT :n
"""
LOCK_WATCHDOGS = """
SELECT watchdog_id FROM task_watchdog {force_primary}
WHERE watchdog_id IN :keys AND heartbeat_at < :until ORDER BY watchdog_id {skip_locked}
"""


def delete_ids(table: str, rows: int) -> str:
    """DELETE by ids on a server: each is looked up by itself.

    With ``id IN (…)`` the server reads a small table from end to end, and waits for every row that somebody locked.
    """
    ids = "SELECT ? AS id" + " UNION ALL SELECT ?" * (rows - 1)
    return f"DELETE t FROM ({ids}) v STRAIGHT_JOIN {table} t FORCE INDEX (PRIMARY) ON t.id = v.id"


def delete_one(table: str, key: tuple[str, ...]) -> str:
    """DELETE of one row by its primary key."""
    return f"DELETE FROM {table} WHERE {' AND '.join(f'{column} = :{column}' for column in key)}"
