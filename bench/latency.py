"""How long from the start of an enqueue call to the handler's first line, on an idle system.

    python bench/latency.py [--database sqlite|mariadb] [--tasks 200]

One scheduler, one worker with two processes, one task every 50 ms; each waits for the one before.
"""

from __future__ import annotations

import argparse
import random
import time

from bench_app import stamp
from stack import percentile, stack, versions


def measure(database: str, tasks: int) -> None:
    with stack(database) as one:
        one.start("scheduler")
        one.start("worker", "--app", "bench_app:kit", "--queue", "stamp", "--processes", "2")
        one.wait_up(1, 1)
        producer = one.kit.producer
        for _ in range(10):
            one.kit.result(producer.enqueue("stamp", stamp.payload(time.monotonic())), timeout=30)
        found = []
        for _ in range(tasks):
            time.sleep(random.uniform(0.03, 0.07))
            task_id = producer.enqueue("stamp", stamp.payload(time.monotonic()))
            found.append(float(one.kit.result(task_id, timeout=30)))
        print(f"{versions(one)}; {tasks} tasks, one at a time")
        print(f"{'database':10} {'p50 ms':>8} {'p95 ms':>8} {'p99 ms':>8} {'max ms':>8}")
        row = [percentile(found, share) for share in (0.5, 0.95, 0.99)] + [max(found)]
        print(f"{database:10} " + " ".join(f"{value:8.1f}" for value in row))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", choices=["sqlite", "mariadb"], default="sqlite")
    parser.add_argument("--tasks", type=int, default=200)
    options = parser.parse_args()
    measure(options.database, options.tasks)


if __name__ == "__main__":
    main()
