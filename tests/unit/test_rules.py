"""The other rules: a case for each verdict that tables can bring about, quiet ones included, in both languages."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from taskkit.analytics import RULES, Figure, diagnose
from taskkit.analytics.wording import shown, verdicts
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
)

HALVES = (timedelta(0), timedelta(seconds=30))
OLD = NOW - timedelta(minutes=20)
WORK = waiting(queued=500)
STILL = {"last_progress_at": OLD, "children_cpu_percent": 1.0}
RUNNING = [
    {
        "task_id": 1,
        "task_code": "push",
        "queue": "push",
        "attempt": 1,
        "worker_id": "h:1:a",
        "claimed_at": OLD,
        "timeout_s": 300,
    }
]
LOCKED = {
    "lock_waits": [
        {"waiting_thread": 5, "holding_thread": 9, "table_name": "shop.orders", "kind": "row", "waited_s": 40}
    ],
    "transactions": [
        {"thread": 9, "account": "report", "state": "RUNNING", "statement": "SELECT 1", "age_s": 900}
    ],
}
NO_HANDLER = "no handler is registered for the code 'x'"


def missed(state: str, **fields: Any) -> dict[str, Any]:
    row = {
        "task_id": 3,
        "task_code": "nightly",
        "queue": "q",
        "status": 0,
        "planned_at": OLD,
        "state": state,
    } | fields
    count = {"bucket_at": OLD, "task_code": "nightly", "state": state, "occurrences": 1, "failed": 0}
    return {"occurrences": [count], "troubled_occurrences": [row]}


def failing(
    error: str = "ValueError: no", n: int = 50, outcome: str = "failed", mark: str = "f", tasks: int = 50
) -> dict[str, Any]:
    return {
        "task_code": "push",
        "queue": "push",
        "outcome": outcome,
        "fingerprint": mark,
        "runs": n,
        "tasks": tasks,
        "error": error,
    }


CASES: list[tuple[str, str, dict[str, Any]]] = [
    ("zombies", "no_data", {}),
    ("zombies", "healthy", {"workers": [worker()], "tasks": WORK}),
    ("zombies", "dead", {"workers": [worker(heartbeat_at=OLD)], "tasks": WORK}),
    ("zombies", "starved", {"workers": [worker(busy=0, **STILL)], "tasks": WORK}),
    ("zombies", "stuck", {"workers": [worker(**STILL)], "tasks": WORK, "running": RUNNING}),
    ("zombies", "spinning", {"workers": [worker(busy=1, **STILL | {"children_cpu_percent": 99.0})], "tasks": WORK}),
    ("zombies", "busy", {"workers": [worker(**STILL)], "tasks": WORK, "running": [RUNNING[0] | {"timeout_s": 7200}]}),
    ("zombies", "sql_row_lock", {"workers": [worker(**STILL)], "tasks": WORK, **LOCKED}),
    ("zombies", "metadata_lock", {"workers": [worker(**STILL)], "tasks": WORK, "lock_waits": [LOCKED["lock_waits"][0] | {"kind": "metadata", "holding_thread": None}]}),
    ("lost", "no_data", {}),
    ("lost", "healthy", {"finishes": [finished(100)]}),
    ("lost", "wiped_redis", {"finishes": [finished(100, lost_messages=40)]}),
    ("lost", "single_messages", {"finishes": [finished(100, lost_messages=2)]}),
    ("lost", "dead_worker", {"finishes": [finished(100, lost_running=3)]}),
    ("lost", "handler_not_deployed", {"finishes": [finished(100)], "errors": [failing(NO_HANDLER)]}),
    ("lost", "refused_enqueue", {"finishes": [finished(100)], "arrivals": [arrived(100, at) for at in minutes()[:50]]}),
    ("success_rate", "no_data", {}),
    ("success_rate", "healthy", {"finishes": [finished(1000, failed=5)]}),
    ("success_rate", "too_few_runs", {"finishes": [finished(3, failed=2)]}),
    ("success_rate", "one_cause", {"finishes": [finished(1000, failed=50)], "errors": [failing()]}),
    ("success_rate", "one_code", {"finishes": [finished(1000, failed=50)], "errors": [failing(n=10, mark=str(m)) for m in range(5)]}),
    ("success_rate", "timeouts", {"finishes": [finished(1000, timed_out=50)]}),
    ("success_rate", "losses", {"finishes": [finished(1000, lost_running=50)]}),
    ("success_rate", "broad", {"finishes": [finished(100, failed=5, code=f"c{n}") for n in range(9)]}),
    ("missed", "no_data", {}),
    ("missed", "healthy", {"occurrences": missed("fired")["occurrences"]}),
    ("missed", "scheduler_down", missed("planned")),
    ("missed", "not_dispatched", {**missed("planned"), "schedulers": [scheduler()]}),
    ("missed", "held", {**missed("planned", status=7), "schedulers": [scheduler()]}),
    ("missed", "missed_by_policy", missed("missed", reason="no scheduler fired it in time")),
    ("missed", "overlap", missed("skipped", reason="still running")),
    ("missed", "fired_late", missed("fired", late_s=900.0)),
    ("missed", "failed", missed("fired", late_s=1.0, outcome="failed")),
    ("slow", "no_data", {}),
    ("slow", "no_normal", {"service_times": [times(30, 10)]}),
    ("slow", "healthy", {"service_times": [times(30, 100)], "service_normal": [times(29, 100)]}),
    ("slow", "one_code", {"service_times": [times(300, 100)], "service_normal": [times(30, 100)]}),
    ("slow", "all_codes", {name: [times(ms, 100, code=c) for c in "abc"] for name, ms in (("service_times", 300), ("service_normal", 30))}),
    ("retry_storm", "no_data", {}),
    ("retry_storm", "healthy", {"finishes": [finished(1000, failed=10, again=10)]}),
    ("retry_storm", "storm", {"finishes": [finished(1000, failed=900, again=800)]}),
    ("retry_storm", "building_up", {"finishes": [finished(1000, failed=300, again=300)]}),
    ("retry_storm", "first_failures", {"finishes": [finished(1000, failed=900)]}),
    ("retry_storm", "poison", {"finishes": [finished(12, failed=10, again=9)], "errors": [failing(n=10, tasks=1)]}),
    ("capacity", "no_data", {}),
    ("capacity", "no_times", {"arrivals": [arrived(10)]}),
    ("capacity", "too_small", {"arrivals": [arrived(2000, at) for at in minutes()]}),
    ("capacity", "short_at_peak", {"arrivals": [arrived(30_000)]}),
    ("capacity", "tight", {"arrivals": [arrived(600, at + half) for at in minutes() for half in HALVES]}),
    ("capacity", "enough", {"arrivals": [arrived(500, at) for at in minutes()]}),
    ("capacity", "plenty", {"arrivals": [arrived(10, at) for at in minutes()]}),
]  # fmt: skip


def frames_of(rule: str, verdict: str, frames: dict[str, Any]) -> dict[str, Any]:
    if rule == "capacity" and verdict != "no_times":
        return {"workers": [worker()], "service_times": [times(200, 100)], **frames}
    return frames


@pytest.mark.parametrize(("rule", "verdict", "frames"), CASES, ids=[f"{r}-{v}" for r, v, _ in CASES])
def test_each_cause_has_its_verdict_and_its_words(rule: str, verdict: str, frames: dict[str, Any]) -> None:
    found = diagnose(rule, given(**frames_of(rule, verdict, frames)))
    assert found.verdict == verdict, found.text()
    assert len(found.evidence) >= 3
    for language in ("en", "zh"):
        for words in (found.text(language), found.html(language), found.markdown(language)):
            assert "nan" not in words.lower().split()
            assert "{" not in words
    assert diagnose(rule, given(**frames_of(rule, verdict, frames))).as_dict() == found.as_dict()


def test_the_cases_are_all_the_documented_verdicts() -> None:
    for rule in set(RULES) - {"backlog", "duplicates"}:
        assert {v for r, v, _ in CASES if r == rule} == set(verdicts(rule)), rule


def test_the_holder_of_the_lock_is_named() -> None:
    found = diagnose("zombies", given(workers=[worker(**STILL)], tasks=WORK, **LOCKED))
    assert "Connection 9 of report" in found.text()
    assert 'mysql -e "KILL 9"' in found.text()


def test_a_lock_of_another_table_is_not_blamed_on_a_worker_whose_handlers_spin_or_that_runs_none() -> None:
    spins = worker(**STILL | {"children_cpu_percent": 99.0, "busy": 1})
    found = diagnose("zombies", given(workers=[spins, worker(2, busy=0, **STILL)], tasks=WORK, **LOCKED))
    assert [one.cause for one in found.found] == ["spinning", "starved"]


def test_a_lock_of_our_own_tables_holds_up_a_worker_that_runs_nothing() -> None:
    ours = {**LOCKED, "lock_waits": [LOCKED["lock_waits"][0] | {"table_name": "`shop`.`task_center`"}]}
    found = diagnose("zombies", given(workers=[worker(busy=0, **STILL)], tasks=WORK, **ours))
    assert (found.verdict, found.confidence) == ("sql_row_lock", "high")


def test_workers_that_live_without_progress_are_told_before_the_dead() -> None:
    dead = [worker(n, heartbeat_at=OLD, last_progress_at=OLD) for n in range(100, 160)]
    found = diagnose("zombies", given(tasks=WORK, workers=[*dead, worker(999, **STILL)], running=[]))
    assert len(found.found) == 50
    assert (found.found[0].subject, found.found[0].cause) == ("h:999:a", found.verdict)
    assert {one.cause for one in found.found[1:]} == {"dead"}


def test_a_rate_of_retries_is_of_the_time_in_which_they_ran() -> None:
    lately = diagnose("retry_storm", given(finishes=[finished(1000, failed=900, again=720)]))
    assert lately.figure("retries_per_s") == 2.0, "720 in the last six minutes"
    before = diagnose("retry_storm", given(finishes=[finished(1000, SINCE, failed=900, again=720)]))
    assert before.figure("retries_per_s") == 0.2, "none since then, so 720 in the hour"


def test_a_batch_at_the_beginning_of_the_window_is_no_flow_that_stopped() -> None:
    batch = diagnose("lost", given(finishes=[finished(100)], arrivals=[arrived(10_000)]))
    assert (batch.verdict, batch.figure("arrival_before")) == ("healthy", 0.0)
    flow = diagnose(
        "lost", given(finishes=[finished(100)], arrivals=[arrived(60, at) for at in minutes()[:52]])
    )
    assert (flow.verdict, flow.figure("arrival_before")) == ("refused_enqueue", 1.0)


@pytest.mark.parametrize(
    ("value", "told"),
    [(98.96, "98.9 %"), (99.0, "99 %"), (99.96, "99.9 %"), (99.9999999, "99.9 %"), (100.0, "100 %"), (100, "100 %"),
     (2 / 3 * 100, "66.6 %"), (9.999, "9.99 %"), (0.3, "0.3 %"), (0.04, "0.04 %"), (0.0, "0 %"), (None, "n/a"), (250.4, "250 %")],
)  # fmt: skip
def test_a_percentage_is_not_rounded_over_its_threshold(value: float | None, told: str) -> None:
    assert shown(Figure("success_runs", value, "%"), "en") == told


def test_an_alert_below_99_percent_does_not_say_99() -> None:
    found = diagnose("success_rate", given(finishes=[finished(10_000, failed=104)], errors=[failing(n=104)]))
    assert not found.healthy
    assert "98.9 %" in found.text()
    assert "99 %" not in found.text()


def test_patience_is_counted_in_heartbeats() -> None:
    facts = [{"name": "worker_heartbeat_s", "value": "1.0"}]
    still = worker(last_progress_at=NOW - timedelta(seconds=14))
    given_ = {"workers": [still], "tasks": WORK, "running": [RUNNING[0] | {"timeout_s": 1}]}
    assert diagnose("zombies", given(**given_)).verdict == "healthy"
    assert diagnose("zombies", given(**given_, facts=facts)).verdict == "stuck"


def test_what_a_worker_holds_behind_a_long_run_is_no_run_that_is_late() -> None:
    told = json.dumps(
        [{"task_id": 1, "attempt": 1, "begun": True}, {"task_id": 2, "attempt": 1, "begun": False}]
    )
    long = RUNNING[0] | {"task_id": 1, "timeout_s": 7200}
    behind = RUNNING[0] | {"task_id": 2, "timeout_s": 60}
    frames = {"workers": [worker(busy=2, tasks=told, **STILL)], "tasks": WORK, "running": [long, behind]}
    assert diagnose("zombies", given(**frames)).verdict == "busy"


def test_a_worker_whose_heartbeat_tells_of_a_run_that_sql_does_not_know_is_no_error() -> None:
    told = json.dumps([{"task_id": 1, "attempt": 1, "begun": True}])
    for running in ([], [RUNNING[0] | {"worker_id": "h:2:b"}]):
        frames = {"workers": [worker(busy=1, tasks=told, **STILL)], "tasks": WORK, "running": running}
        assert diagnose("zombies", given(**frames)).verdict == "stuck"


@pytest.mark.parametrize(("cpu", "verdict"), [(2.0, "stuck"), (42.0, "spinning"), (190.0, "spinning")])
def test_a_loop_that_shares_its_processor_is_still_a_loop(cpu: float, verdict: str) -> None:
    held = worker(processes=2, busy=3, **STILL | {"children_cpu_percent": cpu})
    found = diagnose("zombies", given(workers=[held], tasks=WORK, running=RUNNING))
    assert found.verdict == verdict
    assert found.confidence == ("high" if cpu > 160 else "medium")


def test_a_heartbeat_written_since_the_look_is_not_of_the_future() -> None:
    held = worker(**STILL | {"heartbeat_at": NOW + timedelta(seconds=1)})
    assert (
        diagnose("zombies", given(workers=[held], tasks=WORK, running=RUNNING)).figure("heartbeat_age") == 0
    )


def test_a_missing_grant_is_said_and_not_guessed_over() -> None:
    facts = [{"name": "missing_grants", "value": "PROCESS ON *.*"}]
    found = diagnose("zombies", given(workers=[worker(**STILL)], tasks=WORK, facts=facts))
    assert found.confidence == "low"
    assert "PROCESS ON *.*" in found.text()


def test_capacity_has_the_figures_of_the_field() -> None:
    arrivals = [arrived(500, at) for at in minutes()]
    found = diagnose(
        "capacity", given(workers=[worker()], service_times=[times(200, 100, LATELY)], arrivals=arrivals)
    )
    assert found.figure("capacity_per_s") == 25
    assert found.figure("per_day") == 2_160_000
    assert (found.since, found.until) == (SINCE, NOW)
