"""All frames there are: what each column holds, with its dtype and unit. The letters are those of frame.py."""

from __future__ import annotations

from taskkit.analytics.frame import Frame, frame
from taskkit.analytics.frames_alerts import ALERTS

_BINS = """
bin | n | | floor(log(ms) / log(1.05)), -1 below 1 ms
runs | n | runs | how many fell into this bin
min_ms | f | ms | the shortest of them
max_ms | f | ms | the longest of them
sum_ms | f | ms | all of them together
"""
_BUCKET = "bucket_at | at | | where the time bucket begins\n"
_BY_CODE = _BUCKET + "queue | w | | the queue\ntask_code | w | | the code\n"

WORK = (
    frame("tasks", "What has not ended now, by queue, priority and status; given up too.", """
queue | w | | the queue
priority | n | | 0 is the highest
status | n | | 0 pending, 1 dispatched, 2 running, 4 failed, 5 given up, 7 held
tasks | n | tasks | how many
due | n | tasks | of them, those whose time has come
oldest_due_at | at | | since when the first of these is due
earliest_at | at | | the earliest time among all of them
"""),
    frame("lists", "What was dispatched and not claimed yet, by list (queue, priority and shard).", """
queue | w | | the queue
list_name | w | | as the broker calls it
queued | n | tasks | how many stand in it as SQL knows it
oldest_at | at | | when the first of them was dispatched
"""),
    frame("running", "Runs without an end: the 1,000 oldest.", """
task_id | n | | the task
task_code | w | | the code
queue | w | | the queue
attempt | n | | its attempt
worker_id | w | | who claimed it
dispatched_at | at | | when it was dispatched
claimed_at | at | | when it was claimed
timeout_s | f | s | its time limit
lost_count | n | | how often it was lost with its worker
"""),
    frame("samples", "Depths and rates as a scheduler wrote them down every 15 s, by bucket.", _BUCKET + """
queue | w | | the queue
samples | n | | how many samples the bucket holds
due_mean | f | tasks | due in SQL, on average
due_max | f | tasks | due in SQL, at most
queued_mean | f | tasks | in the broker, on average; n/a while it was away
queued_max | f | tasks | in the broker, at most
running_mean | f | tasks | running, on average
running_max | f | tasks | running, at most
retrying_max | f | tasks | waiting for a back-off, at most
held_max | f | tasks | held, at most
oldest_age_max_s | f | s | the longest wait
finished | n | runs | runs that ended since the sample before
failed | n | runs | of them, those that did not succeed
"""),
    frame("arrivals", "Tasks that became due for the first time.", _BY_CODE + """
source | w | | new, planned (written more than a day before) or periodic
arrived | n | tasks | how many
"""),
    frame("finishes", "Runs that ended, by how they ended.", _BY_CODE + """
finished | n | runs | all of them
succeeded | n | runs | ended well
failed | n | runs | failed
timed_out | n | runs | ran into their time limit
lost_running | n | runs | lost with their worker
lost_messages | n | runs | lost before they were claimed
superseded | n | runs | ended after their worker had been declared dead
cancelled | n | runs | cancelled by a person or an expiry
handed_back | n | runs | handed back by a worker that stopped
given_up | n | runs | told by the handler never to retry
again | n | runs | of all, second and later attempts of a one-off task
busy_s | f | s | how long they ran together
"""),
    frame("slots", "What each slot ended: a worker's child by its process.", _BUCKET + """
worker_id | w | | the worker
pid | N | | the process of its child
runs | n | runs | how many ended
failed | n | runs | of them, those that did not end well
busy_s | f | s | how long they ran together
first_at | at | | when the first of them began
last_at | at | | when the last of them ended
"""),
    frame("service_times", "How long runs took, in bins.", _BY_CODE + _BINS.strip()),
    frame("service_normal", "How long successful runs took in the seven days that end an hour before the window, in bins; a million of them, from everywhere in the week. Of a code with fewer than 50 runs there also those of the oldest parts of that hour.",
          "task_code | w | | the code\n" + _BINS.strip()),
    frame("waits", "How long tasks waited, in bins.", _BUCKET + """queue | w | | the queue
stage | w | | due_to_dispatched or due_to_started (first attempts), or dispatched_to_started
""" + _BINS.strip()),
    frame("load", "What came to the slots, in slots of time: for a replay.", """
arrive_ms | n | ms | when the slot of time begins, after the beginning of the window; below 0 before it
slot_ms | n | ms | how wide it is
queue | w | | the queue
priority | n | | 0 is the highest
task_code | w | | the code
kind | w | | first (its wait is known), again (retries and occurrences), carried (ran before), waiting or running
tasks | n | tasks | how many
service_ms | f | ms | how long they ran together; n/a: they have not ended
"""),
    frame("turns", "How long a slot stood between two runs though the second was dispatched, in bins: the newest 100,000.",
          "queue | w | | the queue\n" + _BINS.strip()),
    frame("errors", "Runs that did not succeed, by code, outcome and fingerprint: the 500 most frequent.", """
task_code | w | | the code
queue | w | | the queue
outcome | w | | failed, timeout, lost, given_up or superseded
fingerprint | w | | one cause, one name
runs | n | runs | how many
tasks | n | tasks | of how many tasks
first_at | at | | the first
last_at | at | | the last
error | w | | what one of them said
"""),
)  # fmt: skip

STORY = (
    frame("runs", "All runs of tasks that ran more than once, and of tasks with one business key.", """
task_id | n | | the task
attempt | n | | numbered from 1
task_code | w | | the code
queue | w | | the queue
outcome | w | | how it ended
worker_id | w | | who ran it
host | w | | where
pid | N | | in which process
dispatched_at | at | | when it was dispatched
started_at | at | | when the handler began; n/a: it never did, as far as is known
finished_at | at | | when the end was written
runtime_ms | f | ms | how long the handler took
occurrence_at | at | | the planned time, for a periodic task
fingerprint | w | | of its error
error | w | | its error
created_at | at | | when the task was written
due_at | at | | the task's present time
retry_count | N | | the task's retries so far
lost_count | N | | its losses since it last succeeded
unique_key | w | | its business key, where it has one
"""),
    frame("twins", "Business keys that were written more than once: the 500 most frequent.", """
task_code | w | | the code
key_kind | w | | unique_key, or payload where there is no key
business_key | w | | the key, or a digest of the payload
tasks | n | tasks | how many
first_id | n | | the first of them
last_id | n | | the last of them
first_at | at | | when the first was written
last_at | at | | when the last was written
"""),
    frame("occurrences", "Planned fire times and what became of them.", _BUCKET + """
task_code | w | | the code
state | w | | planned, fired, skipped or missed
occurrences | n | | how many
late_max_s | f | s | the latest of those fired
late_mean_s | f | s | their average
failed | n | | of those fired, how many did not succeed
"""),
    frame("troubled_occurrences", "Planned times that did not fire, fired late or failed: the 2,000 newest.", """
task_id | n | | the periodic task
task_code | w | | its code
queue | w | | its queue
cron_expr | w | | its expression
timezone | w | | its zone
misfire | w | | its policy
status | n | | its status now
planned_at | at | | the planned time
state | w | | planned, fired, skipped or missed
reason | w | | why it was skipped or missed
fired_at | at | | when it fired
late_s | f | s | how late that was
attempt | N | | the attempt that it fired
outcome | w | | how that ended
"""),
    frame("dead_letters", "Tasks that gave up, by code and cause: the 500 most frequent.", """
task_code | w | | the code
queue | w | | the queue
fingerprint | w | | the cause
tasks | n | tasks | how many
first_at | at | | the first
last_at | at | | the last
sample_id | n | | one of them
new_tasks | n | tasks | of them, those of this window
error | w | | what one of them said
"""),
    frame("actions", "What persons did: the 1,000 newest; what they had run again in the day before, too.", """
at | at | | when
actor | w | | who
action | w | | what
task_id | N | | to which task
detail | w | | and further
"""),
)  # fmt: skip

NODES = (
    frame("workers", "Workers that were seen lately.", """
worker_id | w | | host:pid:random
host | w | | its host
pid | n | | its process
queues | w | | what it serves, comma separated; * is everything
processes | n | slots | its children
started_at | at | | when it started
heartbeat_at | at | | its last heartbeat
last_progress_at | at | | when it last claimed or ended something
busy | n | slots | how many run a task
processed | n | runs | since it started
failed | n | runs | of these, those that failed
dropped | n | messages | messages that won nothing
retries | n | | repeated transactions
rss_bytes | N | bytes | memory of the parent
cpu_percent | f | % | CPU of the parent; 100 is one core
children_rss_bytes | N | bytes | memory of its children together
children_cpu_percent | f | % | CPU of its children together; 100 is one core
tasks | w | | what it holds, as JSON, each with whether its handler has begun
stacks | w | | where it stood, when it was stuck
stopped_at | at | | when it signed off
lost_at | at | | when it was declared dead, unless it has beaten since
"""),
    frame("schedulers", "Schedulers that were seen lately.", """
scheduler_id | w | | host:pid:random
host | w | | its host
pid | n | | its process
started_at | at | | when it started
heartbeat_at | at | | its last heartbeat
last_scan_at | at | | its last scan
scans | n | | since it started
dispatched | n | tasks | since it started
retries | n | | repeated transactions
clock_offset_ms | f | ms | its clock less the database's
stopped_at | at | | when it signed off
"""),
    frame("limits", "The limits in force.", """
scope | w | | key or queue
name | w | | which
concurrency | N | tasks | so many at once
rate | N | tasks | so many starts in a period
period_s | f | s | the period
"""),
    frame("limit_lines", "What stands under limits.", """
queue | w | | the queue
limit_key | w | | the key; empty where there is none
state | n | | 0 waits for its key, 1 waits for its queue, 2 in use
tasks | n | tasks | how many
oldest_at | at | | since when the first of them is due
"""),
    frame("shards", "Queues that are split.", """
queue | w | | the queue
shards | n | | into so many lists
lists | n | | of which workers look into so many
"""),
    frame("transactions", "Open transactions of a MySQL or MariaDB server, oldest first.", """
thread | n | | its connection, for KILL
account | w | | whose
host | w | | from where
command | w | | Sleep: it is idle
state | w | | RUNNING or LOCK WAIT
statement | w | | what it does; n/a when idle
rows_locked | N | rows | rows it has locked
rows_changed | N | rows | rows it has changed
age_s | f | s | how long it has been open
"""),
    frame("lock_waits", "Who waits for whom on a MySQL or MariaDB server.", """
waiting_thread | n | | the connection that waits
holding_thread | N | | the one that holds the lock; n/a where the server does not tell
table_name | w | | on which table
index_name | w | | by which index
kind | w | | row or metadata
waited_s | f | s | for how long
"""),
    frame("facts", "What the installation is; missing_grants says what could not be seen.", """
name | w | | which fact
value | w | | and what it says
"""),
)  # fmt: skip

FRAMES: dict[str, Frame] = {one.name: one for one in (*WORK, *STORY, *NODES, *ALERTS)}
"""By name."""
