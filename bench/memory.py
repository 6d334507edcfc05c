"""Memory of an idle worker: PSS of its parent, its nursery and its children, and in all.

    python bench/memory.py [--database sqlite|mariadb] [--processes 4]

PSS counts a page that n processes share as 1/n of a page for each (Linux, /proc/<pid>/smaps_rollup).
"""

from __future__ import annotations

import argparse
import re
import time
from pathlib import Path

import psutil
from stack import stack, versions


def pss_mib(pid: int) -> float:
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    found = re.search(r"^Pss:\s+(\d+) kB", text, re.MULTILINE)
    return int(found[1]) / 1024 if found else 0.0


def measure(database: str, processes: int) -> None:
    with stack(database) as one:
        one.start("scheduler")
        worker = one.start("worker", "--app", "bench_app:kit", "--processes", str(processes))
        one.wait_up(1, 1)
        for _ in range(processes):
            one.kit.result(one.kit.producer.enqueue("noop", {}), timeout=30)
        time.sleep(1)
        parent = psutil.Process(worker.pid)
        nursery = parent.children()[0]
        rows = [("parent", pss_mib(parent.pid)), ("nursery", pss_mib(nursery.pid))]
        rows += [(f"child {n}", pss_mib(child.pid)) for n, child in enumerate(nursery.children(), 1)]
        rows.append((f"in all, {len(rows) - 2} children", sum(size for _, size in rows)))
        print(versions(one))
        for title, size in rows:
            print(f"{title:24} {size:8.1f} MiB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", choices=["sqlite", "mariadb"], default="sqlite")
    parser.add_argument("--processes", type=int, default=4)
    options = parser.parse_args()
    measure(options.database, options.processes)


if __name__ == "__main__":
    main()
