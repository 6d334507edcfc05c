"""``taskkit tasks dead`` and ``taskkit tasks retry --fingerprint`` as people and scripts use them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest
from msgspec.structs import replace

from taskkit.center import TaskCenter
from taskkit.clock import parse_instant
from taskkit.states import Move, Status
from tests import centers
from tests.commands import built, cli, done, refused

WORKER = "host:1:worker"
TRACE = 'Traceback (most recent call last):\n  File "/srv/shop/tasks.py", line 7, in send\n    x\n'


@pytest.fixture
def center(tmp_path: object) -> Iterator[TaskCenter]:
    """The task center of the embedded installation in the test's folder."""
    built()
    found = TaskCenter(f"sqlite:///{tmp_path}/.taskkit/taskkit.db")
    yield found
    found.close()


def gave_up(center: TaskCenter, error: str = "ValueError: order 1 is broken", **fields: object) -> int:
    (claimed,) = centers.start(center, WORKER, centers.new(**fields))
    end = centers.failed(claimed, error=error, traceback=TRACE + error)
    center.worker_desk(WORKER).finish([replace(end, move=Move.EXHAUST)])
    return claimed.id


def print_of(center: TaskCenter, task_id: int) -> str:
    (run,) = center.read.runs([task_id])
    assert run.fingerprint is not None
    return run.fingerprint


@contextmanager
def answering(center: TaskCenter, broken: set[int]) -> Iterator[None]:
    """Somebody runs what is pending, and fails the ``broken`` ones as before."""
    over = threading.Event()

    def work() -> None:
        while not over.wait(0.02):
            batch = centers.dispatch(center)
            claims = center.worker_desk(WORKER).claim(centers.messages(batch)) if batch.won else None
            for claimed in claims.won if claims else []:
                bad = centers.failed(
                    claimed, error="ValueError: order 9 is broken", traceback=TRACE, delay=3600.0
                )
                end = bad if claimed.id in broken else centers.succeeded(claimed)
                center.worker_desk(WORKER).finish([end])

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_dead_letters_by_cause_for_people_and_for_scripts(center: TaskCenter) -> None:
    ids = [gave_up(center, f"ValueError: order {n} is broken") for n in range(3)]
    other = gave_up(center, "KeyError: 'mail'", task_code="charge")
    shown = done("tasks", "dead").out
    assert shown.index("ValueError: order <n> is broken [tasks.py:send]") < shown.index("KeyError: 'mail'")
    assert print_of(center, ids[0]) in shown
    found = done("tasks", "dead", "--json").json
    assert list(found) == ["tasks", "occurrences"]
    most, least = found["tasks"]
    assert (most["count"], most["codes"], most["queues"]) == (3, ["mail"], ["q"])
    assert most["fingerprint"] == print_of(center, ids[0])
    assert most["sample_id"] == ids[-1]
    assert parse_instant(most["first_at"]) <= parse_instant(most["last_at"])
    assert least["sample_id"] == other
    assert [g["codes"] for g in done("tasks", "dead", "--newest", "--json").json["tasks"]] == [
        ["charge"], ["mail"],
    ]  # fmt: skip
    assert len(done("tasks", "dead", "--limit", 1, "--json").json["tasks"]) == 1
    assert [g["sample_id"] for g in done("tasks", "dead", "--code", "charge", "--json").json["tasks"]] == [
        other
    ]
    assert done("tasks", "dead", "--queue", "nobody", "--json").json["tasks"] == []


def test_the_page_tells_the_queues_and_the_commands_for_its_top_row(center: TaskCenter) -> None:
    for queue in ("mail", "mail", "slow mail"):
        task_id = gave_up(center, task_code="mail", queue=queue)
    gave_up(center, "KeyError: 'x'", task_code="charge", queue="charge")
    shown = done("tasks", "dead").out
    most, least = (line.split() for line in shown.splitlines()[2:4])
    assert " ".join(most[2:6]) == "mail mail, slow mail"
    assert least[2:4] == ["charge", "charge"]
    print_shown = print_of(center, task_id)
    assert f"taskkit tasks show {task_id}\n" in shown
    assert f"taskkit tasks retry --fingerprint {print_shown}\n" in shown
    chosen = done("tasks", "dead", "--queue", "slow mail", "--since", "1h").out
    assert f"retry --fingerprint {print_shown} --queue 'slow mail' --since 3600s\n" in chosen
    again = ("tasks", "retry", "--fingerprint", print_shown, "--queue", "slow mail", "--since", "3600s")
    assert [one["id"] for one in done(*again, "--dry-run", "--json").json] == [task_id]


def test_the_help_of_a_paced_retry_tells_ranges_and_defaults() -> None:
    said = " ".join(done("tasks", "retry", "--help").out.split())
    assert "above 0, at most 100 (default 50)" in said
    assert "at most 1000 (default 10)" in said
    assert "0<x<=100" in refused("tasks", "retry", "--fingerprint", "abc", "--stop-at", 0)


def test_dead_letters_by_age(center: TaskCenter) -> None:
    assert "no task is given up" in done("tasks", "dead").out
    task_id = gave_up(center)
    at = center.database.dialect.bind(center.now() - timedelta(hours=3))
    centers.sql(center, "UPDATE task_center SET updated_at = :at WHERE id = :id", at=at, id=task_id)
    assert done("tasks", "dead", "--since", "1h", "--json").json["tasks"] == []
    assert "no task gave up in the last 1h" in done("tasks", "dead", "--since", "1h").out
    assert len(done("tasks", "dead", "--since", "4h", "--json").json["tasks"]) == 1


def test_occurrences_that_were_given_up_are_the_second_part(center: TaskCenter) -> None:
    at = (center.now() - timedelta(minutes=1)).replace(second=0, microsecond=0)
    asked = centers.periodic(center.now(), plan_next_run_at=at, task_code="report")
    (claimed,) = centers.start(center, WORKER, asked)
    end = centers.failed(claimed, error="ValueError: report 7 is empty", traceback=TRACE)
    center.worker_desk(WORKER).finish([replace(end, move=Move.NEXT_OCCURRENCE, retry_count=0)])
    shown = done("tasks", "dead").out
    assert "no task is given up" in shown
    assert "occurrences of periodic tasks, given up in the last 1d" in shown
    (group,) = done("tasks", "dead", "--json").json["occurrences"]
    assert (group["codes"], group["sample_id"]) == (["report"], claimed.id)
    said = refused("tasks", "retry", "--fingerprint", print_of(center, claimed.id), code=1)
    assert "taskkit tasks run-now ID" in said


def test_at_80_columns_a_fingerprint_is_not_cut(center: TaskCenter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    task_id = gave_up(center, "ValueError: " + "a long story " * 20, task_code="a_code_with_a_long_name")
    assert print_of(center, task_id) in done("tasks", "dead").out


def test_a_naughty_error_is_shown_harmless(center: TaskCenter) -> None:
    gave_up(center, "ValueError: \x1b[31mred\x07 \u202e and <script>")
    shown = done("tasks", "dead").out
    assert "\x1b" not in shown
    assert "\u202e" not in shown


def test_the_story_of_a_task_tells_the_fingerprint_of_each_failed_run(center: TaskCenter) -> None:
    task_id = gave_up(center)
    assert f"\nfingerprint {print_of(center, task_id)}\n" in done("tasks", "show", task_id).out
    (run,) = done("tasks", "show", task_id, "--json").json["runs"]
    assert run["fingerprint"] == print_of(center, task_id)


def test_a_whole_fingerprint_is_retried_and_what_came_of_it_is_told(center: TaskCenter) -> None:
    ids = [gave_up(center) for _ in range(8)]
    other = gave_up(center, "KeyError: 'mail'")
    with answering(center, set()):
        said = done("tasks", "retry", "--fingerprint", print_of(center, ids[0]), "--rate", 100, "--json").json
    assert (said["meant"], said["retried"], said["succeeded"], said["left"]) == (8, 8, 8, 0)
    assert said["stopped"] is None
    assert {task.status for task in center.read.tasks(ids)} == {Status.SUCCESS}
    assert center.read.task(other).status is Status.GIVEN_UP
    actions = centers.sql(center, "SELECT task_id FROM task_action WHERE action = 'retry' ORDER BY id")
    assert [row.task_id for row in actions] == ids, "the oldest first, each recorded"


def test_it_stops_when_they_fail_again_and_judges_by_their_runs(center: TaskCenter) -> None:
    ids = [gave_up(center, max_retry=3) for _ in range(40)]
    with answering(center, set(ids)):
        answer = cli("tasks", "retry", "--fingerprint", print_of(center, ids[0]), "--rate", 50)
    assert answer.code == 1
    assert "retried " in answer.out
    assert "failed again" in answer.out
    assert "taskkit tasks show" in answer.out
    assert "taskkit: stopped: " in answer.err
    statuses = [task.status for task in center.read.tasks(ids)]
    assert statuses.count(Status.GIVEN_UP) >= 20
    assert Status.FAILED in statuses


def test_it_goes_on_when_few_fail(center: TaskCenter) -> None:
    ids = [gave_up(center, max_retry=3) for _ in range(20)]
    with answering(center, set(ids[::5])):
        said = done("tasks", "retry", "--fingerprint", print_of(center, ids[0]), "--rate", 100, "--json").json
    assert (said["succeeded"], said["failed_again"], said["left"]) == (16, 4, 0)


def test_the_share_that_stops_it_is_settable(center: TaskCenter) -> None:
    ids = [gave_up(center, max_retry=3) for _ in range(40)]
    arguments = ("tasks", "retry", "--fingerprint", print_of(center, ids[0]), "--rate", 20, "--stop-at", 1)
    with answering(center, {ids[0]}):
        answer = cli(*arguments, "--json")
    assert answer.code == 1
    assert answer.json["left"] > 0


def test_rule_22_a_taken_unique_key_is_refused_by_name_and_stops_nothing(center: TaskCenter) -> None:
    ids = [gave_up(center, unique_key=f"k{n}") for n in range(4)]
    (holder,) = center.intake.insert([centers.new(unique_key="k1", queue="elsewhere")])
    with answering(center, set()):
        answer = cli("tasks", "retry", "--fingerprint", print_of(center, ids[0]), "--rate", 100, "--json")
    assert answer.code == 1
    assert (answer.json["retried"], answer.json["succeeded"], answer.json["refused"]) == (3, 3, 1)
    (refusal,) = answer.json["refusals"]
    assert refusal["id"] == ids[1]
    assert f"its unique_key 'k1' is held by task {holder}" in refusal["error"]
    assert refusal["error"] in answer.err
    assert answer.json["left"] == 0


def test_a_dry_run_touches_nothing(center: TaskCenter) -> None:
    ids = [gave_up(center) for _ in range(25)]
    arguments = ("tasks", "retry", "--fingerprint", print_of(center, ids[0]), "--dry-run")
    shown = done(*arguments).out
    assert "and 5 more" in shown
    assert "25 tasks; nothing was done" in shown
    assert [one["id"] for one in done(*arguments, "--limit", 3, "--json").json] == ids[:3]
    assert {task.status for task in center.read.tasks(ids)} == {Status.GIVEN_UP}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--rate", "5"), "need --fingerprint"),
        (("--status", "given_up", "--wait", "5"), "need --fingerprint"),
        (("--fingerprint", "xyz"), "is no fingerprint"),
        (("--fingerprint", "abc", "17"), "--fingerprint means given up tasks"),
        (("--fingerprint", "abc", "--status", "failed"), "--fingerprint means given up tasks"),
        (("--fingerprint", "abc", "--rate", "0"), "0"),
        (("--status", "given_up", "--limit", "20000"), "at most 10000 at once"),
        ((), "--fingerprint"),
    ],
)
def test_what_does_not_go_together_is_refused(
    center: TaskCenter, arguments: tuple[str, ...], words: str
) -> None:
    assert words in refused("tasks", "retry", *arguments)


def test_a_fingerprint_that_nothing_has_is_an_error(center: TaskCenter) -> None:
    said = refused("tasks", "retry", "--fingerprint", "0123456789ab", code=1)
    assert "`taskkit tasks dead` shows those there are" in said
