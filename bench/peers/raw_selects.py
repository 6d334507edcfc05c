"""The SELECT of the 1000 next due tasks: milliseconds by table size, number of due rows and index."""

from __future__ import annotations

import re
import statistics
import time

from raw_drivers import connect
from raw_writes import TABLE

SELECT = (
    "SELECT id, name, payload FROM big FORCE INDEX ({key}) WHERE status=0 AND plan_next_run_at<=NOW() "
    "ORDER BY priority, plan_next_run_at LIMIT 1000"
)


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
