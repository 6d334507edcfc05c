"""Statements about the outbox: notices that wait, are on their way, and went; what each robot may take."""

NOTICE_IN = """
{insert_ignore} INTO task_notice (uuid, receiver, group_key, severity, state, body, due_at)
VALUES (:uuid, :receiver, :group_key, :severity, 'waiting', :body, {after(:wait_s)})
"""
NOTICE_OF_IN = """
{insert_ignore} INTO task_notice_alert (notice_id, alert_id, event) VALUES (:notice_id, :alert_id, :event)
"""
KNOWN = """
SELECT a.alert_id, a.event FROM task_notice_alert a JOIN task_notice n ON n.id = a.notice_id
WHERE a.alert_id IN :ids AND n.receiver = :receiver
"""
NOTICE_OF_SET = (
    "UPDATE task_notice_alert SET event = :event WHERE notice_id = :notice_id AND alert_id = :alert_id"
)
NOTICE_OF_OUT = "DELETE FROM task_notice_alert WHERE notice_id = :notice_id AND alert_id = :alert_id"

# Not begun yet, of one group of a receiver, and still gathering.
GATHERING = """
SELECT id, body FROM task_notice
WHERE receiver = :receiver AND group_key = :group_key AND state = 'waiting' AND attempts = 0 AND due_at > {now}
ORDER BY id DESC LIMIT 1 {for_update}
"""
# Not begun yet, and about this alert: whether it still gathers.
UNTOLD = """
SELECT n.id, n.body, CASE WHEN n.due_at > {now} AND n.attempts = 0 THEN 1 ELSE 0 END AS gathers
FROM task_notice_alert a JOIN task_notice n ON n.id = a.notice_id
WHERE a.alert_id = :alert_id AND n.receiver = :receiver AND n.state = 'waiting' ORDER BY n.id {for_update}
"""
NOTICE_BODY = "UPDATE task_notice SET body = :body, severity = :severity WHERE id = :id"
NOTICE_DROP = "UPDATE task_notice SET state = :state, merged_into = :into WHERE id = :id"

# Of these alerts those that are over.
OVER = "SELECT id FROM task_alert WHERE id IN :ids AND state = 'resolved'"

WAITING = """
SELECT id, uuid, receiver, severity, body, attempts, due_at, CASE WHEN due_at <= {now} THEN 1 ELSE 0 END AS due
FROM task_notice
WHERE (state = 'waiting' OR (state = 'sending' AND claimed_at <= {after(-:stale_s)})) AND receiver IN :names
ORDER BY id LIMIT 500
"""
UNDER_WAY = """
SELECT id FROM task_notice WHERE state = 'sending' AND receiver IN :names AND claimed_at > {after(-:stale_s)} LIMIT 1
"""
CLAIM = """
UPDATE task_notice SET state = 'sending', claimed_by = :holder, claimed_at = {now}, attempts = attempts + 1
WHERE id = :id AND (state = 'waiting' OR (state = 'sending' AND claimed_at <= {after(-:stale_s)}))
"""
SENT = """
UPDATE task_notice SET state = 'sent', sent_at = {now}, code = :code, reply = :reply WHERE id = :id AND state IN ('sending', 'waiting')
"""
AGAIN = """
UPDATE task_notice SET state = 'waiting', claimed_by = NULL, claimed_at = NULL, due_at = {after(:wait_s)}, code = :code, reply = :reply
WHERE id = :id AND state = 'sending' AND claimed_by = :holder
"""
REFUSED = "UPDATE task_notice SET state = 'refused', code = :code, reply = :reply WHERE id = :id AND state IN ('sending', 'waiting')"
COUNT_WAITING = "SELECT receiver, COUNT(*) AS notices, MAX({age(created_at)}) AS oldest_s FROM task_notice WHERE state IN ('waiting', 'sending') GROUP BY receiver"

ROBOT_IN = "{insert_ignore} INTO task_robot (robot) VALUES (:robot)"
ROBOT = """
SELECT paused_until, {age(paused_until)} AS paused_age_s, reason, misconfigured, month, month_calls FROM task_robot WHERE robot = :robot {for_update}
"""
ROBOT_PAUSE = """
UPDATE task_robot SET paused_until = {after(:pause_s)}, reason = :reason, misconfigured = :misconfigured WHERE robot = :robot
"""
ROBOT_FREE = (
    "UPDATE task_robot SET paused_until = NULL, reason = NULL, misconfigured = 0 WHERE robot = :robot"
)
# A message that arrived says that an old pause is over, and nothing of one that began meanwhile, with its mention or file.
ROBOT_WORKS = """
UPDATE task_robot SET paused_until = NULL, reason = NULL, misconfigured = 0
WHERE robot = :robot AND (paused_until IS NULL OR paused_until <= {now})
"""
ROBOT_COUNT = """
UPDATE task_robot SET month_calls = CASE WHEN month = :month THEN month_calls ELSE 0 END + :calls, month = :month WHERE robot = :robot
"""
ROBOTS = "SELECT robot, paused_until, {age(paused_until)} AS paused_age_s, reason, misconfigured, month, month_calls FROM task_robot"

# A call counts from its end on: the other side may have counted it as late as that.
RECENT_CALLS = """
SELECT COUNT(*) AS calls, MAX({age(at)}) AS oldest_s, MIN({age(at)}) AS newest_s
FROM task_delivery WHERE robot = :robot AND at > {after(-:span_s)} AND at <= {after(5)}
"""
CALL_IN = """
INSERT INTO task_delivery (notice_id, receiver, robot, at, kind) VALUES (:notice_id, :receiver, :robot, {now}, :kind)
"""
CALL_END = """
UPDATE task_delivery SET at = {now}, kind = :kind, verdict = :verdict, code = :code, reply = :reply, took_ms = :took_ms WHERE id = :id
"""
CALL_OUT = "DELETE FROM task_delivery WHERE id = :id AND verdict IS NULL"
