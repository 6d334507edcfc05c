"""Statements for what a person may do to a task."""

LOCK_TASK = """
SELECT id, task_code, task_type, status, attempt, queue, unique_key, cron_expr, timezone, misfire, dst_gap, dst_overlap,
       occurrence_at, occurrence_attempt, held_reason, cancel_requested_at, {now} AS now
FROM task_center {force_primary} WHERE id = :id {for_update}
"""

START_AFRESH = """
UPDATE task_center {force_primary} SET
  status = :to, plan_next_run_at = {now}, retry_count = 0, lost_count = 0, held_reason = NULL, held_at = NULL,
  expires_at = CASE WHEN expires_at > {now} THEN expires_at END,
  cancel_requested_at = NULL, token = NULL, updated_at = {now}
WHERE id = :id AND status IN :statuses
"""

# A periodic task run by hand stands for no occurrence; its next one is planned when the run has ended.
START_PERIODIC_BY_HAND = """
UPDATE task_center {force_primary} SET
  status = :to, plan_next_run_at = {now}, occurrence_at = NULL, occurrence_attempt = NULL, retry_count = 0,
  lost_count = 0, held_reason = NULL, held_at = NULL, cancel_requested_at = NULL, token = NULL, updated_at = {now},
  expires_at = CASE WHEN expires_at > {now} THEN expires_at END
WHERE id = :id AND status IN :statuses
"""

RELEASE = """
UPDATE task_center {force_primary} SET
  status = :to, held_reason = NULL, held_at = NULL, updated_at = {now},
  plan_next_run_at = COALESCE(:plan, plan_next_run_at), occurrence_at = COALESCE(:plan, occurrence_at),
  next_fire_at = COALESCE(:next_fire_at, next_fire_at),
  retry_count = CASE WHEN :plan IS NULL THEN retry_count ELSE 0 END,
  lost_count = CASE WHEN :plan IS NULL THEN lost_count ELSE 0 END,
  occurrence_attempt = CASE WHEN :plan IS NULL THEN occurrence_attempt END
WHERE id = :id AND status IN :statuses
"""

HOLD = """
UPDATE task_center {force_primary} SET
  status = :to, held_reason = :reason, held_at = {now}, token = NULL, updated_at = {now}
WHERE id = :id AND status IN :statuses
"""

HOLDER_OF_KEY = """
SELECT id FROM task_center WHERE live_key = :key
"""

MOVE = """
UPDATE task_center {force_primary} SET status = :to, last_result = :note, token = NULL, updated_at = {now}
WHERE id = :id AND status IN :statuses
"""

ASK_TO_CANCEL = """
UPDATE task_center {force_primary} SET cancel_requested_at = {now}, updated_at = {now}
WHERE id = :id AND status = :status
"""

RECORD = """
INSERT INTO task_action (actor, action, task_id, detail) VALUES (:actor, :action, :task_id, :detail)
"""
