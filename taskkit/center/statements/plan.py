"""Statements of the planner: adopting rows of others, occurrences ahead of time, misfires."""

from __future__ import annotations

from taskkit.center.statements.rows import Each, update_each

UNADOPTED = """
SELECT id, task_code, task_type, queue, cron_expr, timezone, misfire, dst_gap, dst_overlap, delay,
       plan_next_run_at, created_at, {now} AS now
FROM task_center {force_dispatch} WHERE status = :status AND queue = '' LIMIT :n
"""

UNPLANNED_IN_LIST = """
SELECT id, task_code, task_type, queue, cron_expr, timezone, misfire, dst_gap, dst_overlap, delay,
       plan_next_run_at, created_at, {now} AS now
FROM task_center {force_dispatch}
WHERE status = :status AND queue = :queue AND priority = :priority AND plan_next_run_at IS NULL LIMIT :n
"""

UNADOPTED_BY_ID = """
SELECT id, task_code, task_type, queue, cron_expr, timezone, misfire, dst_gap, dst_overlap, delay,
       plan_next_run_at, created_at, {now} AS now
FROM task_center {force_primary} WHERE id IN :ids AND status = :status
"""

ADOPTED = "id queue task_type timezone plan occurrence_at next_fire_at".split()

_ADOPT = (
    ("queue", "v.queue"),
    ("task_type", "v.task_type"),
    ("timezone", "v.timezone"),
    ("plan_next_run_at", "v.plan"),
    ("occurrence_at", "v.occurrence_at"),
    ("next_fire_at", "v.next_fire_at"),
    ("occurrence_attempt", "NULL"),
    ("updated_at", "{now}"),
)
_UNADOPTED = (
    "{c}.status = 0 AND ({c}.queue = '' OR {c}.plan_next_run_at IS NULL OR ({c}.cron_expr IS NOT NULL AND "
    "({c}.task_type <> 1 OR ({c}.occurrence_at IS NULL AND {c}.next_fire_at IS NULL))))"
)

SET_ASIDE = """
UPDATE task_center {force_primary} SET
  status = :to, held_reason = :reason, held_at = {now}, last_result = :reason, token = NULL,
  queue = CASE WHEN queue = '' THEN task_code ELSE queue END, updated_at = {now}
WHERE id = :id AND status IN :statuses
"""

PERIODIC = """
SELECT c.id, c.task_code, c.status, c.cron_expr, c.timezone, c.misfire, c.dst_gap, c.dst_overlap, c.occurrence_at,
       c.occurrence_attempt, c.next_fire_at, c.plan_next_run_at, c.held_reason, o.state, s.digest,
       {now} AS now
FROM task_schedule s JOIN task_center c ON c.id = s.task_id
LEFT JOIN task_occurrence o ON o.task_id = c.id AND o.planned_at = c.occurrence_at
WHERE s.task_id > :after ORDER BY s.task_id LIMIT :n
"""

PERIODIC_BY_ID = """
SELECT c.id, c.task_code, c.status, c.cron_expr, c.timezone, c.misfire, c.dst_gap, c.dst_overlap, c.occurrence_at,
       c.occurrence_attempt, c.next_fire_at, c.plan_next_run_at, c.held_reason, o.state, s.digest,
       {now} AS now
FROM task_center c LEFT JOIN task_schedule s ON c.id = s.task_id
LEFT JOIN task_occurrence o ON o.task_id = c.id AND o.planned_at = c.occurrence_at
WHERE c.id IN :ids AND c.task_type = 1
"""

MOVE_OCCURRENCE = """
UPDATE task_center {force_primary} SET
  occurrence_at = :occurrence_at, next_fire_at = :next_fire_at, plan_next_run_at = :plan,
  occurrence_attempt = NULL, updated_at = {now}
WHERE id = :id AND status IN :statuses AND occurrence_attempt IS NULL
  AND (occurrence_at = :was OR (occurrence_at IS NULL AND :was IS NULL))
"""

REMEMBER_MYSQL = """
INSERT INTO task_schedule (task_id, digest, planned_until) VALUES (:task_id, :digest, :planned_until)
ON DUPLICATE KEY UPDATE digest = VALUES(digest), planned_until = VALUES(planned_until)
"""
REMEMBER_SQLITE = """
INSERT INTO task_schedule (task_id, digest, planned_until) VALUES (:task_id, :digest, :planned_until)
ON CONFLICT (task_id) DO UPDATE SET digest = excluded.digest, planned_until = excluded.planned_until
"""

FORGET_ORPHANS = """
DELETE FROM task_schedule WHERE task_id IN :ids
"""

ORPHANS = """
SELECT s.task_id FROM task_schedule s LEFT JOIN task_center c ON c.id = s.task_id
WHERE c.id IS NULL OR c.task_type <> 1 LIMIT 500
"""

OCCURRENCE_STATES = """
SELECT task_id, planned_at, state FROM task_occurrence WHERE task_id IN :ids AND planned_at IN :instants
"""

PLANNED_LONG_AGO = """
SELECT o.task_id, o.planned_at, c.status, c.occurrence_at, c.held_reason
FROM task_occurrence o LEFT JOIN task_center c ON c.id = o.task_id
WHERE o.state = 'planned' AND o.planned_at < {after(-:age)}
  AND (c.id IS NULL OR c.status IN (6, 7) OR c.occurrence_at > o.planned_at)
ORDER BY o.planned_at LIMIT :n
"""

DROP_PLANNED = """
DELETE FROM task_occurrence WHERE task_id = :task_id AND state = 'planned' AND planned_at > {now}
"""

SETTLE_MYSQL = """
INSERT INTO task_occurrence (task_id, planned_at, state, reason) VALUES (:task_id, :planned_at, :state, :reason)
ON DUPLICATE KEY UPDATE
  reason = CASE WHEN state = 'planned' THEN VALUES(reason) ELSE reason END,
  state = CASE WHEN state = 'planned' THEN VALUES(state) ELSE state END
"""
SETTLE_SQLITE = """
INSERT INTO task_occurrence (task_id, planned_at, state, reason) VALUES (:task_id, :planned_at, :state, :reason)
ON CONFLICT (task_id, planned_at) DO UPDATE SET state = excluded.state, reason = excluded.reason
WHERE task_occurrence.state = 'planned'
"""

FIRE_MYSQL = """
INSERT INTO task_occurrence (task_id, planned_at, state, fired_at, late_s, attempt)
VALUES (:task_id, :planned_at, 'fired', :fired_at, :late_s, :attempt)
ON DUPLICATE KEY UPDATE state = 'fired', fired_at = VALUES(fired_at), late_s = VALUES(late_s),
  attempt = VALUES(attempt), reason = NULL
"""
FIRE_SQLITE = """
INSERT INTO task_occurrence (task_id, planned_at, state, fired_at, late_s, attempt)
VALUES (:task_id, :planned_at, 'fired', :fired_at, :late_s, :attempt)
ON CONFLICT (task_id, planned_at) DO UPDATE SET state = 'fired', fired_at = excluded.fired_at,
  late_s = excluded.late_s, attempt = excluded.attempt, reason = NULL
"""

UNFIRE = """
UPDATE task_occurrence SET state = 'planned', fired_at = NULL, late_s = NULL, attempt = NULL
WHERE task_id = :task_id AND planned_at = :planned_at AND state = 'fired' AND attempt = :attempt
"""

PLAN_AHEAD = """
{insert_ignore} INTO task_occurrence (task_id, planned_at) VALUES (:task_id, :planned_at)
"""


def adopt(mysql: bool) -> Each:
    """One UPDATE that completes many tasks which others inserted and nobody has completed since."""
    return update_each(mysql, ADOPTED, _ADOPT, _UNADOPTED)
