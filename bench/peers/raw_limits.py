"""Raw limits of this machine's Redis and MariaDB, as context for task queues.

``python raw_limits.py [--quick] [--out FILE.md]`` starts private servers and
prints Markdown tables: disk flush, redis-benchmark, INSERT/UPDATE rates by
driver, and the time of the "next due tasks" SELECT by table size and index.
Needs requirements.txt and raw-requirements.txt.
"""

from __future__ import annotations

import argparse
import csv
import io
import os
import subprocess
import tempfile
import time
from pathlib import Path

import servers
from raw_selects import select_times
from raw_writes import commit_rates, fetch_rates, write_rates


def table(title: str, head: list[str], rows: list[list]) -> str:
    """A Markdown table."""
    lines = [f"### {title}", "", "| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += [
        "| " + " | ".join(f"{c:,.0f}" if isinstance(c, float) else str(c) for c in row) + " |" for row in rows
    ]
    return "\n".join(lines) + "\n"


def flush_times(home: Path) -> list[list]:
    """Latency of a 4 KiB write + fdatasync on the data folder's disk."""
    with tempfile.NamedTemporaryFile(dir=home) as file:
        times = []
        for _ in range(500):
            file.write(b"x" * 4096)
            start = time.perf_counter()
            file.flush()
            os.fdatasync(file.fileno())
            times.append((time.perf_counter() - start) * 1e6)
    times.sort()
    return [["4 KiB write + fdatasync", times[250], times[475], times[495]]]


def redis_rates(home: Path, count: int) -> list[list]:
    """redis-benchmark LPUSH/RPOP, persistence off and AOF everysec."""
    rows = []
    tool = servers.find_program("PEERBENCH_REDIS_BENCHMARK", "redis-benchmark")
    for aof in (False, True):
        server = servers.Redis(home, aof=aof)
        try:
            for pipeline in (1, 16):
                text = subprocess.run(
                    [
                        tool,
                        "-p",
                        str(server.port),
                        "-t",
                        "lpush,rpop",
                        "-c",
                        "50",
                        "-P",
                        str(pipeline),
                        "-n",
                        str(count * (4 if pipeline > 1 else 1)),
                        "--csv",
                        "-d",
                        "100",
                    ],
                    check=True,
                    capture_output=True,
                    text=True,
                ).stdout
                found = {r["test"]: r for r in csv.DictReader(io.StringIO(text))}
                rows.append(
                    [
                        "AOF everysec" if aof else "off",
                        pipeline,
                        float(found["LPUSH"]["rps"]),
                        float(found["RPOP"]["rps"]),
                        found["LPUSH"]["p99_latency_ms"] + " ms",
                    ]
                )
        finally:
            server.stop()
    return rows


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out")
    parser.add_argument("--only-select", action="store_true", help="only the SELECT times, up to 1M rows")
    options = parser.parse_args()
    home = Path(os.environ.get("PEERBENCH_HOME", tempfile.gettempdir() + "/peerbench"))
    home.mkdir(parents=True, exist_ok=True)
    parts = [] if options.only_select else disk_and_redis(home, options.quick)
    server = servers.MariaDB(home)
    try:
        if options.only_select:
            select_times(server.port, [10_000, 1_000_000])
            return
        parts += mariadb(server.port, options.quick)
    finally:
        server.stop()
    text = "\n".join(parts)
    print(text)
    if options.out:
        Path(options.out).write_text(text)


def disk_and_redis(home: Path, quick: bool) -> list[str]:
    """The tables of what lies below, and of Redis."""
    head = ["persistence", "-P", "LPUSH", "RPOP", "LPUSH p99"]
    title = "redis-benchmark -c 50, 100-byte values, requests/s"
    return [
        table("Disk flush, microseconds", ["what", "p50", "p95", "p99"], flush_times(home)),
        table(title, head, redis_rates(home, 100000 if quick else 400000)),
    ]


def mariadb(port: int, quick: bool) -> list[str]:
    """The tables of MariaDB: writes, commits, reads, and the SELECT of what is due."""
    seconds, rounds = (0.5, 1) if quick else (1.5, 3)
    sizes = [10_000, 100_000] if quick else [10_000, 1_000_000, 5_000_000]
    alternating = f"one connection, {rounds} alternating rounds: median (min..max)"
    writes = ["step", "what", "pymysql", "mysqlclient", "asyncmy"]
    selects = ["rows", "due", "pending for later", "index", "first", "median of 6", "found", "plan", "build"]
    commits = "MariaDB single-row INSERT commits/s by connections (mysqlclient threads)"
    reads = "MariaDB read of 1000 rows by id IN (...), rows/s"
    return [
        table(f"MariaDB writes, rows/s, {alternating}", writes, write_rates(port, seconds, rounds)),
        table(commits, ["connections", "commits/s"], commit_rates(port, seconds)),
        table(reads, ["driver", "rows/s"], fetch_rates(port, seconds)),
        table("MariaDB SELECT of the 1000 next due tasks, milliseconds", selects, select_times(port, sizes)),
    ]


if __name__ == "__main__":
    main()
