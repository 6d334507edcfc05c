"""Statements of the frames about alerts: those that were open in the window, what was told in it, and each call for it."""

ALERTS = """
SELECT id, rule, object, state, severity, cause, value, unit, said, since AS since_at, breach_at, firing_at, told_at,
  resolved_at, flaps, inhibited_by, silence_id, acked_at, acked_by
FROM task_alert WHERE since < :until AND (resolved_at IS NULL OR resolved_at >= :since) ORDER BY id DESC LIMIT 5000
"""
NOTICES = """
SELECT n.id, n.receiver, n.severity, n.state, n.created_at, n.due_at, n.sent_at, n.attempts, n.code, n.reply, n.merged_into,
  (SELECT COUNT(*) FROM task_notice_alert a WHERE a.notice_id = n.id) AS alerts,
  (SELECT MIN(a.alert_id) FROM task_notice_alert a WHERE a.notice_id = n.id) AS first_alert
FROM task_notice n WHERE n.created_at >= :since AND n.created_at < :until ORDER BY n.id DESC LIMIT 5000
"""
DELIVERIES = """
SELECT id, notice_id, receiver, at, kind, verdict, code, reply, took_ms FROM task_delivery
WHERE at >= :since AND at < :until ORDER BY id DESC LIMIT 5000
"""
