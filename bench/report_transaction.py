"""What a scan costs while somebody's report keeps a transaction open: before, while rows are churned beside it, and after."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Iterator
from typing import Any

from bench.flatness import END, HISTORY, Scans, doctor, middle
from bench.loading import load, make_numbers
from bench.report import Report, chosen_settings
from bench.stack import Stack, server_ground
from tests.databases import connect

HEAD = ["scans", "tasks dispatched since", "history", "scan ms", "look ms", "choose ms", "claim ms", "ratio"]
LOOKS = 15
"""So many scans make one line; their median is shown."""
PARTS = 4
"""In so many parts the time beside the report is told."""
SPOKEN_OF_S = 60.0
"""From then on doctor speaks of it."""
PURGED, PURGE_S = 20, 60.0
"""So little left to purge is as good as nothing; so long it is waited for."""


class Churn:
    """A task center of due rows, of which each scan takes a batch that ends at once and is replaced by another."""

    def __init__(self, one: Stack, rows: int) -> None:
        self.one, self.done = one, 0
        make_numbers(one)
        load(one, "due", rows)
        one.query("ANALYZE TABLE task_center")
        self.scans = Scans(one)

    def step(self) -> dict[str, float]:
        """One scan of a full batch; milliseconds by step."""
        found = self.scans.scan()
        self.one.query(END)
        self.scans.refill("next", self.done)
        self.done += 1
        return found

    def look(self, report: Report, name: str, since: int) -> None:
        """A line of the table: some scans, and how many tasks were dispatched since the report began."""
        found = middle([self.step() for _ in range(LOOKS)])
        report.keep(name, **found)
        first = report.of("before", "scan")[0]
        times = [f"{found[step]:.1f}" for step in ("scan", "look", "choose", "claim")]
        told = f"{since * 1000:,}" if since else "-"
        report.rows.append([name, told, f"{history(self.one):,}", *times, f"{found['scan'] / first:.1f}"])


def run(options: argparse.Namespace, report: Report) -> None:
    """Before, beside a report for so many seconds, and after it when InnoDB has purged."""
    with (
        server_ground(options.server) as there,
        there.installation(**chosen_settings(options, short_way=False)) as one,
    ):
        report.saw(one.kit)
        churn = Churn(one, options.rows)
        churn.look(report, "before", 0)
        with open_report(one):
            began = churn.done
            for part in range(1, PARTS + 1):
                deadline = time.monotonic() + options.report_transaction / PARTS
                while time.monotonic() < deadline:
                    churn.step()
                name = f"report open for {part * options.report_transaction / PARTS:.0f} s"
                churn.look(report, name, churn.done - began)
                print(name, file=sys.stderr, flush=True)
            if options.report_transaction >= SPOKEN_OF_S:
                report.notes += doctor(one)
        began_purge = time.monotonic()
        left = wait_purged(one)
        report.notes.append(
            f"purged to a history of {left:,} in {time.monotonic() - began_purge:.0f} s after its end"
        )
        churn.look(report, "after", 0)
        report.notes.append(growth(report))


@contextlib.contextmanager
def open_report(one: Stack) -> Iterator[None]:
    """A REPEATABLE READ transaction that has read something and stays open."""
    with contextlib.closing(connect(one.env["TASKKIT_DATABASE_URL"])) as link, link.cursor() as cursor:
        cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        cursor.execute("SELECT COUNT(*) FROM task_run")
        yield


def wait_purged(one: Stack) -> int:
    """Wait until little is left to be purged, for so long at most."""
    deadline = time.monotonic() + PURGE_S
    while (left := history(one)) > PURGED and time.monotonic() < deadline:
        time.sleep(0.2)
    return left


def history(one: Stack) -> int:
    """How many changes wait to be purged."""
    return int(one.query(HISTORY)[0][0])


def growth(report: Report) -> str:
    """The model: what 100,000 dispatched tasks add to the part of a scan that reads the index."""
    last: Any = report.rows[-2]
    tasks = int(str(last[1]).replace(",", ""))
    more = reading(report, str(last[0])) - reading(report, "before")
    told = (
        f"each 100,000 tasks dispatched beside the report add {more / tasks * 100_000:.1f} ms to every scan"
    )
    return f"{told} (look and choose)"


def reading(report: Report, name: str) -> float:
    """Milliseconds of a scan's looking and choosing."""
    return report.of(name, "look")[0] + report.of(name, "choose")[0]
