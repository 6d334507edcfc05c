"""Diagnoses over a long history: how long each takes and the most memory it has, each in a process of its own.

    python bench/analytics.py [--runs 100000] [--replay 1000000]        # 10000000 is what it is made for
    python bench/analytics.py --runs 10000000 --days 7 --hours 1 --replay 0

A history of so many runs is written into MariaDB in bulk: three queues, retries, timeouts, losses, schedules, samples,
workers, and tasks that wait. Then every rule looks at the last part of it, every frame is read, and that part is replayed
(`taskkit whatif`). --days is how long the history is, --hours how much of it is looked at; `taskkit diagnose`
looks at one. --replay is a day of so many tasks that is replayed without a database.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.loading import CHUNK, load, make_numbers
from bench.report import Report, chosen_settings, parser
from bench.stack import Stack, server_ground

HEAD = ["what", "seconds", "peak RSS, MiB", "found"]
DAY_S = 86_400
DUE = 10_000
SLOTS = 50
AT = "NOW(6) - INTERVAL {days} DAY + INTERVAL ({first} + n) * {step} MICROSECOND"
QUEUE = "ELT(1 + n % 3, 'mail', 'report', 'push')"
WAIT = "INTERVAL 5000 + CRC32({first} + n) % 900000 MICROSECOND"
MS = "20 + CRC32({first} + n + 7) % 200"
BAD = "n % 100 = 0"
TASK = {
    "id": "{first} + n + 1", "task_code": QUEUE, "queue": QUEUE, "payload": "CONCAT('{\"order\": ', {first} + n, '}')",
    "priority": "5", "timeout": "30", "status": "IF(n % 500 = 0, 5, 3)", "attempt": f"IF({BAD}, 2, 1)",
    "retry_count": f"IF({BAD}, 1, 0)", "plan_next_run_at": AT, "dispatched_at": f"{AT} + {WAIT}", "list_name": "'push:5'",
    "worker_id": "'bench:1:a'", "claimed_at": f"{AT} + {WAIT}", "last_run_at": f"{AT} + {WAIT}", "created_at": AT, "updated_at": AT,
}  # fmt: skip
OUTCOME = f"CASE WHEN {BAD} THEN 'failed' WHEN n % 1000 = 1 THEN 'timeout' WHEN n % 10000 = 2 THEN 'lost' ELSE 'success' END"
RUN = {
    "task_id": "{first} + n + 1", "attempt": "1", "task_code": QUEUE, "queue": QUEUE, "outcome": OUTCOME,
    "worker_id": "CONCAT('bench:', n % 10, ':a')", "host": "'bench'", "pid": "n % 50", "dispatched_at": f"{AT} + {WAIT}",
    "started_at": f"{AT} + {WAIT} + INTERVAL 3 MILLISECOND".replace("3 MILLISECOND", "3000 MICROSECOND"),
    "finished_at": f"{AT} + {WAIT} + INTERVAL (3 + {MS}) * 1000 MICROSECOND", "runtime_ms": MS,
    "error": f"IF({BAD}, 'ValueError: no', NULL)", "fingerprint": f"IF({BAD}, CONCAT('f', n % 7), NULL)",
}  # fmt: skip
AGAIN = RUN | {"attempt": "2", "outcome": "IF(n % 500 = 0, 'failed', 'success')"}
OTHERS = (
    "INSERT INTO task_center (task_code, task_type, queue, payload, cron_expr, status, plan_next_run_at) "
    "SELECT 'nightly', 1, 'report', '{}', '* * * * *', 0, NOW(6) + INTERVAL 1 HOUR FROM bench_numbers WHERE n < 50",
    "INSERT INTO task_occurrence (task_id, planned_at, state, fired_at, late_s, attempt, outcome) "
    "SELECT c.id, NOW(6) - INTERVAL b.n MINUTE, 'fired', NOW(6) - INTERVAL b.n MINUTE, 0.1, 1, 'success' "
    "FROM task_center c JOIN bench_numbers b ON b.n BETWEEN 1 AND 1440 WHERE c.task_type = 1",
    "INSERT INTO task_sample (sampled_at, queue, due, queued, running, retrying, held, finished, failed) "
    f"SELECT NOW(6) - INTERVAL 15 * n SECOND, {QUEUE}, n % 100, 0, 5, 0, 0, 100, 1 FROM bench_numbers WHERE n < 5760",
    "INSERT INTO task_worker (worker_id, host, pid, queues, processes, started_at, heartbeat_at, last_progress_at, busy) "
    f"SELECT CONCAT('bench:', n, ':a'), 'bench', n, '*', {SLOTS // 10}, NOW(6) - INTERVAL 2 DAY, NOW(6) + INTERVAL 1 HOUR, "
    "NOW(6), 3 FROM bench_numbers WHERE n < 10",
    "INSERT INTO task_scheduler (scheduler_id, host, pid, started_at, heartbeat_at, last_scan_at) "
    "VALUES ('bench:1:s', 'bench', 1, NOW(6) - INTERVAL 2 DAY, NOW(6) + INTERVAL 1 HOUR, NOW(6))",
    *(f"ANALYZE TABLE {name}" for name in ("task_center", "task_run", "task_occurrence")),
)


def history(one: Stack, runs: int, days: int) -> None:
    """So many tasks in so many days, and what stands beside them."""
    make_numbers(one)
    for first in range(0, runs, CHUNK):
        size = min(CHUNK, runs - first)
        for table, columns, more in (
            ("task_center", TASK, ""),
            ("task_run", RUN, ""),
            ("task_run", AGAIN, f" AND {BAD}"),
        ):
            values = (
                ", ".join(columns.values())
                .replace("{first}", str(first))
                .replace("{days}", str(days))
                .replace("{step}", str(days * DAY_S * 10**6 // runs))
            )
            one.query(f"INSERT INTO {table} ({', '.join(columns)}) SELECT {values} FROM bench_numbers WHERE n < {size}{more}".replace("%", "%%"))  # fmt: skip
        print(f"  {first + size:,} of {runs:,} runs", file=sys.stderr, flush=True)
    load(one, "due", DUE)
    for statement in OTHERS:
        one.query(statement.replace("%", "%%"))


def alone(one: Stack, what: str, hours: float) -> dict[str, Any]:
    """One look in a process of its own."""
    command = [sys.executable, __file__, "--look", what, "--hours", str(hours)]
    done = subprocess.run(command, check=True, env=one.env, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def look(what: str, hours: float) -> dict[str, Any]:
    """What the process of its own does: a rule, all frames, or the replay; the time is that after the imports."""
    from taskkit import Settings, Taskkit
    from taskkit.analytics import LiveSource, Window, diagnose
    from taskkit.analytics.whatif import whatif

    kit = Taskkit(Settings.load())
    began = time.perf_counter()
    now = kit.center.now()
    source = LiveSource(kit.center, Window.last(hours * 3600, now), now=now)
    if what == "frames":
        return dict(timed(source))
    if what == "replay":
        found = f"p95 {whatif(source, slots=[SLOTS]).replayed.wait_p95_s} s"
    else:
        found = diagnose(what, source).verdict
    return {"seconds": time.perf_counter() - began, "mib": peak_mib(), "found": found}


def timed(source: Any) -> Iterator[tuple[str, Any]]:
    """Every frame, read one after the other in one process."""
    from taskkit.analytics import FRAMES

    for name in FRAMES:
        began = time.perf_counter()
        rows = len(source.frame(name))
        yield name, {"seconds": time.perf_counter() - began, "mib": peak_mib(), "found": f"{rows:,} rows"}


def replay(tasks: int) -> dict[str, Any]:
    """A day of so many tasks in groups of a second, replayed as it was and with twice the load."""
    import numpy as np

    from taskkit.analytics.whatif import queueing, work

    seconds = np.arange(DAY_S)
    curve = 1 + 0.8 * np.sin(seconds / DAY_S * 2 * np.pi)
    counts = np.random.default_rng(1).poisson(curve * tasks / DAY_S)
    frames = made(seconds, counts, 400.0)
    began = time.perf_counter()
    day = work.expand(*frames)
    slots = int(tasks / DAY_S * 0.4 * 1.5) + 1
    begun = queueing.starts(day.arrive, day.service, queueing.Slots([0.0] * slots))
    most, at = queueing.largest_backlog(day.arrive, begun)
    queueing.empty_after(day.arrive, begun, at)
    return {"seconds": time.perf_counter() - began, "mib": peak_mib(), "found": f"largest backlog {most:,}"}


def made(seconds: Any, counts: Any, mean_ms: float) -> tuple[Any, Any]:
    """The frames ``load`` and ``service_times`` of such a day."""
    import pandas as pd

    load = pd.DataFrame({"arrive_ms": seconds * 1000, "slot_ms": 1000, "queue": "push", "priority": 5, "task_code": "push",
                         "kind": "first", "tasks": counts, "service_ms": counts * mean_ms})  # fmt: skip
    bins = pd.DataFrame({"task_code": "push", "bin": range(100, 150), "runs": 10, "sum_ms": [10 * 1.05**n for n in range(100, 150)]})  # fmt: skip
    return load, bins


def peak_mib() -> float:
    """The most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def run(options: argparse.Namespace, report: Report) -> None:
    """Every rule, every frame, and the replay."""
    from taskkit.analytics import RULES

    with server_ground(options.server) as there, there.installation(**chosen_settings(options)) as one:
        report.saw(one.kit)
        began = time.perf_counter()
        history(one, options.runs, options.days)
        report.notes.append(
            f"{options.runs:,} tasks of {options.days} days, written in {time.perf_counter() - began:.0f} s; "
            f"looked at: the last {options.hours:g} h"
        )
        for what in (*RULES, "replay"):
            keep(report, what, alone(one, what, options.hours))
        for name, found in alone(one, "frames", options.hours).items():
            keep(report, f"frame {name}", found)
    if options.replay:
        done = subprocess.run([sys.executable, __file__, "--look-replay", str(options.replay)], check=True, stdout=subprocess.PIPE, text=True)  # fmt: skip
        keep(report, f"replay of {options.replay:,} tasks, no database", json.loads(done.stdout))


def keep(report: Report, what: str, found: dict[str, Any]) -> None:
    """A line of the table."""
    report.keep(what, **found)
    report.rows.append([what, f"{found['seconds']:.2f}", f"{found['mib']:.0f}", found["found"]])
    print(f"  {what}: {found['seconds']:.2f} s", file=sys.stderr, flush=True)


def main() -> None:
    """Command line."""
    found = parser(__doc__, rounds=0, database="mariadb")
    add = found.add_argument
    add("--runs", type=int, default=100_000, help="tasks of the history (100000)")
    add("--days", type=int, default=1, help="length of the history (1)")
    add("--hours", type=float, default=24.0, help="how much of it is looked at (24)")
    add(
        "--replay",
        type=int,
        default=1_000_000,
        help="tasks of the day without a database; 0 leaves it out (1000000)",
    )
    add("--look", help=argparse.SUPPRESS)
    add("--look-replay", type=int, help=argparse.SUPPRESS)
    options = found.parse_args()
    if options.look or options.look_replay:
        print(json.dumps(look(options.look, options.hours) if options.look else replay(options.look_replay)))
        return
    report = Report("Diagnoses over a long history", options, HEAD)
    run(options, report)
    report.finish()


if __name__ == "__main__":
    main()
