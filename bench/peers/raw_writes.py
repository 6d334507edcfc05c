"""What MariaDB takes: rows a second of every way to write them, by driver; commits by connections; reads by id."""

from __future__ import annotations

import datetime
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from raw_drivers import connect

TABLE = """CREATE TABLE {name} (
  id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, name VARCHAR(64) NOT NULL, payload VARCHAR(255) NOT NULL,
  status TINYINT NOT NULL DEFAULT 0, priority INT NOT NULL DEFAULT 0, plan_next_run_at DATETIME(3) NOT NULL,
  token CHAR(32) NULL, updated_at DATETIME(3) NULL {keys}) ENGINE=InnoDB"""
KEY_TIME = ", KEY k (status, plan_next_run_at)"
INSERT = "INSERT INTO t (name, payload, plan_next_run_at) VALUES "
ROW = "('noop', '{\"args\": [12345, 1764424512.123], \"kwargs\": {}}', NOW(3))"
TOKEN = "0123456789abcdef0123456789abcdef"


def rate(step, seconds: float) -> float:
    """Call ``step`` (returns rows done) for some seconds; return rows per second."""
    start, done = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        done += step()
    return done / (time.perf_counter() - start)


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
