"""Statements about alerts: watchdogs, rules, alerts, silences, and the ledger of what was told."""

WATCHDOG_IN = """
INSERT INTO task_watchdog (watchdog_id, host, pid, started_at, heartbeat_at) VALUES (:watchdog_id, :host, :pid, {now}, {now})
"""
WATCHDOG_BEAT = """
UPDATE task_watchdog SET heartbeat_at = {now}, heartbeat_count = heartbeat_count + 1, rounds = :rounds,
  last_round_at = COALESCE(:last_round_at, last_round_at)
WHERE watchdog_id = :watchdog_id
"""
WATCHDOG_OUT = """
UPDATE task_watchdog SET stopped_at = {now}, heartbeat_at = {now} WHERE watchdog_id = :watchdog_id
"""
WATCHDOGS = """
SELECT watchdog_id, host, pid, started_at, heartbeat_at, {age(heartbeat_at)} AS heartbeat_age_s, rounds, last_round_at,
  {age(last_round_at)} AS round_age_s, stopped_at
FROM task_watchdog ORDER BY heartbeat_at DESC
"""

RULE_IN = """
{insert_ignore} INTO task_rule (rule, state, since, checked_at) VALUES (:rule, :state, {now}, {now})
"""
RULE_SET = """
UPDATE task_rule SET since = CASE WHEN state = :state THEN since ELSE {now} END, state = :state, checked_at = {now},
  took_ms = :took_ms, error = :error
WHERE rule = :rule
"""
RULES_GONE = "DELETE FROM task_rule WHERE rule NOT IN :names"
RULES = """
SELECT rule, state, since, checked_at, {age(checked_at)} AS checked_age_s, took_ms, error FROM task_rule ORDER BY rule
"""

ALERT_COLUMNS = """
  id, rule, object, state, severity, cause, value, unit, said, since, breach_at, under_at, firing_at, told_at,
  resolved_at, flaps, inhibited_by, silence_id, acked_at, acked_by
"""
OPEN = f"SELECT {ALERT_COLUMNS} FROM task_alert WHERE state IN ('pending', 'firing') ORDER BY id"
ALERT = f"SELECT {ALERT_COLUMNS} FROM task_alert WHERE id = :id"
NEWEST = f"""
SELECT {ALERT_COLUMNS} FROM task_alert
WHERE state IN :states AND (:rule IS NULL OR rule = :rule) AND (:since IS NULL OR resolved_at >= :since OR resolved_at IS NULL)
ORDER BY id DESC LIMIT :most
"""
# Another watchdog may have begun it at the same moment: then this one is left out.
ALERT_IN = """
{insert_ignore} INTO task_alert (rule, object, open_key, state, severity, cause, value, unit, said, since, breach_at, under_at,
  firing_at, told_at, resolved_at, flaps, inhibited_by, silence_id)
VALUES (:rule, :object, :open_key, :state, :severity, :cause, :value, :unit, :said, :since, :breach_at, :under_at,
  :firing_at, :told_at, :resolved_at, :flaps, :inhibited_by, :silence_id)
"""
# What another watchdog has moved meanwhile is left to it.
ALERT_SET = """
UPDATE task_alert SET state = :state, open_key = :open_key, severity = :severity, cause = :cause, value = :value,
  unit = :unit, said = :said, since = :since, breach_at = :breach_at, under_at = :under_at, firing_at = :firing_at,
  told_at = :told_at, resolved_at = :resolved_at, flaps = :flaps, inhibited_by = :inhibited_by, silence_id = :silence_id,
  updated_at = {now}
WHERE id = :id AND state = :before AND ((told_at IS NULL AND :told_before IS NULL) OR told_at = :told_before)
  AND ((silence_id IS NULL AND :silence_before IS NULL) OR silence_id = :silence_before)
"""
ALERT_GONE = "DELETE FROM task_alert WHERE id = :id AND state = 'pending'"
ALERT_LOCK = "SELECT id FROM task_alert WHERE open_key = :open_key {for_update}"
ACK = "UPDATE task_alert SET acked_at = {now}, acked_by = :who WHERE id = :id AND state <> 'resolved'"

SILENCE_IN = """
INSERT INTO task_silence (rule, object, starts_at, ends_at, author, reason)
VALUES (:rule, :object, COALESCE(:starts_at, {now}), :ends_at, :author, :reason)
"""
SILENCE_END = "UPDATE task_silence SET ends_at = {now} WHERE id = :id AND ends_at > {now}"
SILENCES = """
SELECT id, rule, object, starts_at, ends_at, author, reason, CASE WHEN starts_at <= {now} THEN 1 ELSE 0 END AS holds
FROM task_silence WHERE ends_at > {now} ORDER BY id
"""
SILENCES_OVER = """
SELECT id, starts_at FROM task_silence WHERE ends_at <= {now} AND {age(ends_at)} < :seconds ORDER BY id
"""
ENDED_WITHIN = f"""
SELECT {ALERT_COLUMNS} FROM task_alert
WHERE state = 'resolved' AND resolved_at >= :since AND silence_id IN :ids AND rule = :rule AND told_at IS NOT NULL
ORDER BY id
"""

TOLD = """
SELECT n.id, n.receiver, n.severity, n.state, n.created_at, n.due_at, n.attempts, n.sent_at, n.code, n.reply,
  n.merged_into, a.event
FROM task_notice_alert a JOIN task_notice n ON n.id = a.notice_id WHERE a.alert_id = :id ORDER BY n.id
"""
CALLS = """
SELECT d.id, d.notice_id, d.receiver, d.at, d.kind, d.verdict, d.code, d.reply, d.took_ms
FROM task_delivery d WHERE d.notice_id IN :ids ORDER BY d.id
"""
