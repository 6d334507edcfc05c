"""Statements by which a drill cuts connections; a user may end those of its own without a further grant."""

OWN_CONNECTIONS = """
SELECT id, host FROM information_schema.processlist
WHERE user = SUBSTRING_INDEX(USER(), '@', 1) AND id <> CONNECTION_ID()
"""

KILL = "KILL {:d}"

LEFT_BEHIND = """
SELECT id, queue FROM task_center {force_dispatch}
WHERE status IN :statuses AND queue >= :least AND queue < :beyond ORDER BY id LIMIT :n
"""

FORGET_RUNS = """
DELETE FROM task_run WHERE task_id IN :ids AND task_id IN (
  SELECT id FROM task_center WHERE id IN :ids AND status IN :statuses)
"""

FORGET_ACTIONS = """
DELETE FROM task_action WHERE task_id IN :ids
"""

FORGET_TASKS = """
DELETE FROM task_center WHERE id IN :ids AND status IN :statuses
"""

FRESH_SCHEMA = "CREATE DATABASE `{}` CHARACTER SET utf8mb4"
DROP_SCHEMA = "DROP DATABASE IF EXISTS `{}`"

HOLD_ON_MARIADB = "SET SESSION idle_transaction_timeout = 0"

REPORT = """
SELECT id, payload, status FROM task_center WHERE id >= 0 FOR UPDATE
"""
"""A report that should have asked a replica: it takes the lock of every row it reads."""
