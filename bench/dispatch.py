"""Dispatch: how many due rows a second one scheduler moves, and two; and what a scan costs when there are millions.

    python bench/dispatch.py [--rows 50000]
    python bench/dispatch.py --report-transaction 20 [--rows 50000]
    python bench/dispatch.py --flat [--finished 5000000 --future 1000000 --due 200000] [--report-minutes 10]

Rate: real schedulers are up, then all rows become due in one transaction, in mixed priorities of three queues; the
queues have room for all of them, nobody takes anything out. (rows - those of the first instant) / (last - first
dispatched_at). --flat: scans for the next 1,000 in this process, over a queue in memory, in turn on a task center of
millions of rows and on one that holds nothing else; with --report-minutes also while another connection keeps a
transaction open, with what doctor says of it. --report-transaction: the same in small, for some seconds, as fast as it
goes: scans before, beside and after a report's transaction, and what each 100,000 dispatched tasks add. MariaDB or,
with --server, MySQL.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import redis

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import flatness, report_transaction
from bench.loading import put, shelve
from bench.report import Report, alternating, chosen_settings, parser
from bench.stack import Stack, server_ground
from bench.usage import Usage

ROOMY = {"scheduler_window": 100_000, "scheduler_queue_window": 1_000_000, "short_way": False}
WAITING = "SELECT 1 FROM task_center WHERE status = 0 LIMIT 1"
DISPATCHED = """
SELECT MIN(dispatched_at), MAX(dispatched_at),
       (SELECT COUNT(*) FROM task_center WHERE dispatched_at = (SELECT MIN(dispatched_at) FROM task_center)), COUNT(*)
FROM task_center WHERE status = 1
"""
PARTS = ("database", "Redis", "scheduler")
HEAD = ["schedulers", "rows/s", *(f"{part} µs a row" for part in PARTS)]


def measure(one: Stack, schedulers: int) -> dict[str, float]:
    """Let so many schedulers dispatch everything."""
    one.query("TRUNCATE TABLE task_center")
    with redis.Redis.from_url(one.env["TASKKIT_REDIS_URL"]) as client:
        client.flushall()
    started = [one.start("scheduler") for _ in range(schedulers)]
    one.wait_up(schedulers, 0)
    usage = Usage(one, [process.pid for process in started])
    put(one)
    usage.mark()
    one.wait(lambda: not one.query(WAITING), every=0.05)
    spent = usage.since()
    one.stop()
    first, last, at_first, count = one.query(DISPATCHED)[0]
    found = {part: seconds * 1e6 / count for part, seconds in spent.items()}
    return found | {"rate": (count - at_first) / max(1e-6, (last - first).total_seconds())}


def rates(options: argparse.Namespace, report: Report) -> None:
    """One scheduler and two, in turn."""
    with (
        server_ground(options.server) as there,
        there.installation(**chosen_settings(options, **ROOMY)) as one,
    ):
        report.saw(one.kit)
        shelve(one, options.rows)
        names = {1: "one", 2: "two"}
        for _, schedulers in alternating(list(names), options.rounds):
            report.keep(names[schedulers], **measure(one, schedulers))
    for name in names.values():
        report.rows.append(
            [name, report.spread(name, "rate"), *(report.middle(name, part, 1) for part in PARTS)]
        )


def main() -> None:
    """Command line."""
    found = parser(__doc__, database="mariadb")
    add = found.add_argument
    add("--rows", type=int, default=50_000, help="due rows a round (50000)")
    add("--flat", action="store_true", help="scans in a task center of millions of rows instead")
    add("--finished", type=int, default=5_000_000, help="finished rows there (5000000)")
    add("--future", type=int, default=1_000_000, help="rows that are due tomorrow (1000000)")
    add("--due", type=int, default=200_000, help="due rows (200000)")
    add("--scans", type=int, default=20, help="scans of each a round (20)")
    add("--report-minutes", type=int, default=0, help="minutes beside an open transaction (0: none)")
    add("--report-transaction", type=float, default=0, metavar="S", help="scans beside a report of S seconds")
    options = found.parse_args()
    if options.database != "mariadb":
        raise SystemExit("this needs a server: --database mariadb, or --server URL")
    if options.report_transaction:
        options.rounds = 0
        report = Report("Scans beside a report's open transaction", options, report_transaction.HEAD)
        report.notes.append(
            f"{options.rows:,} due rows in 3 queues and 10 priorities; each scan's 1,000 end at once"
        )
        report_transaction.run(options, report)
    elif options.flat:
        report = Report("A scan for the next 1,000 due rows", options, flatness.HEAD)
        shape = f"{options.finished:,} finished, {options.future:,} future and {options.due:,} due rows"
        report.notes.append(
            f"full: {shape} in 3 queues and 10 priorities; empty: 1,000 due rows like those taken"
        )
        flatness.run(options, report)
    else:
        report = Report("Dispatch of due rows by real schedulers", options, HEAD)
        report.notes.append(f"{options.rows:,} rows, due at one instant, 3 queues with 10 priorities each")
        rates(options, report)
    report.finish()


if __name__ == "__main__":
    main()
