"""Fills a task center with millions of rows by INSERT … SELECT from a table of numbers that doubled itself."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from bench.stack import Stack

CHUNK = 1 << 16
NAMES = ("mail", "report", "noop")
PRIORITIES = 10
QUEUES = ", ".join(f"'{name}'" for name in NAMES)
PAST = "NOW(6) - INTERVAL 1000 * ({first} + n) MICROSECOND"
FUTURE = "NOW(6) + INTERVAL 1 DAY + INTERVAL 1000 * ({first} + n) MICROSECOND"

# a finished row is filled in as dispatch, claim and end leave it, so that it is as long as those of use
FRESH = {
    "task_code": "'noop'",
    "queue": f"ELT(1 + n % {len(NAMES)}, {QUEUES})",
    "payload": "'{\"order\": 12345}'",
    "priority": f"(n DIV {len(NAMES)}) % {PRIORITIES}",
    "timeout": "30",
    "max_retry": "3",
    "trace_id": "LPAD(HEX(n), 32, '0')",
}
RAN = dict.fromkeys(("plan_next_run_at", "dispatched_at", "claimed_at", "last_run_at"), PAST)
ENDED = {
    "status": "3",
    "attempt": "1",
    "list_name": "'noop:5'",
    "worker_id": "'bench.example.org:12345:0a1b2c3d'",
    "last_result": "'success'",
    "spare": "NULL",
}
DUE = FRESH | {"plan_next_run_at": PAST}
KINDS = {
    "due": DUE,
    "next": DUE | {"priority": "IF(n < 50, 9, 0)"},
    "alone": DUE | {"priority": "IF(n < 50, 9, 0)", "queue": "'mail'"},
    "future": FRESH | {"plan_next_run_at": FUTURE},
    "finished": FRESH | RAN | ENDED,
}
"""What rows of each kind look like, priorities and queues mixed evenly but for two: ``next`` replaces what a scan for
1,000 takes (950 of the highest priority, 50 of the lowest), ``alone`` is the same in one queue."""


def load(one: Stack, kind: str, rows: int, table: str = "task_center") -> None:
    """Add so many rows of a kind, a chunk a transaction."""
    make_numbers(one)
    done = 0
    while done < rows:
        size = min(CHUNK, rows - done)
        one.query(statement(kind, done, size, table))
        done += size
        if done % (CHUNK * 16) == 0 or done == rows > CHUNK:
            print(f"  {done:,} of {rows:,} {kind} rows", file=sys.stderr, flush=True)


def statement(kind: str, first: int, size: int, table: str = "task_center") -> str:
    """The INSERT of ``size`` rows; ``first`` shifts their instants."""
    names, values = ", ".join(KINDS[kind]), ", ".join(KINDS[kind].values())
    values = values.replace("{first}", str(first)).replace("%", "%%")
    return f"INSERT INTO {table} ({names}) SELECT {values} FROM bench_numbers WHERE n < {size}"


def make_numbers(one: Stack) -> None:
    """The numbers from 0 to CHUNK - 1."""
    if not one.query("SHOW TABLES LIKE 'bench_numbers'"):
        for text in doubling(CHUNK):
            one.query(text)


def doubling(size: int) -> Iterator[str]:
    """Statements that make a table of ``size`` numbers, a power of two."""
    yield "CREATE TABLE bench_numbers (n INT NOT NULL PRIMARY KEY)"
    yield "INSERT INTO bench_numbers VALUES (0)"
    there = 1
    while there < size:
        yield f"INSERT INTO bench_numbers SELECT n + {there} FROM bench_numbers"
        there *= 2


def shelve(one: Stack, rows: int) -> None:
    """Due rows that wait in a table beside the task center until :func:`put` puts them in at one instant."""
    one.query("CREATE TABLE bench_shelf LIKE task_center")
    load(one, "due", rows, "bench_shelf")


def put(one: Stack) -> None:
    """Copy what is on the shelf into the task center, in one transaction."""
    names = ", ".join(KINDS["due"])
    one.query(f"INSERT INTO task_center ({names}) SELECT {names} FROM bench_shelf")
