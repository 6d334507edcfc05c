"""A worker or a scheduler that cannot start says why in one line and ends with 2; nothing is left behind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from taskkit.app import load
from taskkit.errors import AppError
from tests.processes import ROOT

APPS = {
    "good": "from taskkit import Taskkit\nkit = Taskkit()\n@kit.task('x')\ndef x(): ...\n",
    "raises": "1 / 0\n",
    "leaves": "import sys\nsys.exit(3)\n",
    "syntax": "def (:\n",
    "needs": "import no_such_module_anywhere\n",
    "without": "kit = 7\nother = None\n",
    "twice": "from taskkit import Taskkit\nkit = Taskkit()\nfor n in 1, 2:\n    kit.task('x')(lambda: None)\n",
    "dies": "import os\nos._exit(9)\n",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("apps")
    for name, text in APPS.items():
        (found / f"{name}_app.py").write_text(text)
    return found


UNLOADABLE = [
    ("raises_app:kit", "raises_app could not be imported: ZeroDivisionError"),
    ("leaves_app", "leaves_app could not be imported: SystemExit: 3"),
    ("syntax_app", "syntax_app could not be imported: SyntaxError"),
    ("needs_app", "needs_app could not be imported: No module named 'no_such_module_anywhere'"),
    ("without_app", "'kit' in without_app is a int, not a Taskkit"),
    ("without_app:other", "the module without_app has no 'other'"),
    ("good_app:kitt", "the module good_app has no 'kitt'; did you mean"),
    ("good_app:kit.registry", "'kit.registry' in good_app is a Registry, not a Taskkit"),
    ("twice_app", "'x' is taken"),
    ("absent.app:kit", "there is no module 'absent'"),
]


@pytest.mark.parametrize(("app", "told"), UNLOADABLE)
def test_an_application_that_cannot_be_loaded(
    folder: Path, monkeypatch: pytest.MonkeyPatch, app: str, told: str
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    with pytest.raises(AppError) as caught:
        load(app)
    assert str(caught.value).startswith(f"--app {app}: ")
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_loaded_application_has_the_built_in_handlers_beside_its_own(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    assert {handler.code for handler in load("good_app").registry} == {
        "x",
        "shell",
        "http",
        "taskkit.noop",
        "taskkit.nap",
    }
    assert {handler.code for handler in load(None).registry} == {
        "shell",
        "http",
        "taskkit.noop",
        "taskkit.nap",
    }


UNSTARTABLE: list[tuple[str, list[str], dict[str, str], str]] = [
    ("worker", ["--app", "raises_app"], {}, "raises_app could not be imported: ZeroDivisionError"),
    ("worker", ["--app", "dies_app"], {}, "the process that imports it ended with code 9"),
    ("worker", ["--app", "good_app"], {"TASKKIT_DATABASE_URL": "mysql://u:secret@127.0.0.1:1/x"}, "127.0.0.1:1/x"),
    ("scheduler", [], {"TASKKIT_REDIS_URL": "http://x"}, "TASKKIT_REDIS_URL"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("role", "arguments", "environment", "told"), UNSTARTABLE, ids=range(len(UNSTARTABLE))
)
def test_a_process_that_cannot_start_ends_with_2(
    folder: Path, role: str, arguments: list[str], environment: dict[str, str], told: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", f"taskkit.{role}", *arguments],
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", **environment},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("taskkit: ")
    assert told in line
    assert "secret" not in line
    assert not (folder / ".taskkit").exists()
