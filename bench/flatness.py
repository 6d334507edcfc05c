"""What a scan for the next 1,000 due tasks costs in a task center of millions of rows, against an empty one."""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from bench.loading import load, make_numbers, statement
from bench.report import Report, chosen_settings
from bench.stack import Stack, server_ground
from taskkit.errors import StoreError
from taskkit.model import ListName, Message
from taskkit.queues import MemoryQueue
from taskkit.scheduler.dispatcher import Dispatcher
from taskkit.settings import Scheduler
from tests.databases import connect

BATCH = 1000
STEPS = {"due_lists": "look", "candidates": "choose", "claim": "claim"}
HEAD = ["task center", "scan ms", *(f"{step} ms" for step in STEPS.values()), "ratio of the scan"]
HISTORY = "SELECT COUNT FROM information_schema.INNODB_METRICS WHERE NAME = 'trx_rseg_history_len'"
END = f"UPDATE task_center SET status = 3, token = NULL, spare = NULL WHERE status = 1 LIMIT {BATCH}"


class Timed:
    """A desk whose verbs are timed, in milliseconds by verb."""

    def __init__(self, desk: Any) -> None:
        self.desk = desk
        self.spent: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self.desk, name)
        if not callable(verb):
            return verb

        def timed(*args: Any, **options: Any) -> Any:
            began = time.perf_counter()
            try:
                return verb(*args, **options)
            finally:
                self.spent[name] += (time.perf_counter() - began) * 1000  # type: ignore[assignment]

        return timed


class Sink(MemoryQueue):
    """Has room for everything, since it keeps nothing."""

    def push(self, _messages: Mapping[ListName, Sequence[Message]]) -> dict[ListName, StoreError]:
        """Forget them."""
        return {}


class Scans:
    """A dispatcher in this process."""

    def __init__(self, one: Stack) -> None:
        self.one = one
        center = one.kit.center
        self.desk = Timed(center.dispatch)
        center.dispatch = self.desk  # type: ignore[assignment]
        roomy = Scheduler(batch=BATCH, window=100_000, queue_window=1_000_000)
        self.dispatcher = Dispatcher(center, Sink(), roomy)

    def scan(self) -> dict[str, float]:
        """One scan with all its steps, which must dispatch a whole batch: milliseconds in all and by step."""
        self.dispatcher.look_anew()
        before = self.dispatcher.counters.dispatched
        self.desk.spent.clear()
        began = time.perf_counter()
        self.dispatcher.scan()
        spent = (time.perf_counter() - began) * 1000
        if self.dispatcher.counters.dispatched - before != BATCH:
            raise SystemExit(f"a scan dispatched {self.dispatcher.counters.dispatched - before} tasks")
        return {"scan": spent} | {step: self.desk.spent[verb] for verb, step in STEPS.items()}

    def refill(self, kind: str, number: int = 0) -> None:
        """As many due rows as a scan takes, of the priorities that it takes."""
        self.one.query(statement(kind, number * BATCH, BATCH))


def run(options: argparse.Namespace, report: Report) -> None:
    """Scans of the full and of the empty task center in turn; then, if asked for, beside a report."""
    settings = chosen_settings(options, short_way=False)
    with (
        server_ground(options.server) as there,
        there.installation(**settings) as large,
        there.installation(**settings) as small,
    ):
        report.saw(large.kit)
        fill(large, options)
        make_numbers(small)
        full, empty = Scans(large), Scans(small)
        for number in range(options.rounds):
            one_round(full, empty, options.scans, report)
            print(f"round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)
        rows(report, "full", "empty")
        if options.report_minutes:
            beside_a_report(full, options, report)


def fill(one: Stack, options: argparse.Namespace) -> None:
    """The rows that were asked for, and the statistics of a server that has known them for long."""
    for kind in ("finished", "future", "due"):
        load(one, kind, getattr(options, kind))
    one.query("ANALYZE TABLE task_center")


def one_round(full: Scans, empty: Scans, scans: int, report: Report) -> None:
    """So many scans of each, in turn; a round's figure is their median."""
    found: dict[str, list[dict[str, float]]] = {"full": [], "empty": []}
    for number in range(scans):
        empty.one.query("TRUNCATE TABLE task_center")
        empty.refill("alone")
        both = [("full", full), ("empty", empty)]
        for name, scanner in both if number % 2 == 0 else both[::-1]:
            found[name].append(scanner.scan())
        full.refill("next", number)
    for name, times in found.items():
        report.keep(name, **middle(times))
    report.keep("ratio", scan=report.of("full", "scan")[-1] / report.of("empty", "scan")[-1])


def middle(times: list[dict[str, float]]) -> dict[str, float]:
    """The median of each step."""
    return {step: statistics.median(one[step] for one in times) for step in times[0]}


def rows(report: Report, *names: str) -> None:
    """The lines of the table."""
    for name in names:
        steps = [report.spread(name, step, 1) for step in STEPS.values()]
        ratio = report.spread("ratio", "scan", 2) if name == "full" else "1"
        report.rows.append([name, report.spread(name, "scan", 1), *steps, ratio])


def beside_a_report(full: Scans, options: argparse.Namespace, report: Report) -> None:
    """A report's transaction stays open for minutes, while a scan a second dispatches and as many tasks end."""
    with contextlib.closing(connect(full.one.env["TASKKIT_DATABASE_URL"])) as link, link.cursor() as cursor:
        cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        cursor.execute("SELECT COUNT(*) FROM task_run")
        for minute in range(1, options.report_minutes + 1):
            found = middle(list(full_minute(full)))
            history = full.one.query(HISTORY)[0][0]
            report.keep("beside a report", history=history, **found)
            steps = [f"{found[step]:.1f}" for step in STEPS.values()]
            ratio = f"{found['scan'] / report.median('empty', 'scan'):.2f}"
            name = f"full, report open for {minute} min, history {history:,}"
            report.rows.append([name, f"{found['scan']:.1f}", *steps, ratio])
        report.notes += doctor(full.one)


def full_minute(full: Scans) -> list[dict[str, float]]:
    """A scan a second for a minute."""
    found, began = [], time.monotonic()
    for number in range(60):
        time.sleep(max(0.0, began + number - time.monotonic()))
        found.append(full.scan())
        full.one.query(END)
        full.refill("next", number)
    return found


def doctor(one: Stack) -> list[str]:
    """What ``taskkit doctor`` says of open transactions."""
    command = [sys.executable, "-m", "taskkit.cli", "doctor", "--json"]
    done = subprocess.run(command, check=False, env=one.env, cwd=one.home, capture_output=True, text=True)
    findings = json.loads(done.stdout)["findings"]
    told = [f"doctor: {f['what']}" for f in findings if f["level"] != "ok" and "transaction" in f["what"]]
    return told or ["doctor says nothing of the open transaction"]
