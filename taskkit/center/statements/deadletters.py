"""Statements about dead letters: the tasks that gave up, by the fingerprint of their last error."""

# The dispatch index begins with the status: it leads to the given up ones without a walk through the table.
_GIVEN_UP = """
FROM task_center c {force_dispatch} LEFT JOIN task_run r ON r.task_id = c.id AND r.attempt = c.attempt
WHERE c.status = 5 {filters}
"""

GROUPS = (
    """
SELECT r.fingerprint AS fingerprint, c.task_code AS task_code, c.queue AS queue, COUNT(*) AS n,
       MIN(c.updated_at) AS first_at, MAX(c.updated_at) AS last_at, MAX(c.id) AS sample_id
"""
    + _GIVEN_UP
    + """
GROUP BY r.fingerprint, c.task_code, c.queue ORDER BY {order} LIMIT :n
"""
)

MEMBERS = "SELECT c.id, c.attempt " + _GIVEN_UP + " AND r.fingerprint = :fingerprint ORDER BY c.id LIMIT :n"

# What a run of an occurrence can be: the attempt that fired it, its retries, its losses, and some that were handed back.
OCCURRENCE_GROUPS = """
SELECT r.fingerprint AS fingerprint, r.task_code AS task_code, r.queue AS queue, COUNT(*) AS n,
       MIN(r.finished_at) AS first_at, MAX(r.finished_at) AS last_at, MAX(r.task_id) AS sample_id
FROM (
  SELECT o.task_id, MAX(l.attempt) AS attempt
  FROM task_occurrence o {force_state}
  JOIN task_center c ON c.id = o.task_id
  JOIN task_run l ON l.task_id = o.task_id AND l.occurrence_at = o.planned_at
                  AND l.attempt BETWEEN o.attempt AND o.attempt + 2 * c.max_retry + 20
  WHERE o.state = 'fired' AND o.planned_at >= :since AND o.outcome = 'given_up'
  GROUP BY o.task_id, o.planned_at
) g JOIN task_run r ON r.task_id = g.task_id AND r.attempt = g.attempt
WHERE r.fingerprint IS NOT NULL {filters}
GROUP BY r.fingerprint, r.task_code, r.queue ORDER BY {order} LIMIT :n
"""

LAST_RESULT = "SELECT last_result FROM task_center WHERE id = :id"

ERROR_OF_FINGERPRINT = """
SELECT outcome, error, traceback FROM task_run
WHERE task_id = :id AND fingerprint = :fingerprint ORDER BY attempt DESC LIMIT 1
"""

AFTERWARDS = """
SELECT c.id AS id, c.status AS status, r.attempt AS attempt, r.outcome AS outcome, r.fingerprint AS fingerprint
FROM task_center c {force_primary} LEFT JOIN task_run r ON r.task_id = c.id
WHERE c.id IN :ids ORDER BY c.id, r.attempt
"""
