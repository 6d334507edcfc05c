"""Chaos: real tasks on private servers while a seeded adversary breaks everything, and an independent verdict.

    python bench/chaos.py --tasks 20000 --minutes 5 --faults 150 --seed 1

Kills, freezes and stops workers, their children and nurseries, and schedulers; freezes, restarts, empties and cuts
Valkey; restarts, kills, freezes and cuts MariaDB, holds rows locked and provokes deadlocks. Then a checker that
knows the rules and not the code counts what must not have happened, from a ledger that the handlers append to and an
audit that triggers write. Prints one table and the seed that replays it; exit code 1 when a count is not zero. See
docs/chaos.md.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.chaos import report
from bench.chaos.checker import judge
from bench.chaos.evidence import Evidence
from bench.chaos.run import Options, run


def parser() -> argparse.ArgumentParser:
    """The command line."""
    found = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = found.add_argument
    add("--tasks", type=int, default=2000, help="one-off tasks to enqueue over the time of the load (2000)")
    add("--minutes", type=float, default=1.0, help="how long load and faults last (1)")
    add("--faults", type=int, help="how many faults at least (default: 30 a minute)")
    add("--seed", type=int, help="of load and faults; the same one replays them (default: a random one)")
    add("--database", choices=["mariadb", "sqlite"], default="mariadb", help="sqlite: no faults of a server")
    add("--schedulers", type=int, default=2, help="how many schedulers (2)")
    add("--workers", type=int, default=3, help="how many workers (3)")
    add("--processes", type=int, default=4, help="children of each worker (4)")
    add("--settle", type=float, default=600.0, help="longest wait for the end of all tasks, in seconds (600)")
    add("--json", type=Path, metavar="FILE", help="write the verdict there as JSON")
    add("--keep", action="store_true", help="keep the folder with logs, ledger and evidence")
    add("--judge", type=Path, metavar="FILE", help="no run: judge the evidence.json of one that was kept")
    return found


def main() -> int:
    options = parser().parse_args()
    if options.judge:
        evidence, faults = Evidence.load(options.judge), 0
    else:
        faults = round(30 * options.minutes) if options.faults is None else options.faults
        evidence, home = run(
            Options(
                tasks=options.tasks,
                seconds=options.minutes * 60,
                faults=faults,
                seed=random.randrange(1 << 31) if options.seed is None else options.seed,
                database=options.database,
                schedulers=options.schedulers,
                workers=options.workers,
                processes=options.processes,
                settle=options.settle,
                keep=options.keep,
            )
        )
        if options.keep:
            print(f"logs, ledger and evidence.json are in {home}", file=sys.stderr)
    verdict = judge(evidence)
    print(report.text(evidence, verdict, wanted_faults=faults))
    if options.json:
        options.json.write_text(json.dumps(report.document(evidence, verdict), indent=1, ensure_ascii=False))
    return 0 if verdict.ok and report.hits(evidence) >= faults else 1


if __name__ == "__main__":
    sys.exit(main())
