"""Enqueueing against what the server takes at all: the same rows into the same table, over one plain connection.

    python bench/enqueue.py [--seconds 1.0] [--bulk 500]

Bulk: enqueue_many of 500 tasks a call against multi-row INSERTs of the same rows, rendered beforehand and committed one
by one. Single: enqueue against single-row INSERT and COMMIT. A round measures all four in turn, the next one backwards,
each on the emptied table. The raw statements are those that taskkit itself sent, taken down once; they go out over
PyMySQL without SQLAlchemy.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pymysql
from sqlalchemy import event

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.report import Report, alternating, chosen_settings, parser
from bench.stack import Stack, server_ground
from taskkit import Taskkit
from tests.databases import connect

HEAD = ["what", "taskkit rows/s", "raw rows/s", "ratio"]
RENDERED = 40
PAYLOAD = {"order": 12345, "to": "ada@example.org"}
Act = Callable[[], int]


@contextmanager
def taken_down(kit: Taskkit) -> Iterator[list[tuple[str, Any]]]:
    """The INSERTs of tasks that the kit sends meanwhile, with their parameters."""
    found: list[tuple[str, Any]] = []

    def note(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        if statement.lstrip().startswith("INSERT INTO task_center"):
            found.append((statement, parameters))

    engine = kit.center.database.engine
    event.listen(engine, "before_cursor_execute", note)
    try:
        yield found
    finally:
        event.remove(engine, "before_cursor_execute", note)


def rendered(kit: Taskkit, link: pymysql.Connection[Any], act: Act, count: int) -> list[str]:
    """The statements that ``act`` sends in so many calls, whole."""
    with taken_down(kit) as found:
        for _ in range(count):
            act()
    with link.cursor() as cursor:
        return [cursor.mogrify(statement, parameters or None) for statement, parameters in found]


def raw(link: pymysql.Connection[Any], statements: list[str], rows: int) -> Act:
    """Sends the next of these statements and commits."""
    turn = 0
    cursor = link.cursor()

    def act() -> int:
        nonlocal turn
        cursor.execute(statements[turn % len(statements)])
        link.commit()
        turn += 1
        return rows

    return act


def many(kit: Taskkit, bulk: int) -> Act:
    """One call of enqueue_many."""
    return lambda: len(kit.producer.enqueue_many([{"code": "noop", "payload": PAYLOAD}] * bulk))


def single(kit: Taskkit) -> Act:
    """One call of enqueue."""
    return lambda: bool(kit.producer.enqueue("noop", PAYLOAD))


def rate(one: Stack, act: Act, seconds: float) -> float:
    """Rows a second, on an empty table."""
    one.query("TRUNCATE TABLE task_center")
    act()
    rows, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        rows += act()
    return rows / (time.perf_counter() - began)


def acts(kit: Taskkit, link: pymysql.Connection[Any], bulk: int) -> dict[str, Act]:
    """What is measured, by name."""
    found: dict[str, Act] = {}
    for name, act, count, rows in (
        ("bulk", many(kit, bulk), RENDERED, bulk),
        ("single", single(kit), RENDERED * 10, 1),
    ):
        found[name] = act
        found[f"raw {name}"] = raw(link, rendered(kit, link, act, count), rows)
    return found


def run(options: argparse.Namespace, report: Report) -> None:
    """All rounds."""
    settings = chosen_settings(options, short_way=False)
    with server_ground(options.server) as there, there.installation(**settings) as one:
        report.saw(one.kit)
        one.kit.producer.enqueue("noop", PAYLOAD)
        with contextlib.closing(connect(one.env["TASKKIT_DATABASE_URL"])) as link:
            link.autocommit(False)
            all_acts = acts(one.kit, link, options.bulk)
            for number, name in alternating(list(all_acts), options.rounds):
                report.keep(name, round=number, rate=rate(one, all_acts[name], options.seconds))
    for name, title in (("bulk", f"bulk, {options.bulk} a call"), ("single", "single, one commit a row")):
        ratios = zip(report.of(name, "rate"), report.of(f"raw {name}", "rate"), strict=True)
        for ours, plain in ratios:
            report.keep(f"ratio {name}", ratio=ours / plain)
        rates = [report.spread(row, "rate") for row in (name, f"raw {name}")]
        report.rows.append([title, *rates, report.spread(f"ratio {name}", "ratio", 2)])


def main() -> None:
    """Command line."""
    found = parser(__doc__, database="mariadb")
    found.add_argument("--seconds", type=float, default=1.0, help="length of each part of a round (1)")
    found.add_argument("--bulk", type=int, default=500, help="tasks of a call of enqueue_many (500)")
    options = found.parse_args()
    if options.database != "mariadb":
        raise SystemExit("the raw statements are PyMySQL's: --database mariadb, or --server URL")
    report = Report("Enqueueing against raw INSERTs of the same rows, one connection", options, HEAD)
    report.notes.append(
        "taskkit's side validates, encodes, wakes a scheduler through Redis and returns the ids"
    )
    run(options, report)
    report.finish()


if __name__ == "__main__":
    main()
