"""``taskkit tasks``: what is shown is true of workers, of built-in tasks and of schedules, and is not cut in words."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta

import pytest

from taskkit.beats import WorkerBeat
from taskkit.center import TaskCenter, TaskFilter
from taskkit.center.reading import ReadDesk
from taskkit.cli.tasks_touch import show_before
from taskkit.model import Run
from tests import centers
from tests.commands import built, done


@pytest.fixture
def center(tmp_path: object) -> Iterator[TaskCenter]:
    """The task center of the embedded installation in the test's folder."""
    built()
    found = TaskCenter(f"sqlite:///{tmp_path}/.taskkit/taskkit.db")
    yield found
    found.close()


def heard_of(center: TaskCenter, worker_id: str, age: float) -> None:
    """A worker whose last heartbeat was so many seconds ago."""
    center.nodes.enter_worker(WorkerBeat(worker_id, "host", 7, "q", 1, 1, 0, 0, 0, None, 0, 0.0, [], []))
    at = center.database.dialect.bind(center.now() - timedelta(seconds=age))
    centers.sql(center, "UPDATE task_worker SET heartbeat_at = :at", at=at)


@pytest.mark.parametrize(
    ("age", "shown", "cancelled"),
    [
        (1, "last heard of 1", "its worker was told to end it"),
        (40, "it looks dead", "will hardly end it"),
        (None, "gone: it has stopped", "nobody ends it"),
    ],
)
def test_the_worker_of_a_running_task_is_told_of(
    age: float | None, shown: str, cancelled: str, center: TaskCenter
) -> None:
    (claimed,) = centers.start(center, "host:7:a", centers.new())
    if age is not None:
        heard_of(center, "host:7:a", age)
    assert shown in done("tasks", "show", claimed.id).out
    assert "host:7:a, " in done("tasks", "show", claimed.id).out
    assert cancelled in done("tasks", "cancel", claimed.id).out


def test_a_story_is_read_again_until_task_and_runs_agree(
    center: TaskCenter, monkeypatch: pytest.MonkeyPatch
) -> None:
    (claimed,) = centers.start(center, "w:1:1", centers.new())
    read = ReadDesk.runs

    def ends_meanwhile(desk: ReadDesk, ids: list[int]) -> list[Run]:
        center.worker_desk("w:1:1").finish([centers.succeeded(claimed)])
        return read(desk, ids)

    monkeypatch.setattr(ReadDesk, "runs", ends_meanwhile)
    story = done("tasks", "show", claimed.id, "--json").json
    assert (story["status_name"], len(story["runs"])) == ("success", 1)


def test_lists_show_what_built_in_tasks_do_and_said(center: TaskCenter) -> None:
    (claimed,) = centers.start(
        center, "w:1:1", centers.new("shell", payload='{"command": "date -u | tee log"}')
    )
    result = '{"exit_code":0,"output":"first\\nsecond\\n","cut":false,"runtime_ms":1}'
    center.worker_desk("w:1:1").finish([centers.succeeded(claimed, result=result, last_result=result)])
    center.intake.insert([centers.new("http", payload='{"url": "http://127.0.0.1/ping"}')])
    shown = done("tasks", "list").out
    assert "shell date -u | tee log" in shown
    assert "http http://127.0.0.1/ping" in shown
    assert "first…" in shown
    assert "exit_code" not in shown


def test_cancelled_periodic_tasks_show_no_next_time(center: TaskCenter) -> None:
    center.intake.insert([centers.periodic(center.now(), "0 0 1 1 *", task_code="tick"), centers.new("mail")])
    assert "-01-01" in done("tasks", "list", "--periodic").out
    assert [one["id"] for one in done("tasks", "cancel", "--periodic", "--json").json] == [1]
    assert "-01-01" not in done("tasks", "list", "--periodic").out


def test_at_80_columns_nothing_that_is_copied_is_cut(
    center: TaskCenter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    zone = "America/Argentina/Buenos_Aires"
    center.intake.insert([centers.periodic(center.now(), "*/10 * * * *", zone, task_code="tick")])
    command = '{"command": "/usr/local/bin/backup.sh --target /srv/backups"}'
    center.intake.insert(
        [centers.periodic(center.now(), "0 2 * * 1-5", zone, task_code="shell", payload=command)]
    )
    assert done("tasks", "list", "--periodic").out.count(zone) == 2
    payload = json.dumps({f"name{number}": "v" * 20 for number in range(8)}, separators=(",", ":"))
    (claimed,) = centers.start(center, "host-with-a-name:12345:0a1b2c3d", centers.new(payload=payload))
    center.worker_desk("host-with-a-name:12345:0a1b2c3d").finish([centers.failed(claimed, error="x " * 90)])
    shown = done("tasks", "show", claimed.id).out
    assert "host-with-a-name:12345:0a1b2c3d" in shown
    assert shown.count("v" * 20 + '"') == 8


def test_a_person_sees_what_a_selection_means(center: TaskCenter, capsys: pytest.CaptureFixture[str]) -> None:
    center.intake.insert([centers.new(f"code{number}") for number in range(25)])
    show_before(center.read.find(TaskFilter()))
    told = capsys.readouterr().err
    assert ("code24" in told, "code4 " in told, "and 5 more" in told) == (True, False, True)
