"""Raw limits of this machine's Redis and MariaDB, as context for task queues.

``python raw_limits.py [--quick] [--out FILE.md]`` starts private servers and
prints Markdown tables: disk flush, redis-benchmark, INSERT/UPDATE rates by
driver, and the time of the "next due tasks" SELECT by table size and index.
Needs requirements.txt and raw-requirements.txt.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import io
import os
import re
import statistics
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import servers
from raw_drivers import connect

TABLE = """CREATE TABLE {name} (
  id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, name VARCHAR(64) NOT NULL, payload VARCHAR(255) NOT NULL,
  status TINYINT NOT NULL DEFAULT 0, priority INT NOT NULL DEFAULT 0, plan_next_run_at DATETIME(3) NOT NULL,
  token CHAR(32) NULL, updated_at DATETIME(3) NULL {keys}) ENGINE=InnoDB"""
KEY_TIME = ", KEY k (status, plan_next_run_at)"
INSERT = "INSERT INTO t (name, payload, plan_next_run_at) VALUES "
ROW = "('noop', '{\"args\": [12345, 1764424512.123], \"kwargs\": {}}', NOW(3))"
SELECT = (
    "SELECT id, name, payload FROM big FORCE INDEX ({key}) WHERE status=0 AND plan_next_run_at<=NOW() "
    "ORDER BY priority, plan_next_run_at LIMIT 1000"
)
TOKEN = "0123456789abcdef0123456789abcdef"


def rate(step, seconds: float) -> float:
    """Call ``step`` (returns rows done) for some seconds; return rows per second."""
    start, done = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        done += step()
    return done / (time.perf_counter() - start)


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


class Bulk:
    """The write statements to compare, each on blocks of 1000 fresh rows of table t."""

    def __init__(self, db, size: int = 1000):
        self.db, self.size, self.at, self.temporary = db, size, 0, False

    def reset(self) -> None:
        """Fill t with pending rows to update."""
        self.db.execute("DROP TABLE IF EXISTS t")
        self.db.execute(TABLE.format(name="t", keys=KEY_TIME))
        self.db.execute(
            "INSERT INTO t (name, payload, plan_next_run_at) SELECT 'noop', REPEAT('x', 60), NOW(3) "
            "FROM seq_1_to_400000"
        )
        self.db.commit()
        self.at = 0

    def ensure(self, rows: int) -> None:
        """Have at least ``rows`` pending rows left, outside the timed part."""
        if self.at + rows > 400000:
            self.reset()

    def block(self) -> range:
        """The next ids; fails when all rows are used."""
        self.at += self.size
        if self.at > 400000:
            raise RuntimeError("out of pending rows")
        return range(self.at - self.size + 1, self.at + 1)

    def done(self, affected: int | None = None) -> int:
        """Commit a block; check that the statement changed every row."""
        if affected is not None and affected != self.size:
            raise RuntimeError(f"{affected} rows changed, expected {self.size}")
        self.db.commit()
        return self.size

    def insert_single(self) -> int:
        """One row, one commit."""
        self.db.execute(INSERT + ROW)
        self.db.commit()
        return 1

    def insert_multi(self) -> int:
        """1000 rows in one statement."""
        self.db.execute(INSERT + ",".join([ROW] * self.size))
        return self.done()

    def insert_executemany(self) -> int:
        """1000 rows through executemany."""
        now = datetime.datetime.now()
        return self.done(
            self.db.executemany(
                "INSERT INTO t (name, payload, plan_next_run_at) VALUES (%s, %s, %s)",
                [("noop", "x" * 60, now)] * self.size,
            )
        )

    def update_in(self) -> int:
        """Claim: one UPDATE ... WHERE id IN (1000 ids) AND status=0."""
        ids = ",".join(map(str, self.block()))
        return self.done(
            self.db.execute(f"UPDATE t SET status=1, token='{TOKEN}' WHERE id IN ({ids}) AND status=0")
        )

    def update_executemany(self) -> int:
        """Finish: executemany, one UPDATE a row, one commit a block."""
        return self.done(
            self.db.executemany(
                "UPDATE t SET status=%s, token=%s, updated_at=NOW(3) WHERE id=%s AND status=0",
                [(3, TOKEN, i) for i in self.block()],
            )
        )

    def update_join(self) -> int:
        """Finish: one UPDATE ... JOIN (SELECT ... UNION ALL ...)."""
        ids = iter(self.block())
        values = f"SELECT {next(ids)} AS id, 3 AS s" + "".join(f" UNION ALL SELECT {i}, 3" for i in ids)
        return self.done(
            self.db.execute(
                f"UPDATE t JOIN ({values}) v ON t.id=v.id SET t.status=v.s, t.updated_at=NOW(3) WHERE t.status=0"
            )
        )

    def update_temp(self) -> int:
        """Finish: multi-row INSERT into a MEMORY temporary table, then UPDATE ... JOIN."""
        if not self.temporary:
            self.db.execute("CREATE TEMPORARY TABLE v (id BIGINT PRIMARY KEY, s TINYINT) ENGINE=MEMORY")
            self.temporary = True
        self.db.execute("DELETE FROM v")
        self.db.execute("INSERT INTO v VALUES " + ",".join(f"({i},3)" for i in self.block()))
        return self.done(
            self.db.execute(
                "UPDATE v JOIN t ON t.id=v.id SET t.status=v.s, t.updated_at=NOW(3) WHERE t.status=0"
            )
        )

    def update_case(self) -> int:
        """Finish: one UPDATE with CASE id."""
        ids = list(self.block())
        cases = "".join(f" WHEN {i} THEN 3" for i in ids)
        return self.done(
            self.db.execute(
                f"UPDATE t SET status=CASE id{cases} END, updated_at=NOW(3) "
                f"WHERE id IN ({','.join(map(str, ids))}) AND status=0"
            )
        )

    def upsert(self) -> int:
        """Finish: INSERT ... ON DUPLICATE KEY UPDATE."""
        values = ",".join(f"({i},'','',NOW(),3)" for i in self.block())
        self.db.execute(
            f"INSERT INTO t (id, name, payload, plan_next_run_at, status) VALUES {values} "
            "ON DUPLICATE KEY UPDATE status=VALUES(status), updated_at=NOW(3)"
        )
        return self.done()


STEPS = [
    "insert_single",
    "insert_multi",
    "insert_executemany",
    "update_in",
    "update_executemany",
    "update_join",
    "update_temp",
    "update_case",
    "upsert",
]


def write_rates(port: int, seconds: float, rounds: int) -> list[list]:
    """Rows a second of every step by driver; the median of alternating rounds."""
    found: dict[tuple, list[float]] = {}
    for _ in range(rounds):
        for driver in ("pymysql", "mysqlclient", "asyncmy"):
            db = connect(driver, port)
            bulk = Bulk(db)
            bulk.reset()
            for step in STEPS:
                if not step.startswith("insert"):
                    bulk.ensure(200000 if step != "update_executemany" else 50000)
                found.setdefault((step, driver), []).append(rate(getattr(bulk, step), seconds))
            db.close()
    rows = []
    for step in STEPS:
        cells = [
            f"{statistics.median(v):,.0f} ({min(v):,.0f}..{max(v):,.0f})"
            for v in (found[step, d] for d in ("pymysql", "mysqlclient", "asyncmy"))
        ]
        rows.append([step, getattr(Bulk, step).__doc__, *cells])
    return rows


def commit_rates(port: int, seconds: float) -> list[list]:
    """Single-row commits a second with 1..16 connections (threads, mysqlclient): group commit."""

    def work(_: int) -> float:
        db = connect("mysqlclient", port)
        try:
            return rate(Bulk(db).insert_single, seconds)
        finally:
            db.close()

    rows = []
    for count in (1, 2, 4, 8, 16):
        with ThreadPoolExecutor(count) as pool:
            rows.append([count, sum(pool.map(work, range(count)))])
    return rows


def fetch_rates(port: int, seconds: float) -> list[list]:
    """Rows a second of reading 1000 full rows by primary key IN list, by driver."""
    rows = []
    ids = ",".join(map(str, range(1, 100001, 100)))
    for driver in ("pymysql", "mysqlclient", "asyncmy"):
        db = connect(driver, port)
        rows.append([driver, rate(partial(count_rows, db, f"SELECT * FROM t WHERE id IN ({ids})"), seconds)])
        db.close()
    return rows


def count_rows(db, sql: str) -> int:
    """Run a query, fetch all its rows, and count them."""
    return len(db.rows(sql))


def wait_purge(db) -> None:
    """Wait (20 s at most) until InnoDB has purged the old versions of changed rows."""
    for _ in range(40):
        text = db.rows("SHOW ENGINE INNODB STATUS")[0][2]
        if int(re.search(r"History list length (\d+)", text).group(1)) < 50:
            return
        time.sleep(0.5)


KEYS = {"k1": "(status, plan_next_run_at)", "k2": "(status, priority, plan_next_run_at)"}


def select_times(port: int, sizes: list[int]) -> list[list]:
    """Milliseconds of the due-tasks SELECT by table size, number of due rows and index.

    Of the rows, as many as are due are pending for tomorrow too; the rest are finished.
    """
    rows: list[list] = []
    db = connect("pymysql", port)
    for size in sizes:
        start = time.perf_counter()
        due = min(100000, size // 10)
        step = size // (2 * due)
        modulus = 2 * step
        fill_big(db, size, step)
        built = time.perf_counter() - start
        while due >= 1000:
            rows += select_rows(db, size, due, due, built)
            due //= 10
            modulus *= 10
            db.execute(f"UPDATE big SET status=3 WHERE status=0 AND id % {modulus} NOT IN (0, {step})")
            db.commit()
        if size <= 1_000_000:  # half of the table planned for tomorrow
            db.execute("UPDATE big SET status=0, plan_next_run_at=NOW() + INTERVAL 1 DAY WHERE id % 2=0")
            db.commit()
            later = db.rows("SELECT COUNT(*) FROM big WHERE status=0 AND plan_next_run_at>NOW()")[0][0]
            rows += select_rows(db, size, due, later, built)
    db.execute("DROP TABLE IF EXISTS big")
    db.close()
    return rows


def fill_big(db, size: int, step: int) -> None:
    """A table of so many rows with both indexes: every ``step``-th is due, or pending for tomorrow, in turn."""
    db.execute("DROP TABLE IF EXISTS big")
    db.execute(TABLE.format(name="big", keys=""))
    db.execute(
        "INSERT INTO big (name, payload, status, priority, plan_next_run_at, updated_at) "
        f"SELECT 'noop', REPEAT('x', 60), IF(seq % {step} = 0, 0, 3), CRC32(seq) % 5, "
        f"IF(seq % {2 * step} = 0, NOW() + INTERVAL 1 DAY, NOW() - INTERVAL seq SECOND), NOW() "
        f"FROM seq_1_to_{size}"
    )
    db.commit()
    db.execute(f"ALTER TABLE big ADD KEY k1 {KEYS['k1']}, ADD KEY k2 {KEYS['k2']}")


def select_rows(db, size: int, due: int, later: int, built: float) -> list[list]:
    """The SELECT seven times by each index: a row of the table for each."""
    db.rows("ANALYZE TABLE big")
    wait_purge(db)
    rows: list[list] = []
    for key, columns in KEYS.items():
        sql, times = SELECT.format(key=key), []
        for _ in range(7):
            begin = time.perf_counter()
            found = len(db.rows(sql))
            times.append((time.perf_counter() - begin) * 1000)
        plan = db.rows("EXPLAIN " + sql)[0]
        first, usual = f"{times[0]:.1f}", f"{statistics.median(times[1:]):.1f}"
        told = f"{plan[3]}, {plan[9]}"
        rows.append(
            [f"{size:,}", f"{due:,}", f"{later:,}", columns, first, usual, found, told, f"{built:.0f} s"]
        )
        print(rows[-1], flush=True)
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
