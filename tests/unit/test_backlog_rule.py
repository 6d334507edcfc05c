"""Rule backlog: each verdict from frames made by hand, the documented incident with its figures, and quiet cases."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from taskkit.analytics import Diagnosis, diagnose
from taskkit.analytics.wording import verdicts
from tests.incidents import (
    LATELY,
    NOW,
    SINCE,
    arrived,
    finished,
    given,
    minutes,
    scheduler,
    times,
    waiting,
    worker,
)  # fmt: skip

BUSY: dict[str, list[dict[str, Any]]] = {
    "tasks": waiting(due=190_000, queued=10_000),
    "arrivals": [arrived(200_000)],
    "finishes": [finished(1000, at) for at in minutes()],
    "service_times": [times(300.0, 1000, at) for at in minutes()],
    "workers": [worker()],
    "schedulers": [scheduler()],
}


def judged(**frames: list[dict[str, Any]]) -> Diagnosis:
    return diagnose("backlog", given(**(BUSY | frames)))


def test_the_midnight_batch_has_the_figures_of_the_field() -> None:
    facts = [{"name": "scheduler_batch", "value": "200"}, {"name": "scheduler_pause_s", "value": "5"}]
    found = diagnose("backlog", given(**BUSY, facts=facts), workers=50)
    assert found.verdict == "burst"
    assert found.figure("waiting") == 200_000
    assert found.figure("capacity_per_s") == pytest.approx(16.667, abs=0.001)
    assert found.figure("drain_now") == pytest.approx(12_000, rel=0.001)
    assert found.figure("rate_n_per_s") == pytest.approx(166.67, abs=0.01)
    assert found.figure("likely_n_per_s") == pytest.approx(150)
    assert found.figure("drain_n") == pytest.approx(1333.3, abs=0.1)
    assert (found.details["binding"], found.details["next_bound"]) == ("workers", "scheduler")
    assert found.figure("next_bound_per_s") == 40
    text = found.text()
    for words in ("200,000 tasks wait", "16.7/s", "3.3 h", "167/s", "22 min", "the scheduler (40/s)"):
        assert words in text


def test_a_scheduler_that_can_do_a_thousand_a_scan_is_not_the_next_bound() -> None:
    facts = [{"name": "scheduler_batch", "value": "1000"}, {"name": "scheduler_pause_s", "value": "5"}]
    found = diagnose("backlog", given(**BUSY, facts=facts), workers=50)
    assert found.details["next_bound"] == "unknown"


ALONE = {"tasks": waiting(due=5000, queued=0)}
FULL = {"tasks": waiting(due=10_000, queued=10_000)}
CASES: dict[str, dict[str, list[dict[str, Any]]]] = {
    "no_data": {key: [] for key in BUSY},
    "healthy": {"tasks": waiting(queued=40, age_s=2.0)},
    "no_workers": {"workers": [worker(heartbeat_at=NOW - timedelta(minutes=5))]},
    "unserved_queue": {"workers": [worker(queues="mail,reports")]},
    "limit": {"tasks": [], "limit_lines": [{"queue": "push", "limit_key": "a", "state": 0, "tasks": 900, "oldest_at": SINCE}]},
    "scheduler": {**ALONE, "workers": [worker(busy=0)]},
    "stuck_workers": {"finishes": [finished(10, SINCE)], "workers": [worker(last_progress_at=NOW - timedelta(minutes=20))]},
    "stores_slow": {**FULL, "workers": [worker(busy=1)]},
    "retries": {"finishes": [finished(1000, at, failed=800, again=700) for at in minutes()]},
    "slow_handler": {"service_normal": [times(30.0, 5000)]},
    "hot_shard": {
        "shards": [{"queue": "push", "shards": 4, "lists": 4}],
        "lists": [{"queue": "push", "list_name": f"push:5/{n}", "queued": (n == 3 and 9000) or 20} for n in range(4)],
    },
    "hot_queue": {"workers": [worker(), worker(2, queues="mail", processes=20, busy=0)]},
    "too_few_workers": {"arrivals": [arrived(2000, at) for at in minutes()]},
    "burst": {},
}  # fmt: skip


@pytest.mark.parametrize("verdict", CASES)
def test_each_cause_has_its_verdict(verdict: str) -> None:
    found = judged(**CASES[verdict])
    assert found.verdict == verdict, found.text()
    assert len(found.evidence) >= 3
    assert found.healthy == (verdict in {"no_data", "healthy"})
    assert bool(found.actions) != found.healthy


def test_the_cases_are_all_the_documented_verdicts() -> None:
    assert set(CASES) == set(verdicts("backlog"))


def test_a_slow_handler_is_dated() -> None:
    slow_from = SINCE + timedelta(minutes=40)
    found = judged(service_times=[times(3000.0 if at >= slow_from else 300.0, 20, at) for at in minutes()])
    assert found.verdict == "slow_handler"
    assert found.details["slow_since"] == slow_from.isoformat()
    assert found.figure("slower") == pytest.approx(10)


def test_fifty_slots_at_three_a_second_are_a_slow_handler_and_not_too_few() -> None:
    found = judged(
        workers=[worker(processes=50, busy=50)],
        finishes=[finished(180, at) for at in minutes()],
        service_times=[times(16_667.0, 180, at) for at in minutes()],
        arrivals=[arrived(1000, at) for at in minutes()],
    )
    assert found.verdict == "slow_handler"
    assert found.figure("capacity_per_s") == pytest.approx(3.0, abs=0.01)


def test_busy_and_growing_within_its_means_is_healthy() -> None:
    found = judged(
        tasks=waiting(queued=300, age_s=20.0),
        arrivals=[arrived(990, at) for at in minutes()],
        workers=[worker(busy=5)],
    )
    assert found.verdict == "healthy"
    assert found.severity == "ok"


def test_one_row_makes_no_nonsense_ana_01() -> None:
    found = diagnose(
        "backlog", given(tasks=waiting(due=1, age_s=5.0), workers=[worker()], schedulers=[scheduler()])
    )
    assert found.figure("capacity_per_s") is None
    assert found.figure("drain_now") is None
    assert "n/a" in found.text()
    assert "nan" not in found.text().lower()


def test_what_is_held_up_lately_counts_and_not_the_hour_before() -> None:
    found = judged(arrivals=[arrived(200_000, SINCE), arrived(600, LATELY)])
    assert found.figure("arrival_per_s") == pytest.approx(600 / 360)


@pytest.mark.parametrize(("age_s", "verdict"), [(20.0, "healthy"), (40.0, "unserved_queue")])
def test_a_queue_without_a_worker_has_the_time_of_a_restart(age_s: float, verdict: str) -> None:
    found = judged(tasks=waiting(queued=40, age_s=age_s), workers=[worker(queues="mail")])
    assert found.verdict == verdict
