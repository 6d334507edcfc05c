"""Rule duplicates: each cause, told apart; late is not twice; a double dispatch is an alarm of its own."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from taskkit.analytics import diagnose
from taskkit.analytics.wording import verdicts
from tests.incidents import NOW, SINCE, finished, given, run, worker

STORY = {"finishes": [finished(100)]}
SAID = "lost with its worker, loss 1: claimed at …, and never ended; its handler had said 90% (charged)"
AGO = NOW - timedelta(minutes=20)


def twins(apart_s: float, kind: str = "payload") -> list[dict[str, Any]]:
    last = SINCE + timedelta(seconds=apart_s)
    fixed = {
        "task_code": "push",
        "key_kind": kind,
        "business_key": "k",
        "tasks": 2,
        "first_id": 1,
        "last_id": 2,
    }
    return [{**fixed, "first_at": SINCE, "last_at": last}]


CASES: dict[str, dict[str, Any]] = {
    "no_data": {},
    "healthy": STORY,
    "not_all_read": {
        **STORY,
        "facts": [{"name": "repeated_at_most", "value": "1"}],
        "runs": [run(7, 1, "failed"), run(7, 2, "success")],
    },
    "dispatched_twice": {**STORY, "runs": [run(7, 1, "success"), run(7, 2, "success")]},
    "declared_dead_alive": {**STORY, "runs": [run(7, 1, "superseded"), run(7, 2, "success")]},
    "killed_after_effect": {
        **STORY,
        "runs": [run(7, 1, "lost", started_at=None, error=SAID), run(7, 2, "success")],
    },
    "may_be_twice": {**STORY, "runs": [run(7, 1, "lost", started_at=None), run(7, 2, "success")]},
    "enqueued_twice": {**STORY, "twins": twins(0.4), "runs": [run(1, 1, "success"), run(2, 1, "success")]},
    "retried_without_idempotency": {**STORY, "runs": [run(7, 1, "failed"), run(7, 2, "success")]},
    "late_not_twice": {
        **STORY,
        "runs": [run(7, 1, "lost", worker_id=None, started_at=None), run(7, 2, "success")],
    },
    "run_again_by_person": {
        **STORY,
        "runs": [run(7, 1, "success"), run(7, 2, "success")],
        "actions": [{"at": AGO, "actor": "ada", "action": "run_now", "task_id": 7}],
    },
}


@pytest.mark.parametrize("verdict", CASES)
def test_each_cause_has_its_verdict(verdict: str) -> None:
    found = diagnose("duplicates", given(**CASES[verdict]))
    assert found.verdict == verdict, found.text()
    assert len(found.evidence) >= 3


def test_the_cases_are_all_the_documented_verdicts() -> None:
    assert set(CASES) == set(verdicts("duplicates"))


def test_nothing_is_called_healthy_where_not_all_was_read() -> None:
    facts = [{"name": "repeated_at_most", "value": "2"}]
    runs = [run(7, 1, "failed"), run(7, 2, "success")]
    whole = diagnose("duplicates", given(**STORY, facts=facts, runs=runs))
    assert (whole.healthy, whole.figure("repeated_at_most")) == (True, None)
    runs += [run(8, 1, "failed"), run(8, 2, "success")]
    cut = diagnose("duplicates", given(**STORY, facts=facts, runs=runs))
    assert (cut.verdict, cut.healthy, cut.figure("repeated_at_most")) == ("not_all_read", False, 2)
    assert "newest 2 tasks" in cut.text()
    runs += [run(9, 1, "superseded"), run(9, 2, "success")]
    assert diagnose("duplicates", given(**STORY, facts=facts, runs=runs)).verdict == "declared_dead_alive"
    often = [run(5, n, "failed", occurrence_at=SINCE + timedelta(minutes=n // 2)) for n in range(4, 8)]
    assert diagnose("duplicates", given(**STORY, facts=facts, runs=often)).verdict == "not_all_read"


def test_late_is_not_twice() -> None:
    found = diagnose("duplicates", given(**CASES["late_not_twice"]))
    assert found.figure("tasks_twice") == 0
    assert found.figure("tasks_late") == 1
    assert found.severity == "note"


def test_a_double_dispatch_is_told_before_all_others() -> None:
    many = [r for n in range(10, 20) for r in (run(n, 1, "superseded"), run(n, 2, "success"))]
    found = diagnose("duplicates", given(**STORY, runs=[*many, run(7, 1, "success"), run(7, 2, "success")]))
    assert (found.verdict, found.severity) == ("dispatched_twice", "critical")
    assert found.found[0].subject.startswith("7 ")
    assert len(found.found) == 11


def test_attempts_do_not_multiply_tasks_ana_03() -> None:
    """Task 1 ran six times, two of them at once on two workers; task 2 once."""
    runs = [run(1, n, "lost" if n < 6 else "success") for n in range(1, 7)] + [run(2, 1, "success")]
    for row in runs[:6]:
        row["started_at"] = SINCE + timedelta(minutes=8 * row["attempt"])
        row["finished_at"] = row["started_at"] + timedelta(minutes=1)
    runs[1]["finished_at"] = runs[2]["started_at"] + timedelta(seconds=30)
    found = diagnose("duplicates", given(finishes=[finished(7)], runs=[*runs, runs[0]]))
    assert found.figure("runs_seen") == 7
    assert found.figure("tasks_repeated") == 1
    assert found.figure("overlapping") == 1
    assert len(found.found) == 1
    both = "1: h:2:a 2026-03-01 00:16:00+00:00 … 2026-03-01 00:24:30+00:00, "
    both += "h:3:a 2026-03-01 00:24:00+00:00 … 2026-03-01 00:25:00+00:00"
    assert found.figure("overlaps") == both
    assert both in found.text()
    assert {f.name: f.value for f in found.found[0].figures}["overlaps"] == both


def test_occurrences_of_one_periodic_task_are_different_wishes() -> None:
    runs = [run(5, n, "success", occurrence_at=SINCE + timedelta(minutes=n)) for n in (1, 2, 3)]
    assert diagnose("duplicates", given(**STORY, runs=runs)).verdict == "healthy"
    again = run(5, 4, "success", occurrence_at=SINCE + timedelta(minutes=3))
    assert diagnose("duplicates", given(**STORY, runs=[*runs, again])).verdict == "dispatched_twice"


def test_what_was_doubled_before_the_window_is_not_told_again() -> None:
    monday, noon = NOW - timedelta(days=3), NOW - timedelta(minutes=30)
    ended = {"dispatched_at": monday, "started_at": monday, "finished_at": monday + timedelta(seconds=10)}
    old = [run(7, n, how, occurrence_at=monday, **ended) for n, how in ((1, "superseded"), (2, "success"))]
    fresh = [run(7, n, how, occurrence_at=noon) for n, how in ((9, "failed"), (10, "success"))]
    found = diagnose("duplicates", given(**STORY, runs=[*old, *fresh]))
    assert found.verdict == "retried_without_idempotency", found.text()
    assert found.figure("overlapping") == 0
    fresh[0]["outcome"] = "superseded"
    assert diagnose("duplicates", given(**STORY, runs=[*old, *fresh])).verdict == "declared_dead_alive"


def test_a_task_is_judged_whole_when_its_last_run_ended_in_the_window() -> None:
    before = SINCE - timedelta(minutes=5)
    ended = {"dispatched_at": before, "started_at": before, "finished_at": before + timedelta(seconds=10)}
    runs = [run(7, 1, "superseded", **ended), run(7, 2, "success")]
    assert diagnose("duplicates", given(**STORY, runs=runs)).verdict == "declared_dead_alive"


def test_the_same_payload_written_long_apart_is_no_race() -> None:
    runs = [run(1, 1, "success"), run(2, 1, "success")]
    assert diagnose("duplicates", given(**STORY, twins=twins(3000), runs=runs)).verdict == "healthy"
    assert (
        diagnose("duplicates", given(**STORY, twins=twins(600, "unique_key"), runs=runs)).verdict
        == "enqueued_twice"
    )


def held(*begun: bool) -> str:
    """What a worker said it held, tasks 1, 2, … in their order."""
    return json.dumps([{"task_id": n, "attempt": 1, "begun": b} for n, b in enumerate(begun, 1)])


def lost_and_done(*ids: int) -> list[dict[str, Any]]:
    return [row for n in ids for row in (run(n, 1, "lost", started_at=None), run(n, 2, "success"))]


def test_what_stood_behind_runs_that_were_lost_too_had_not_begun() -> None:
    dead = worker(processes=1, tasks=held(True, False), lost_at=NOW)
    found = diagnose("duplicates", given(**STORY, workers=[dead], runs=lost_and_done(1, 2)))
    assert {one.subject.split()[0]: one.cause for one in found.found} == {
        "1": "may_be_twice",
        "2": "late_not_twice",
    }
    assert (found.verdict, found.confidence) == ("may_be_twice", "low")


def test_with_a_free_child_nobody_knows_whether_it_had_begun() -> None:
    dead = worker(processes=2, tasks=held(True, False), lost_at=NOW)
    found = diagnose("duplicates", given(**STORY, workers=[dead], runs=lost_and_done(1, 2)))
    assert {one.cause for one in found.found} == {"may_be_twice"}


def test_a_loss_of_which_nothing_is_known_is_not_claimed_to_be_a_double() -> None:
    found = diagnose("duplicates", given(**CASES["may_be_twice"]))
    assert found.figure("tasks_twice") == 0
    assert (found.severity, found.confidence) == ("warning", "low")


@pytest.mark.parametrize("told", ["", "{}", "[1, {}]", '[{"task_id": 1', "null", "9"])
def test_a_heartbeat_that_cannot_be_read_tells_nothing(told: str) -> None:
    dead = worker(processes=1, tasks=told, lost_at=NOW)
    found = diagnose("duplicates", given(**STORY, workers=[dead], runs=lost_and_done(1, 2)))
    assert {one.cause for one in found.found} == {"may_be_twice"}
    assert diagnose("zombies", given(workers=[dead])).verdict == "dead"
