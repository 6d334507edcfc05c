"""Statements about the processes: workers, schedulers, leases, and what this installation is called."""

WORKER_IN = """
INSERT INTO task_worker
  (worker_id, host, pid, queues, processes, min_processes, max_processes, started_at, heartbeat_at)
VALUES (:worker_id, :host, :pid, :serves, :processes, :min_processes, :max_processes, {now}, {now})
"""

WORKER_BEAT = """
UPDATE task_worker SET
  heartbeat_at = {now}, heartbeat_count = heartbeat_count + 1, processes = :processes, busy = :busy,
  processed = :processed, failed = :failed, dropped = :dropped, retries = :retries,
  last_progress_at = :last_progress_at, rss_bytes = :rss_bytes, cpu_percent = :cpu_percent, children = :children,
  tasks = :tasks, stacks = COALESCE(:stacks, stacks)
WHERE worker_id = :worker_id
"""

WORKER_STACKS = """
UPDATE task_worker SET stacks = :stacks WHERE worker_id = :worker_id
"""

WORKER_OUT = """
UPDATE task_worker SET stopped_at = {now}, heartbeat_at = {now}, busy = 0, tasks = '[]' WHERE worker_id = :worker_id
"""

RESTART_ASK = """
UPDATE task_worker SET restart_requested_at = {now} WHERE worker_id = :worker_id AND stopped_at IS NULL
"""
RESTART_WANTED = """
SELECT restart_requested_at FROM task_worker WHERE worker_id = :worker_id AND restart_requested_at >= started_at
"""

# One that has beaten since it was declared dead is alive again.
WORKERS = """
SELECT worker_id, host, pid, queues, processes, min_processes, max_processes, started_at, heartbeat_at, {age(heartbeat_at)} AS heartbeat_age_s,
  CASE WHEN lost_at >= heartbeat_at THEN lost_at END AS lost_at,
  last_progress_at, busy, processed, failed, dropped, retries, rss_bytes, cpu_percent, children, tasks, stacks, stopped_at
FROM task_worker WHERE stopped_at IS NULL ORDER BY host, pid
"""

# Those that live as far as one can see, by what they serve.
SERVING = """
SELECT worker_id, queues FROM task_worker
WHERE stopped_at IS NULL AND heartbeat_at > {after(-:age)} AND (lost_at IS NULL OR lost_at < heartbeat_at)
"""

SCHEDULER_IN = """
INSERT INTO task_scheduler (scheduler_id, host, pid, started_at, heartbeat_at)
VALUES (:scheduler_id, :host, :pid, {now}, {now})
"""

SCHEDULER_BEAT = """
UPDATE task_scheduler SET
  heartbeat_at = {now}, heartbeat_count = heartbeat_count + 1, last_scan_at = :last_scan_at, scans = :scans,
  dispatched = :dispatched, retries = :retries, clock_offset_ms = :clock_offset_ms, tzdata_version = :tzdata_version
WHERE scheduler_id = :scheduler_id
"""

SCHEDULER_TOUCH = """
UPDATE task_scheduler SET heartbeat_count = heartbeat_count + 1 WHERE scheduler_id = :scheduler_id
"""

SCHEDULER_OUT = """
UPDATE task_scheduler SET stopped_at = {now}, heartbeat_at = {now} WHERE scheduler_id = :scheduler_id
"""

SCHEDULERS = """
SELECT scheduler_id, host, pid, started_at, heartbeat_at, {age(heartbeat_at)} AS heartbeat_age_s, last_scan_at,
  {age(last_scan_at)} AS scan_age_s, scans, dispatched, retries, clock_offset_ms, tzdata_version, stopped_at
FROM task_scheduler WHERE stopped_at IS NULL ORDER BY host, pid
"""

LEASE_IN = """
{insert_ignore} INTO task_lease (name, holder, fence, expires_at) VALUES (:name, '', 0, {now})
"""

LEASE_TAKE = """
UPDATE task_lease SET
  fence = CASE WHEN holder = :holder THEN fence ELSE fence + 1 END, expires_at = {after(:seconds)}, holder = :holder
WHERE name = :name AND (holder = :holder OR expires_at <= {now})
"""

LEASE_HOLDER = "SELECT holder FROM task_lease WHERE name = :name AND expires_at > {now}"

LEASE_DROP = """
UPDATE task_lease SET holder = '', expires_at = {now} WHERE name = :name AND holder = :holder
"""

INSTALLATION_IN = """
{insert_ignore} INTO task_installation (name, value) VALUES (:name, :value)
"""
INSTALLATION = """
SELECT value FROM task_installation WHERE name = :name
"""
