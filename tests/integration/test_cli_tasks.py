"""``taskkit tasks``: listing, showing, and what a person may do, one by one and all that match."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import pairwise

import pytest
from msgspec.structs import replace

from taskkit.center import TaskCenter
from taskkit.clock import parse_instant
from taskkit.states import Move, Status
from tests import centers
from tests.commands import built, cli, done, refused

RUN_NAMES = {"attempt", "outcome", "worker", "started_at", "finished_at", "runtime_ms", "error"}


@pytest.fixture
def center(tmp_path: object) -> Iterator[TaskCenter]:
    """The task center of the embedded installation in the test's folder."""
    built()
    found = TaskCenter(f"sqlite:///{tmp_path}/.taskkit/taskkit.db")
    yield found
    found.close()


def gave_up(center: TaskCenter, code: str, error: str, *, changed: datetime | None = None) -> int:
    """A task that gave up, now or at the instant ``changed``."""
    (claimed,) = centers.start(center, "host:1:worker", centers.new(code))
    end = centers.failed(claimed, error=error, traceback=f"Traceback (most recent call last):\n{error}")
    center.worker_desk("host:1:worker").finish([replace(end, move=Move.EXHAUST, runtime_ms=12)])
    if changed is not None:
        at = center.database.dialect.bind(changed)
        centers.sql(center, "UPDATE task_center SET updated_at = :at WHERE id = :id", at=at, id=claimed.id)
    return claimed.id


def ids(*arguments: object) -> list[int]:
    return [task["id"] for task in done("tasks", "list", "--json", *arguments).json]


def test_the_list_is_newest_first_and_goes_on_page_by_page(center: TaskCenter) -> None:
    center.intake.insert([centers.new(f"c{number}") for number in range(7)])
    assert ids() == [7, 6, 5, 4, 3, 2, 1]
    assert ids("--limit", 3) == [7, 6, 5]
    assert "there may be more: --before 5" in done("tasks", "list", "--limit", 3).out
    assert ids("--limit", 3, "--before", 5) == [4, 3, 2]


def test_the_filters_of_the_list(center: TaskCenter) -> None:
    for status in Status:
        centers.in_status(center, status, task_code=status.label, queue=f"q{int(status)}")
    center.intake.insert([centers.periodic(center.now(), task_code="nightly")])
    label = {task["id"]: task["status_name"] for task in done("tasks", "list", "--json").json}
    for status in Status:
        extra = 1 if status is Status.PENDING else 0
        assert len(ids("--status", status.label)) == len(ids("--status", int(status))) == 1 + extra
    assert {label[i] for i in ids("--status", "given-up", "--status", "FAILED")} == {"given_up", "failed"}
    assert [label[i] for i in ids("--code", "held")] == ["held"]
    assert [label[i] for i in ids("--queue", "q3")] == ["success"]
    assert ids("--periodic") == [9]
    assert ids("--not-periodic") == [8, 7, 6, 5, 4, 3, 2, 1]
    assert ids("--code", "nobody") == []
    assert "no task matches" in done("tasks", "list", "--code", "nobody").out


def test_since_means_the_last_change(center: TaskCenter) -> None:
    now = center.now()
    old = gave_up(center, "mail", "ValueError: old", changed=now - timedelta(hours=3))
    new = gave_up(center, "mail", "ValueError: new", changed=now - timedelta(minutes=59))
    assert ids("--status", "given_up") == [new, old]
    assert ids("--status", "given_up", "--since", "1h") == [new]
    assert ids("--status", "given_up", "--since", "4h") == [new, old]
    assert ids("--since", "1h", "--limit", 1) == [new]


def test_since_looks_behind_many_tasks_that_do_not_match(center: TaskCenter) -> None:
    first = gave_up(center, "mail", "ValueError: x")
    center.intake.insert([centers.new("other")] * 1200)
    centers.sql(
        center, "UPDATE task_center SET updated_at = '2020-01-01 00:00:00.000' WHERE id > :id", id=first
    )
    assert ids("--since", "1h") == [first]


def test_the_story_of_a_task_as_json(center: TaskCenter) -> None:
    task_id = gave_up(center, "mail", "ValueError: no address")
    story = done("tasks", "show", task_id, "--json").json
    assert list(story)[:2] == ["id", "task_code"]
    assert (story["status"], story["status_name"]) == (5, "given_up")
    assert {"attempt", "retry_count", "plan_next_run_at", "payload", "queue"} <= set(story)
    (run,) = story["runs"]
    assert set(run) >= RUN_NAMES
    assert (run["attempt"], run["outcome"], run["worker"]) == (1, "failed", "host:1:worker")
    assert (run["error"], run["runtime_ms"]) == ("ValueError: no address", 12)
    assert parse_instant(run["finished_at"]).tzinfo is not None
    assert "occurrences" not in story


def test_the_story_of_a_task_for_people(center: TaskCenter) -> None:
    task_id = gave_up(center, "mail", "ValueError: no address")
    shown = done("tasks", "show", task_id).out
    assert "given_up (5)" in shown
    assert "attempt 1 failed: ValueError: no address\nTraceback (most recent call last):\n" in shown


def test_only_the_latest_errors_are_told_unless_asked(center: TaskCenter) -> None:
    (task_id,) = center.intake.insert([centers.new("mail", max_retry=9)])
    for number in range(1, 6):
        centers.sql(center, "UPDATE task_center SET plan_next_run_at = {now} WHERE id = :id", id=task_id)
        batch = center.dispatch.claim([task_id])
        (claimed,) = center.worker_desk("w:1:1").claim(centers.messages(batch)).won
        center.worker_desk("w:1:1").finish([centers.failed(claimed, error=f"ValueError: number {number}")])
    shown = done("tasks", "show", task_id).out
    assert "attempt 3 failed: ValueError: number 3" in shown
    assert "attempt 2 failed:" not in shown
    assert "2 earlier errors: --all" in shown
    assert "attempt 1 failed: ValueError: number 1" in done("tasks", "show", task_id, "--all").out


def test_a_periodic_task_shows_its_latest_and_next_occurrences(center: TaskCenter) -> None:
    (task_id,) = center.intake.insert([centers.periodic(center.now(), "*/10 * * * * *", task_code="tick")])
    centers.sql(
        center,
        "INSERT INTO task_occurrence (task_id, planned_at, state, reason) "
        "VALUES (:id, '2026-01-01 00:00:00.000000', 'skipped', 'still running')",
        id=task_id,
    )
    story = done("tasks", "show", task_id, "--json").json
    assert [one["state"] for one in story["occurrences"]] == ["skipped"]
    instants = [parse_instant(text) for text in story["next"]]
    assert len(instants) == 5
    assert instants[0] == parse_instant(story["plan_next_run_at"])
    assert all(b - a == timedelta(seconds=10) for a, b in pairwise(instants))
    shown = done("tasks", "show", task_id).out
    assert "*/10 * * * * *  UTC" in shown
    assert "still running" in shown


def test_a_paused_periodic_task_has_no_next_occurrence(center: TaskCenter) -> None:
    (task_id,) = center.intake.insert([centers.periodic(center.now(), task_code="tick")])
    done("tasks", "pause", task_id)
    assert done("tasks", "show", task_id, "--json").json["next"] == []


def test_the_output_of_a_program_is_shown_as_it_was(center: TaskCenter) -> None:
    (claimed,) = centers.start(center, "w:1:1", centers.new("shell"))
    result = '{"exit_code":0,"output":"first\\nsecond\\n","cut":false,"runtime_ms":1}'
    center.worker_desk("w:1:1").finish([centers.succeeded(claimed, result=result)])
    assert "output of the program, attempt 1\nfirst\nsecond\n" in done("tasks", "show", claimed.id).out


MOVES = [
    ("pause", Status.PENDING, "held"),
    ("resume", Status.HELD, "pending"),
    ("retry", Status.GIVEN_UP, "pending"),
    ("retry", Status.CANCELLED, "pending"),
    ("run-now", Status.SUCCESS, "pending"),
    ("run-now", Status.FAILED, "pending"),
    ("give-up", Status.FAILED, "given_up"),
    ("cancel", Status.PENDING, "cancelled"),
    ("cancel", Status.RUNNING, "running"),
]


@pytest.mark.parametrize(("verb", "status", "becomes"), MOVES, ids=lambda v: getattr(v, "label", v))
def test_a_move(verb: str, status: Status, becomes: str, center: TaskCenter) -> None:
    task_id = centers.in_status(center, status)
    (answer,) = done("tasks", verb, task_id, "--json").json
    note = answer.pop("note")
    assert (note is not None) is (becomes == "running")
    assert answer == {
        "id": task_id,
        "ok": True,
        "status": int(Status[becomes.upper()]),
        "status_name": becomes,
        "error": None,
    }
    (actor,) = centers.sql(
        center, "SELECT actor FROM task_action WHERE task_id = :id ORDER BY id DESC LIMIT 1", id=task_id
    )
    assert "@" in actor[0]


def test_each_of_several_tasks_is_answered_for(center: TaskCenter) -> None:
    first, second = (centers.in_status(center, Status.GIVEN_UP) for _ in range(2))
    answer = cli("tasks", "retry", first, 99, second, first)
    assert answer.code == 1
    assert answer.out == f"task {first} starts again\ntask {second} starts again\n"
    assert answer.err == "taskkit: there is no task 99; `taskkit tasks list` shows those there are\n"


def test_an_illegal_move_names_the_task_and_its_status(center: TaskCenter) -> None:
    task_id = centers.in_status(center, Status.SUCCESS)
    line = refused("tasks", "pause", task_id, code=1)
    assert f"task {task_id} (mail): cannot pause a task that is success" in line


def test_all_that_gave_up_in_the_last_hour_are_retried(center: TaskCenter) -> None:
    now = center.now()
    old = gave_up(center, "mail", "x", changed=now - timedelta(hours=2))
    new = [gave_up(center, "mail", "x") for _ in range(3)]
    other = gave_up(center, "report", "x")
    chosen = ("--status", "given_up", "--since", "1h", "--code", "mail")
    assert "3 tasks; nothing was done" in done("tasks", "retry", *chosen, "--dry-run").out
    assert done("tasks", "list", "--status", "given_up", "--json").json != []
    assert [answer["id"] for answer in done("tasks", "retry", *chosen, "--json").json] == new
    assert ids("--status", "given_up") == [other, old]
    assert "no task matches; nothing was done" in done("tasks", "retry", *chosen).out


def test_a_selection_may_be_bounded(center: TaskCenter) -> None:
    for _ in range(3):
        gave_up(center, "mail", "x")
    answer = cli("tasks", "retry", "--status", "given_up", "--limit", 2)
    assert answer.out == "task 2 starts again\ntask 3 starts again\n"
    assert "only the newest 2 are taken" in answer.err


def test_without_ids_and_filters_nothing_is_meant(center: TaskCenter) -> None:
    assert "name tasks by their ids, or choose them" in refused("tasks", "cancel")
    assert "not both" in refused("tasks", "cancel", 1, "--status", "pending")
