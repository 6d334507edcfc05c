"""Statements about how queues are split into shards; a queue without a row has a single list for each priority."""

SPLITS = "SELECT queue, shards, lists FROM task_queue"

# lists is assigned last: MySQL assigns from left to right, SQLite from the old row.
SPLIT_MYSQL = """
INSERT INTO task_queue (queue, shards, lists) VALUES (:queue, :shards, :shards)
ON DUPLICATE KEY UPDATE
  shards = VALUES(shards), lists = GREATEST(lists, VALUES(shards)), updated_at = {now}
"""
SPLIT_SQLITE = """
INSERT INTO task_queue (queue, shards, lists, created_at, updated_at) VALUES (:queue, :shards, :shards, {now}, {now})
ON CONFLICT (queue) DO UPDATE SET
  shards = excluded.shards, lists = MAX(lists, excluded.shards), updated_at = {now}
"""

# A dispatched row says that it stands in a list which nobody looks into any more, or not yet.
WIDEN_MYSQL = """
INSERT INTO task_queue (queue, shards, lists) VALUES (:queue, 1, :most)
ON DUPLICATE KEY UPDATE lists = GREATEST(lists, VALUES(lists)), updated_at = {now}
"""
WIDEN_SQLITE = """
INSERT INTO task_queue (queue, shards, lists, created_at, updated_at) VALUES (:queue, 1, :most, {now}, {now})
ON CONFLICT (queue) DO UPDATE SET lists = MAX(lists, excluded.lists), updated_at = {now}
"""

# Split otherwise so long ago that everybody knows: what still goes to the lists beyond does not come any more.
SETTLED = """
SELECT queue, shards, lists FROM task_queue WHERE lists > shards AND updated_at <= {after(-:age)}
"""

STANDS_IN = """
SELECT 1 FROM task_center {force_dispatch}
WHERE status = :status AND queue = :queue AND list_name IN :names LIMIT 1
"""

NARROW = """
UPDATE task_queue SET lists = shards, updated_at = {now}
WHERE queue = :queue AND shards = :shards AND lists = :most
"""

WHOLE_AGAIN = "DELETE FROM task_queue WHERE queue = :queue AND shards = 1 AND lists = 1"
