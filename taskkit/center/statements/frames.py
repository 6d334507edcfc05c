"""Statements of the frames: what analyses read. Each only reads, and counts in SQL what would grow with the history.

Windows are half-open: ``:since`` belongs to it, ``:until`` does not. ``:low`` is an id below which nothing was written
in the window or a day before it.
"""

_RUNS = "FROM task_run r {force_finished} WHERE r.finished_at >= :since AND r.finished_at < :until"

LOWEST = "SELECT MIN(id) AS lowest, MAX(id) AS highest FROM task_center"
WRITTEN = "SELECT id, created_at FROM task_center WHERE id >= :id ORDER BY id LIMIT 1"

TASKS = """
SELECT queue, priority, status, COUNT(*) AS tasks,
  SUM(CASE WHEN plan_next_run_at <= :now THEN 1 ELSE 0 END) AS due,
  MIN(CASE WHEN plan_next_run_at <= :now THEN plan_next_run_at END) AS oldest_due_at,
  MIN(plan_next_run_at) AS earliest_at
FROM task_center {force_dispatch} WHERE status IN (0, 1, 2, 4, 5, 7)
GROUP BY queue, priority, status ORDER BY queue, priority, status
"""

LISTS = """
SELECT queue, list_name, COUNT(*) AS queued, MIN(dispatched_at) AS oldest_at
FROM task_center {force_dispatch} WHERE status = 1 GROUP BY queue, list_name ORDER BY queue, list_name
"""

RUNNING = """
SELECT id AS task_id, task_code, queue, attempt, worker_id, dispatched_at, claimed_at, timeout AS timeout_s, lost_count
FROM task_center {force_dispatch} WHERE status = 2 ORDER BY claimed_at, id LIMIT 1000
"""

SAMPLES = """
SELECT {bucket(sampled_at)} AS bucket_at, queue, COUNT(*) AS samples, AVG(due) AS due_mean, MAX(due) AS due_max,
  AVG(queued) AS queued_mean, MAX(queued) AS queued_max, AVG(running) AS running_mean, MAX(running) AS running_max,
  MAX(retrying) AS retrying_max, MAX(held) AS held_max, MAX(oldest_age_s) AS oldest_age_max_s,
  SUM(finished) AS finished, SUM(failed) AS failed
FROM task_sample WHERE sampled_at >= :since AND sampled_at < :until GROUP BY 1, 2 ORDER BY 1, 2
"""

# When it became due first: a later retry has moved plan_next_run_at on, and then only its writing is known.
_DUE = """CASE WHEN retry_count = 0 AND lost_count = 0 OR task_type = 2 THEN COALESCE(plan_next_run_at, created_at)
  ELSE created_at END"""
_ARRIVED = f"""
SELECT {{bucket(due_at)}} AS bucket_at, queue, task_code, '{{source}}' AS source, COUNT(*) AS arrived
FROM (SELECT queue, task_code, {_DUE} AS due_at FROM task_center {{where}}) a
WHERE due_at >= :since AND due_at < :until GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
"""
ARRIVALS_NEW = _ARRIVED.replace("{source}", "new").replace(
    "{where}", "{force_primary} WHERE id >= :low AND task_type <> 1"
)
ARRIVALS_PLANNED = _ARRIVED.replace("{source}", "planned").replace(
    "{where}", "{force_dispatch} WHERE status IN (0, 1, 2, 4) AND id < :low AND task_type <> 1"
)
# Those of them that are over, by their first attempt: a retry has moved their time on, but not when it was dispatched.
ARRIVALS_DONE = """
SELECT {bucket(due_at)} AS bucket_at, queue, task_code, 'planned' AS source, COUNT(*) AS arrived
FROM (
  SELECT c.queue, c.task_code, CASE WHEN c.retry_count = 0 AND c.lost_count = 0
    THEN COALESCE(c.plan_next_run_at, r.dispatched_at) ELSE r.dispatched_at END AS due_at
  FROM task_run r {force_finished} {then_join} task_center c {force_primary} ON c.id = r.task_id
  WHERE r.finished_at >= :since AND r.finished_at < :until AND r.attempt = 1 AND r.task_id < :low
    AND c.task_type <> 1 AND c.status NOT IN (0, 1, 2, 4)) a
WHERE due_at >= :since AND due_at < :until GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
"""
ARRIVALS_PERIODIC = """
SELECT {bucket(o.fired_at)} AS bucket_at, c.queue, c.task_code, 'periodic' AS source, COUNT(*) AS arrived
FROM task_occurrence o {force_state} {then_join} task_center c ON c.id = o.task_id
WHERE o.state = 'fired' AND o.planned_at >= :since_a_day AND o.fired_at >= :since AND o.fired_at < :until
GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
"""

FINISHES = f"""
SELECT {{bucket(r.finished_at)}} AS bucket_at, r.queue, r.task_code, COUNT(*) AS finished,
  SUM(CASE WHEN r.outcome = 'success' THEN 1 ELSE 0 END) AS succeeded,
  SUM(CASE WHEN r.outcome = 'failed' THEN 1 ELSE 0 END) AS failed,
  SUM(CASE WHEN r.outcome = 'timeout' THEN 1 ELSE 0 END) AS timed_out,
  SUM(CASE WHEN r.outcome = 'lost' AND r.worker_id IS NOT NULL THEN 1 ELSE 0 END) AS lost_running,
  SUM(CASE WHEN r.outcome = 'lost' AND r.worker_id IS NULL THEN 1 ELSE 0 END) AS lost_messages,
  SUM(CASE WHEN r.outcome = 'superseded' THEN 1 ELSE 0 END) AS superseded,
  SUM(CASE WHEN r.outcome = 'cancelled' THEN 1 ELSE 0 END) AS cancelled,
  SUM(CASE WHEN r.outcome = 'handed_back' THEN 1 ELSE 0 END) AS handed_back,
  SUM(CASE WHEN r.outcome = 'given_up' THEN 1 ELSE 0 END) AS given_up,
  SUM(CASE WHEN r.attempt > 1 AND r.occurrence_at IS NULL THEN 1 ELSE 0 END) AS again,
  SUM(r.runtime_ms) / 1000.0 AS busy_s
{_RUNS} GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
"""

SLOTS = f"""
SELECT {{bucket(r.finished_at)}} AS bucket_at, r.worker_id, r.pid, COUNT(*) AS runs,
  SUM(CASE WHEN r.outcome IN ('success', 'cancelled', 'handed_back') THEN 0 ELSE 1 END) AS failed,
  SUM(r.runtime_ms) / 1000.0 AS busy_s, MIN(r.started_at) AS first_at, MAX(r.finished_at) AS last_at
{_RUNS} AND r.worker_id IS NOT NULL GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
"""

_BINS = "COUNT(*) AS runs, MIN({ms}) AS min_ms, MAX({ms}) AS max_ms, SUM({ms}) AS sum_ms"
SERVICE_TIMES = f"""
SELECT {{bucket(r.finished_at)}} AS bucket_at, r.queue, r.task_code, {{bin(r.runtime_ms)}} AS bin,
  {_BINS.replace("{ms}", "r.runtime_ms")}
{_RUNS} AND r.runtime_ms IS NOT NULL AND r.outcome IN ('success', 'failed', 'timeout')
GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4
"""

_NORMAL = """
SELECT task_code, {bin(runtime_ms)} AS bin, COUNT(*) AS runs, MIN(runtime_ms) AS min_ms, MAX(runtime_ms) AS max_ms,
  SUM(runtime_ms) AS sum_ms
FROM (:rows) r WHERE runtime_ms IS NOT NULL AND outcome = 'success' GROUP BY 1, 2 ORDER BY 1, 2
"""
_NORMAL_RUNS = """SELECT task_code, runtime_ms, outcome FROM task_run {force_finished}
      WHERE finished_at >= :from AND finished_at < :to"""
MANY_NORMAL = """
SELECT COUNT(*) AS n FROM (SELECT 1 FROM task_run {force_finished}
  WHERE finished_at >= :from AND finished_at < :to LIMIT :most) r
"""
SERVICE_NORMAL = _NORMAL.replace(":rows", _NORMAL_RUNS)
SERVICE_NORMAL_LATELY = _NORMAL.replace(":rows", f"{_NORMAL_RUNS} ORDER BY finished_at LIMIT :each")
NORMAL_PARTS = 24
_PART = f"SELECT * FROM ({_NORMAL_RUNS} ORDER BY finished_at LIMIT :each) p"
SERVICE_NORMAL_PARTS = _NORMAL.replace(
    ":rows",
    " UNION ALL ".join(
        f"{_PART}{n}".replace(":from", f":from_{n}").replace(":to", f":to_{n}") for n in range(NORMAL_PARTS)
    ),
)
"""So many pieces of the week at once: of each the first runs from ``:from_n`` on, as many as ``:each`` says."""

# From the instant when it was due for the first time, so only runs that are the first of their task.
_WAITS_FIRST = """
SELECT {bucket(finished_at)} AS bucket_at, queue, '{stage}' AS stage, {bin(ms)} AS bin,
  COUNT(*) AS runs, MIN(ms) AS min_ms, MAX(ms) AS max_ms, SUM(ms) AS sum_ms
FROM (
  SELECT r.finished_at, r.queue, ({micros(r.{end})} - {micros(c.plan_next_run_at)}) / 1000.0 AS ms
  FROM task_run r {force_finished} {then_join} task_center c {force_primary} ON c.id = r.task_id
  WHERE r.finished_at >= :since AND r.finished_at < :until AND r.attempt = 1 AND r.{end} IS NOT NULL
    AND c.task_type <> 1 AND c.retry_count = 0 AND c.lost_count = 0 AND c.plan_next_run_at <= r.{end}
    AND r.id % :thin = 0) w
GROUP BY 1, 2, 4 ORDER BY 1, 2, 4
"""
WAITS_DUE = _WAITS_FIRST.replace("{stage}", "due_to_dispatched").replace("{end}", "dispatched_at")
WAITS_WHOLE = _WAITS_FIRST.replace("{stage}", "due_to_started").replace("{end}", "started_at")
WAITS_QUEUE = """
SELECT {bucket(finished_at)} AS bucket_at, queue, 'dispatched_to_started' AS stage, {bin(ms)} AS bin,
  COUNT(*) AS runs, MIN(ms) AS min_ms, MAX(ms) AS max_ms, SUM(ms) AS sum_ms
FROM (
  SELECT r.finished_at, r.queue, ({micros(r.started_at)} - {micros(r.dispatched_at)}) / 1000.0 AS ms
  FROM task_run r {force_finished}
  WHERE r.finished_at >= :since AND r.finished_at < :until AND r.started_at >= r.dispatched_at) w
GROUP BY 1, 2, 4 ORDER BY 1, 2, 4
"""
MANY = f"SELECT COUNT(*) AS n {_RUNS}"

ERRORS = f"""
SELECT r.task_code, r.queue, r.outcome, COALESCE(r.fingerprint, '') AS fingerprint, COUNT(*) AS runs,
  COUNT(DISTINCT r.task_id) AS tasks, MIN(r.finished_at) AS first_at, MAX(r.finished_at) AS last_at,
  SUBSTR(MIN(r.error), 1, 200) AS error
{_RUNS} AND r.outcome IN ('failed', 'timeout', 'lost', 'given_up', 'superseded')
GROUP BY 1, 2, 3, 4 ORDER BY runs DESC, 1, 2, 3, 4 LIMIT 500
"""
