"""Rules of the acceptance tests: the shipped ones with shorter times, and limits that some seconds reach.

Those that read many rows look once a second: more often, they would take the processor from what they watch.
"""

SMALL = """
[[rule]]
id = "scheduler"
every = "0.4s"
for = "0.5s"
keep_firing = "1s"
no_scan = "2s"

[[rule]]
id = "missed"
for = "0s"
every = "0.4s"
keep_firing = "1s"
after = "4s"
over = "10s"
evidence = false

[[rule]]
id = "given_up"
for = "0s"
every = "0.4s"
over = "4s"

[[rule]]
id = "success_rate"
for = "0s"
every = "1s"
keep_firing = "1s"
over = "5s"
evidence = false
"""
BUSY = """
[[rule]]
id = "watchdog"
keep_firing = "1s"

[[rule]]
id = "slow"
every = "1s"
for = "0.5s"
keep_firing = "1s"
over = "6s"
evidence = false

[[rule]]
id = "backlog"
every = "1s"
for = "5s"
keep_firing = "1s"
above = 300
evidence = false

[[rule]]
id = "forecast"
every = "1s"
for = "4s"
keep_firing = "1s"
queues = ["report"]
"""
CROWD = """
[[rule]]
id = "worker_dead"
every = "0.4s"
for = "0.5s"
keep_firing = "1s"
after = "2s"

[[rule]]
id = "lost"
for = "0s"
every = "0.4s"
keep_firing = "1s"
above = 2
over = "8s"
not_recovered = "5s"
evidence = false

[[rule]]
id = "duplicates"
for = "0s"
every = "1s"
keep_firing = "1s"
over = "8s"
evidence = false

[[rule]]
id = "zombies"
for = "0s"
every = "1s"
keep_firing = "1s"
after = "5s"
evidence = false
"""
STORES = """
[[rule]]
id = "stores"
every = "0.5s"
for = "1s"
keep_firing = "1.5s"
slow_ms = 60000
persistence = false
clock_skew = "1h"
disk_left = 0
"""
