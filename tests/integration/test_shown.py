"""What shows itself in Jupyter: kit, tasks, the live view, and the magic; in a terminal the same as lines."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell

import taskkit
from taskkit import Taskkit
from taskkit.analytics import Bundle, Diagnosis, diagnose
from taskkit.analytics.bundle import create
from taskkit.center import TaskCenter
from taskkit.errors import DatabaseUnavailable
from taskkit.views import Overview, follow, look
from tests.cases import broken
from tests.centers import new

pytest_plugins = ["tests.center_fixtures"]


@pytest.fixture
def kit(sqlite_center_url: str) -> Iterator[Taskkit]:
    made = Taskkit()
    made.replace_doors(TaskCenter(sqlite_center_url), None)
    yield made
    made.close()


@pytest.fixture
def shell() -> Iterator[InteractiveShell]:
    made = InteractiveShell()
    made.run_line_magic("load_ext", "taskkit")
    yield made
    made.history_manager.end_session()


def test_a_kit_shows_queues_workers_and_counts(kit: Taskkit) -> None:
    kit.center.intake.insert([new(queue="<mail>"), new(queue="<mail>")])
    shown = kit._repr_html_()
    assert "&lt;mail&gt;" in shown
    assert "2 pending" in shown
    assert "worker: none" in shown
    lines = str(look(kit.center)).splitlines()
    assert "2 pending" in lines[0]
    assert next(line for line in lines if line.startswith("<mail>")).split()[1:4] == ["2", "0", "0"]


def test_a_task_shows_what_it_is_and_escapes_it(kit: Taskkit) -> None:
    (task_id,) = kit.center.intake.insert([new(payload='{"a": "<b>"}')])
    shown = kit.center.read.task(task_id)._repr_html_()
    assert "&lt;b&gt;" in shown
    assert "pending" in shown
    assert "<b>" not in shown


def test_a_running_task_shows_its_progress(kit: Taskkit) -> None:
    from dataclasses import replace

    (task_id,) = kit.center.intake.insert([new()])
    task = replace(kit.center.read.task(task_id), progress=0.25, progress_text="page 1 of 4")
    view = Overview(datetime(2026, 3, 1, tzinfo=UTC), [], [], [], [task], {})
    assert '<progress max="100" value="25">' in view._repr_html_()
    assert "25 %" in str(view)
    assert "page 1 of 4" in str(view)


def test_a_live_view_looks_again_until_it_is_interrupted(
    kit: Taskkit, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("taskkit.views.live.time.sleep", sleep)
    kit.live(seconds=600, every=2)
    assert capsys.readouterr().out.count("no tasks yet") == 3
    assert pauses == [2, 2, 2]


def test_a_live_view_survives_a_store_that_is_away_and_ends_at_an_interrupt() -> None:
    seen: list[object] = []
    looks: list[Any] = [DatabaseUnavailable("away"), "there", KeyboardInterrupt()]

    def one() -> object:
        found = looks.pop(0)
        if isinstance(found, BaseException):
            raise found
        return found

    follow(one, 10, 0.001, seen.append)
    assert seen == ["away", "there"]


def test_the_magic_shows_the_kit_of_the_notebook(shell: InteractiveShell, kit: Taskkit) -> None:
    kit.center.intake.insert([new()])
    shell.user_ns["kit"] = kit
    assert "1 pending" in str(shell.run_line_magic("taskkit", "status"))
    found = shell.run_line_magic("taskkit", "diagnose lost --since 2h")
    assert isinstance(found, Diagnosis)
    assert (found.rule, (found.until - found.since).total_seconds()) == ("lost", 7200)


def test_the_magic_diagnoses_a_bundle(shell: InteractiveShell, tmp_path: Path) -> None:
    path = create(broken(), tmp_path / "a b.zip")
    found = shell.run_line_magic("taskkit", f"diagnose backlog --bundle '{path}' --workers 50")
    assert found == diagnose("backlog", Bundle(path), workers=50)
    assert "What it means" in shell.run_line_magic("taskkit", "runbook backlog").data


@pytest.mark.parametrize(
    "line",
    ["", "stats", "diagnose", "diagnose backlok --bundle x", "status 'a", "diagnose backlog --workers x"],
)
def test_what_is_wrong_is_one_line_and_no_traceback(
    shell: InteractiveShell, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert shell.run_line_magic("taskkit", line) is None
    told = capsys.readouterr().err
    assert told.startswith("taskkit: ")
    assert told.count("\n") == 1


def test_the_extension_is_no_public_name() -> None:
    assert "load_ipython_extension" not in taskkit.__all__


def test_in_a_kernel_the_live_view_stays_in_its_place(sqlite_center_url: str, tmp_path: Path) -> None:
    import nbformat

    from taskkit.notebook.running import executed

    code = [
        "url = ''",
        "from taskkit import Taskkit\nkit = Taskkit(database_url=url)\nkit.live(seconds=0.5, every=0.2)",
        "kit",
        "%load_ext taskkit\n%taskkit status",
    ]
    cells = [nbformat.v4.new_code_cell(one) for one in code]
    cells[0].metadata["tags"] = ["parameters"]
    path = tmp_path / "live.ipynb"
    path.write_text(nbformat.writes(nbformat.v4.new_notebook(cells=cells)), encoding="utf-8")
    done = executed(path, {"url": sqlite_center_url})
    for cell in done.cells[2:]:
        (output,) = cell.outputs
        assert "no tasks yet" in output.data["text/html"]
