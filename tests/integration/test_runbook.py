"""``taskkit runbook``: pages, the run of a notebook to one file, and everything that may end it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner

from taskkit.analytics import RULES, Bundle, diagnose
from taskkit.analytics.bundle import create
from taskkit.cli.root import cli
from taskkit.errors import InputError, NotebookFailed
from taskkit.notebook import running
from taskkit.notebook.case import open_case, window_of
from tests.cases import broken
from tests.waiting import wait_until

NOW = datetime(2026, 3, 1, 1, tzinfo=UTC)
PARAMETERS = {"bundle": "", "since": "1h", "until": "", "zone": ""}


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return create(broken(), tmp_path_factory.mktemp("bundle") / "it's.zip", schema="x")


def command(*words: str, cwd: Path, **environment: str) -> subprocess.Popen[str]:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment}
    env.pop("DISPLAY", None)
    return subprocess.Popen(
        [sys.executable, "-m", "taskkit.cli", "runbook", *words],
        cwd=cwd, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def notebook(folder: Path, code: str) -> Path:
    """A notebook with one cell of this code after its parameters."""
    import nbformat

    cells = [
        nbformat.v4.new_code_cell("since = '1h'", metadata={"tags": ["parameters"]}),
        nbformat.v4.new_code_cell(code),
    ]
    path = folder / "made.ipynb"
    path.write_text(nbformat.writes(nbformat.v4.new_notebook(cells=cells)), encoding="utf-8")
    return path


def kernels() -> list[int]:
    """The kernels that this process has started, also through a child; and its own dead that it has not waited for."""
    return [one.pid for one in psutil.Process().children(recursive=True) if _is_kernel(one)]


def _is_kernel(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        if process.status() == psutil.STATUS_ZOMBIE:
            return process.ppid() == os.getpid()
        return "ipykernel_launcher" in " ".join(process.cmdline())
    return False


def test_ana_06_a_notebook_runs_without_a_person_to_one_page(bundle: Path, tmp_path: Path) -> None:
    process = command(
        "run", "missed", "--bundle", str(bundle), "--out", "m.html", "--json", cwd=tmp_path, HOME="/nowhere"
    )
    told, errors = process.communicate(timeout=100)
    assert (process.returncode, errors) == (0, "")
    page = Path(tmp_path / json.loads(told)["file"]).read_text(encoding="utf-8")
    verdict = diagnose("missed", Bundle(bundle)).verdict
    assert f'data-rule="missed" data-verdict="{verdict}"' in page
    assert "<svg" in page
    assert not re.search(r"""(src|href)="(?!#)|url\((?!#)|@import|<script""", page)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.html"]


def test_ana_06_a_database_that_cannot_be_reached_is_one_line_without_its_password(tmp_path: Path) -> None:
    url = "mysql://shop:s3cret@127.0.0.1:1/shop"
    process = command("run", "backlog", cwd=tmp_path, TASKKIT_DATABASE_URL=url)
    told, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert told == ""
    assert errors.count("\n") == 1
    assert "s3cret" not in errors
    assert not list(tmp_path.iterdir())


def test_ana_06_a_place_that_cannot_be_written_is_said_before_anything_runs(
    bundle: Path, tmp_path: Path
) -> None:
    out = tmp_path / "nowhere" / "x.html"
    with pytest.raises(InputError, match="cannot write"):
        running.run("backlog", out, {"bundle": str(bundle)})


def test_ana_06_a_kernel_that_is_killed_ends_the_run(tmp_path: Path) -> None:
    path = notebook(tmp_path, "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)")
    began = time.monotonic()
    with pytest.raises(NotebookFailed, match="kernel of the notebook made died in code cell 2 of 2"):
        running.executed(path, {})
    assert time.monotonic() - began < 60
    assert not kernels()


def test_ana_06_a_notebook_ends_with_its_time(tmp_path: Path) -> None:
    path = notebook(tmp_path, "import time\ntime.sleep(600)")
    with pytest.raises(NotebookFailed, match="had not ended after 6 s"):
        running.executed(path, {}, limit_s=6)
    assert not kernels()


def test_a_cell_that_fails_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotebookFailed, match=r"stopped in code cell 2 of 2: ValueError: no"):
        running.executed(notebook(tmp_path, "raise ValueError('no')"), {})


def test_ana_06_after_many_runs_no_kernel_and_no_file_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    path = notebook(tmp_path, "since")
    before = len(psutil.Process().open_files()) + psutil.Process().num_fds()
    for n in range(20):
        running.executed(path, {"since": f"{n + 1}h"})
    assert not kernels()
    assert [one.name for one in tmp_path.iterdir()] == ["made.ipynb"]
    assert len(psutil.Process().open_files()) + psutil.Process().num_fds() <= before + 8


def test_a_run_that_is_stopped_takes_its_kernel_with_it(bundle: Path, tmp_path: Path) -> None:
    process = command("run", "today", "--bundle", str(bundle), "--out", "t.html", cwd=tmp_path)
    wait_until(kernels, 60)
    (kernel,) = kernels()
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert process.returncode == 130
    wait_until(lambda: not psutil.pid_exists(kernel), 30)
    assert not list(tmp_path.iterdir())


def test_ana_06_parameters_of_all_kinds_arrive() -> None:
    import nbformat

    cells = [
        nbformat.v4.new_code_cell("bundle = ''\nsince = '1h'\nuntil = ''", metadata={"tags": ["parameters"]})
    ]
    made = nbformat.v4.new_notebook(cells=cells)
    running.inject(made, {"bundle": Path('/a/it\'s "b".zip'), "since": NOW, "until": None})
    names: dict[str, object] = {}
    exec(made.cells[1].source, names)  # noqa: S102 - as a kernel does
    assert names["bundle"] == '/a/it\'s "b".zip'
    assert names["since"] == "2026-03-01T01:00:00.000000Z"
    assert "until" not in names
    with pytest.raises(InputError, match="no 'sinse'; it has bundle, since, until"):
        running.inject(made, {"sinse": "1h"})
    with pytest.raises(InputError, match="has no time zone"):
        running.inject(made, {"since": NOW.replace(tzinfo=None)})


def test_ana_06_a_window_begins_at_a_text_an_instant_or_by_default() -> None:
    for since in ("30m", "1800", "2026-03-01T08:30:00+08:00", datetime(2026, 3, 1, 0, 30, tzinfo=UTC)):
        assert window_of(since, None, NOW, "UTC").length_s == 1800
    assert window_of(None, "", NOW, "UTC").length_s == 3600
    assert window_of("", NOW.isoformat(), NOW, "Asia/Shanghai").until == NOW
    for wrong in ("soon", "2026-03-01T08:30:00"):
        with pytest.raises(InputError, match=r"since: .* is neither an age"):
            window_of(wrong, None, NOW, "UTC")


def test_a_case_of_a_bundle_says_where_it_is_from(bundle: Path) -> None:
    case = open_case(str(bundle), zone="Asia/Shanghai")
    assert "2026-03-01 08:00:00+08:00" in str(case)
    assert "it&#x27;s.zip" in case._repr_html_()


def test_looking_makes_no_installation(tmp_path: Path) -> None:
    process = command("run", "backlog", cwd=tmp_path)
    told, errors = process.communicate(timeout=60)
    assert (process.returncode, told) == (1, "")
    assert "nothing is installed" in errors
    assert not list(tmp_path.iterdir())


def test_the_shelf_is_listed_and_a_page_is_shown() -> None:
    listed = CliRunner().invoke(cli, ["runbook", "list", "--json"])
    found = {one["name"]: one["kind"] for one in json.loads(listed.output)}
    assert {name for name, kind in found.items() if kind == "rule"} == set(RULES)
    assert found["today"] == "report"
    assert {name for name, kind in found.items() if kind == "page"} >= {"worker_dead", "stores", "given_up"}
    shown = CliRunner().invoke(cli, ["runbook", "show", "backlog"])
    assert shown.output.startswith("# Backlog")
