"""Statements about limits: what is set, the lines in which tasks wait, their places, and the moves 7 → 0 that let them go.

A place's state: 0 waits for its key's limit, 1 waits for its queue's, 2 has been let go and is in use, 3 was given back.
"""

from __future__ import annotations

from collections.abc import Sequence

from taskkit.center.statements.rows import Each

AT_KEY, AT_QUEUE, TAKEN, BACK = range(4)

LIMITS = "SELECT scope, name, concurrency, rate, period_s, created_at FROM task_limit"

SET_MYSQL = """
INSERT INTO task_limit (scope, name, concurrency, rate, period_s) VALUES (:scope, :name, :concurrency, :rate, :period)
ON DUPLICATE KEY UPDATE
  concurrency = VALUES(concurrency), rate = VALUES(rate), period_s = VALUES(period_s), updated_at = {now}
"""
SET_SQLITE = """
INSERT INTO task_limit (scope, name, concurrency, rate, period_s, created_at)
VALUES (:scope, :name, :concurrency, :rate, :period, {now})
ON CONFLICT (scope, name) DO UPDATE SET
  concurrency = excluded.concurrency, rate = excluded.rate, period_s = excluded.period_s, updated_at = {now}
"""

REMOVE = "DELETE FROM task_limit WHERE scope = :scope AND name = :name"

LOOK_AGAIN = """
UPDATE task_limit_line SET look_at = {now}, updated_at = {now}
WHERE scope = :scope AND name >= :low AND name < :high
"""

# What runs already counts against a limit that is set now; what waits in a list meets its worker, which sends it back.
_ADOPT = """
{insert_ignore} INTO task_limit_place (task_id, queue, limit_key, state, priority, due_at, attempt)
SELECT id, queue, limit_key, 2, priority, plan_next_run_at, attempt FROM task_center c {force_dispatch}
WHERE c.status = 2 AND c.{column} >= :low AND c.{column} < :high
  AND NOT EXISTS (SELECT 1 FROM task_limit_place p WHERE p.task_id = c.id)
"""
ADOPT = {"key": _ADOPT.replace("{column}", "limit_key"), "queue": _ADOPT.replace("{column}", "queue")}

# into a line

BACK_OFF_OVER = """
UPDATE task_center {force_primary} SET status = :to, updated_at = {now} WHERE id IN :ids AND status IN :statuses
"""

_HOLD = """
UPDATE task_center {force_primary} SET
  status = :to, held_reason = {reason}, held_at = {now}, token = NULL, updated_at = {now}
WHERE id IN :ids AND status IN :statuses
"""
HOLD = {AT_KEY: _HOLD.replace("{reason}", "{over_key}"), AT_QUEUE: _HOLD.replace("{reason}", "{over_queue}")}

_PLACE = """
INSERT INTO task_limit_place (task_id, queue, limit_key, state, priority, due_at)
SELECT id, queue, limit_key, :state, priority, plan_next_run_at FROM task_center {force_primary} WHERE id IN :ids
"""
PLACE_MYSQL = f"""{_PLACE} ON DUPLICATE KEY UPDATE
  queue = VALUES(queue), limit_key = VALUES(limit_key), state = VALUES(state), priority = VALUES(priority),
  due_at = VALUES(due_at), attempt = NULL
"""
PLACE_SQLITE = f"""{_PLACE} ON CONFLICT (task_id) DO UPDATE SET
  queue = excluded.queue, limit_key = excluded.limit_key, state = excluded.state, priority = excluded.priority,
  due_at = excluded.due_at, attempt = NULL
"""

# Dispatched, but let go by nobody: the limit was set after its dispatch.
UNGRANTED = """
SELECT c.id, c.queue, c.limit_key, c.attempt, {now} AS now
FROM task_center c {force_primary} LEFT JOIN task_limit_place p ON p.task_id = c.id AND p.state = 2
WHERE c.id IN :ids AND c.status IN :statuses AND (p.attempt IS NULL OR p.attempt <> c.attempt)
ORDER BY c.id {for_update}
"""

# out of a line

# What there is to do, in one answer: places that were given back, lines to look at, and when the next one is due.
LOOK = """
SELECT 'back' AS what, task_id, queue AS scope, limit_key AS name, NULL AS look_at, {now} AS now
FROM (SELECT task_id, queue, limit_key FROM task_limit_place WHERE state = 3 ORDER BY task_id LIMIT :back) b
UNION ALL SELECT 'due', 0, scope, name, look_at, {now}
FROM (SELECT scope, name, look_at FROM task_limit_line WHERE look_at <= {now} ORDER BY look_at LIMIT :lines) d
UNION ALL SELECT 'next', 0, scope, name, look_at, {now}
FROM (SELECT scope, name, look_at FROM task_limit_line WHERE look_at > {now} ORDER BY look_at LIMIT 1) n
"""

LOCK_LINES = """
SELECT scope, name, starts, look_at, {now} AS now FROM task_limit_line {force_primary}
WHERE (scope = 'key' AND name IN :keys) OR (scope = 'queue' AND name IN :queues)
ORDER BY scope, name {skip_locked}
"""

# Counted by the rows themselves, so that no way out of status 1 or 2 can leave a place in use.
_IN_USE = "p.state = 2 AND c.status IN (1, 2) AND c.attempt = p.attempt"
IN_USE_BY_KEY = f"""
SELECT p.limit_key AS name, SUM(CASE WHEN {_IN_USE} THEN 1 ELSE 0 END) AS in_use,
  SUM(CASE WHEN p.state = 1 AND c.status = 7 THEN 1 ELSE 0 END) AS passed
FROM task_limit_place p {{then_join}} task_center c ON c.id = p.task_id
WHERE p.limit_key IN :keys AND p.state IN (1, 2) GROUP BY p.limit_key
"""
IN_USE_BY_QUEUE = f"""
SELECT p.queue AS name, SUM(CASE WHEN {_IN_USE} THEN 1 ELSE 0 END) AS in_use
FROM task_limit_place p {{then_join}} task_center c ON c.id = p.task_id
WHERE p.queue IN :queues AND p.state = 2 GROUP BY p.queue
"""

LOCK_WAITING = """
SELECT {columns} FROM task_center {force_primary}
WHERE id IN :ids AND status = :status AND held_reason LIKE :reason ORDER BY id {skip_locked}
"""

LET_GO = """
UPDATE task_center {force_primary} SET
  status = :to, held_reason = NULL, held_at = NULL, granted_at = :now, updated_at = {now}
WHERE id IN :ids AND status IN :statuses
"""

MOVE_ON = "UPDATE task_limit_place SET state = :state WHERE task_id IN :ids"

TAKE = """
UPDATE task_limit_place SET
  state = 2, attempt = (SELECT c.attempt FROM task_center c WHERE c.id = task_limit_place.task_id)
WHERE task_id IN :ids
"""

LEAVE = "DELETE FROM task_limit_place WHERE task_id IN :ids"
FORGET = "DELETE FROM task_limit_place WHERE task_id IN :ids AND state = 3"

# keeping order

GONE = """
SELECT p.task_id FROM task_limit_place p LEFT JOIN task_center c ON c.id = p.task_id
WHERE p.state = 2 AND (c.id IS NULL OR c.status NOT IN (1, 2) OR c.attempt <> p.attempt) LIMIT :n
"""

_NOT_WAITING = "(c.id IS NULL OR c.status <> 7 OR c.held_reason NOT LIKE :reason)"
LEFT_THE_LINES = f"""
SELECT p.task_id FROM task_limit_place p LEFT JOIN task_center c ON c.id = p.task_id
WHERE p.state IN (0, 1) AND {_NOT_WAITING} LIMIT :n
"""
# Its head only, so that it costs the same however long the line is.
_LEFT_THE_LINE = f"""
SELECT p.task_id FROM (
  SELECT task_id FROM task_limit_place {{index}} WHERE {{which}} ORDER BY priority, due_at, task_id LIMIT :n) p
LEFT JOIN task_center c ON c.id = p.task_id WHERE {_NOT_WAITING}
"""
LEFT_THE_LINE = {
    scope: _LEFT_THE_LINE.replace("{index}", f"{{force_place_{scope}}}").replace("{which}", which)
    for scope, which in (("key", "limit_key = :name AND state = 0"), ("queue", "queue = :name AND state = 1"))
}

MARK_BACK = "UPDATE task_limit_place SET state = 3 WHERE task_id IN :ids AND state IN :states"

LEFT_WITHOUT_PLACE = """
SELECT c.id, c.queue, c.limit_key, {now} AS now
FROM task_center c {force_dispatch} LEFT JOIN task_limit_place p ON p.task_id = c.id
WHERE c.status = :status AND p.task_id IS NULL AND c.held_reason LIKE :reason LIMIT :n
"""

# Whatever kept a line from being looked at: it is looked at now and then, if somebody waits in it.
LOOK_AT_WAITING = """
UPDATE task_limit_line SET look_at = {now} WHERE look_at IS NULL AND (
  scope = 'key' AND EXISTS (SELECT 1 FROM task_limit_place p WHERE p.limit_key = task_limit_line.name AND p.state = 0)
  OR scope = 'queue' AND EXISTS (SELECT 1 FROM task_limit_place p WHERE p.queue = task_limit_line.name AND p.state = 1))
"""

IDLE_LINES = """
SELECT l.scope, l.name FROM task_limit_line l WHERE l.look_at IS NULL AND l.updated_at < {after(-:age)}
  AND NOT EXISTS (SELECT 1 FROM task_limit_place p WHERE p.limit_key = l.name AND l.scope = 'key')
  AND NOT EXISTS (SELECT 1 FROM task_limit_place p WHERE p.queue = l.name AND l.scope = 'queue') LIMIT :n
"""
FORGET_LINES = """
DELETE FROM task_limit_line
WHERE scope = :scope AND name IN :names AND look_at IS NULL AND updated_at < {after(-:age)}
"""

# A row that the database does not let go, whatever is wrong with it, must not keep the others waiting.
REFUSE = """
UPDATE task_center {force_primary} SET held_reason = :reason, last_result = :reason, updated_at = {now}
WHERE id = :id AND status = :status
"""

ANYBODY = "SELECT EXISTS (SELECT 1 FROM task_limit_place) AS anybody, {now} AS now"

KNOWN_LINES = "SELECT name FROM task_limit_line WHERE scope = :scope AND name IN :names"
NEW_LINE = "{insert_ignore} INTO task_limit_line (scope, name, updated_at) VALUES (:scope, :name, {now})"

# for people

WAITING_AND_IN_USE = """
SELECT queue, limit_key, state, COUNT(*) AS n, MIN(due_at) AS oldest, {now} AS now
FROM task_limit_place WHERE state < 3 GROUP BY queue, limit_key, state
"""

PLACE_OF = """
SELECT task_id, queue, limit_key, state, priority, due_at FROM task_limit_place WHERE task_id = :id
"""

BEFORE_IT = """
SELECT COUNT(*) FROM task_limit_place
WHERE state = :state AND {column} = :name AND (priority < :priority OR (priority = :priority AND (
  due_at < :due_at OR (due_at = :due_at AND task_id < :id))))
"""

IN_USE_OF = "SELECT COUNT(*) FROM task_limit_place WHERE state = 2 AND {column} = :name"

QUEUE_LINES = """
SELECT queue, priority, COUNT(*) AS n FROM task_limit_place WHERE state = 1 AND queue IN :queues
GROUP BY queue, priority
"""


def lines(mysql: bool) -> Each:
    """Many lines as they are to be: scope, name, look_at, starts, and the clock."""
    head = "INSERT INTO task_limit_line (scope, name, look_at, starts, updated_at) VALUES "
    return Each(head, _upsert(mysql, ("look_at", "starts", "updated_at")))


def join(mysql: bool) -> Each:
    """Somebody waits in these lines: scope, name, the clock as the time to look, and the clock."""
    head = "INSERT INTO task_limit_line (scope, name, look_at, updated_at) VALUES "
    return Each(head, _upsert(mysql, ("look_at", "updated_at")))


def _upsert(mysql: bool, columns: Sequence[str]) -> str:
    new, word = (
        ("VALUES({})", " ON DUPLICATE KEY UPDATE ")
        if mysql
        else ("excluded.{}", " ON CONFLICT (scope, name) DO UPDATE SET ")
    )
    return word + ", ".join(f"{column} = {new.format(column)}" for column in columns)


def oldest(scopes: Sequence[str], mark: str) -> str:
    """The first places of several lines at once; each line gives a name and how many."""
    parts = []
    for number, scope in enumerate(scopes):
        column, state, index = (
            ("limit_key", AT_KEY, "key") if scope == "key" else ("queue", AT_QUEUE, "queue")
        )
        parts.append(
            f"SELECT * FROM (SELECT task_id, queue, limit_key, priority, due_at, state FROM task_limit_place "
            f"{{force_place_{index}}} WHERE {column} = {mark} AND state = {state} "
            f"ORDER BY priority, due_at, task_id LIMIT {mark}) line{number}"
        )
    return " UNION ALL ".join(parts)
