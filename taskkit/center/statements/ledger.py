"""Statements that look at the ledger of what was told: one notice, and the calls that robots had of late."""

NOTICE = """
SELECT id, uuid, receiver, state, created_at, due_at, attempts, sent_at, code, reply, merged_into FROM task_notice WHERE uuid = :uuid
"""
# One that is on its way is left to whoever took it.
NOTICE_OUT = "UPDATE task_notice SET state = 'dropped' WHERE uuid = :uuid AND state = 'waiting'"
CALLS_OF = """
SELECT id, at, kind, verdict, code, reply, took_ms FROM task_delivery WHERE notice_id = :id AND verdict IS NOT NULL ORDER BY id
"""
RECENT_BY_ROBOT = """
SELECT robot, COUNT(*) AS calls FROM task_delivery WHERE at > {after(-:span_s)} GROUP BY robot
"""
