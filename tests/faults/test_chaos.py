"""A short run of chaos: real processes and servers under a seeded adversary, judged by the independent checker."""

from __future__ import annotations

import os

import pytest

from bench.chaos import report
from bench.chaos.checker import judge
from bench.chaos.run import Options, run
from tests.servers import MariaDB, available

pytestmark = pytest.mark.faults
DATABASES = ["mariadb", "sqlite"] if os.environ.get("TASKKIT_TEST_LARGE") == "1" else ["mariadb"]
FAULTS = 20
SHORT = {"tasks": 600, "seconds": 30.0, "faults": FAULTS, "workers": 2, "processes": 3, "quiet": True}


@pytest.mark.timeout(400)
@pytest.mark.parametrize("database", DATABASES)
def test_nothing_is_lost_repeated_or_multiplied_by_chaos(database: str) -> None:
    """Guarantees 1 to 4 and 6, for half a minute; bench/chaos.py runs for longer."""
    if database == "mariadb":
        available(MariaDB).close()
    options = Options(database=database, seed=20, lost_after=3, dead_after=6, **SHORT)  # type: ignore[arg-type]
    evidence, _ = run(options)
    verdict = judge(evidence)
    assert report.hits(evidence) >= FAULTS // 2
    assert len(evidence.accepted) > 500
    assert verdict.ok, report.text(evidence, verdict)
