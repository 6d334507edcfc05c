"""Statements about locks, their fencing numbers, and what is done only once."""

LOCK_TAKE = """
UPDATE task_lock SET
  fence = CASE WHEN holder = :holder THEN fence ELSE fence + 1 END, expires_at = {after(:seconds)}, holder = :holder
WHERE name = :name AND (holder = :holder OR holder = '' OR expires_at <= {now})
"""

LOCK_IN = """
{insert_ignore} INTO task_lock (name, holder, fence, expires_at) VALUES (:name, '', 0, {now})
"""

LOCK_FENCE = """
SELECT fence FROM task_lock WHERE name = :name AND holder = :holder
"""

LOCK_KNOWN = """
SELECT 1 FROM task_lock WHERE name = :name
"""

LOCK_RENEW = """
UPDATE task_lock SET expires_at = {after(:seconds)} WHERE name = :name AND holder = :holder
"""

LOCK_DROP = """
UPDATE task_lock SET holder = '', expires_at = {now} WHERE name = :name AND holder = :holder
"""

FENCE_NEXT = """
UPDATE task_lock SET fence = fence + 1 WHERE name = :name
"""

FENCE = """
SELECT fence FROM task_lock WHERE name = :name
"""

ONCE_IN = {
    "mysql": "INSERT INTO task_once (name, holder) VALUES (?, ?) ON DUPLICATE KEY UPDATE name = task_once.name",
    "sqlite": "INSERT INTO task_once (name, holder) VALUES (?, ?) ON CONFLICT DO NOTHING",
}

ONCE_HOLDER = """
SELECT holder, HEX(name) FROM task_once WHERE name = ? {for_share}
"""
