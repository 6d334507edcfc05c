"""Statements of the samples: what waited and what was done, over time."""

LAST_SAMPLE = """
SELECT MAX(sampled_at) FROM task_sample
"""

FINISHED_SINCE = """
SELECT queue, COUNT(*) AS finished, SUM(CASE WHEN outcome IN ('failed', 'timeout', 'lost', 'given_up') THEN 1 ELSE 0 END) AS failed
FROM task_run WHERE finished_at > :since AND finished_at <= :until GROUP BY queue
"""

SAMPLE = """
{insert_ignore} INTO task_sample
  (sampled_at, queue, due, queued, running, retrying, held, oldest_age_s, finished, failed)
VALUES (:at, :queue, :due, :queued, :running, :retrying, :held, :oldest_age_s, :finished, :failed)
"""
