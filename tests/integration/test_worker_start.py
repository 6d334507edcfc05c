"""A worker or a scheduler that cannot start says why in one line and ends with 2; nothing is left behind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

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


CASES: list[tuple[str, list[str], dict[str, str], str]] = [
    ("worker", ["--app", "raises_app:kit"], {}, "raises_app could not be imported: ZeroDivisionError"),
    ("worker", ["--app", "leaves_app"], {}, "leaves_app could not be imported: SystemExit: 3"),
    ("worker", ["--app", "syntax_app"], {}, "syntax_app could not be imported: SyntaxError"),
    ("worker", ["--app", "needs_app"], {}, "needs_app could not be imported: No module named 'no_such_module_anywhere'"),
    ("worker", ["--app", "without_app"], {}, "'kit' is a int, not a Taskkit"),
    ("worker", ["--app", "good_app:kitt"], {}, "'kitt' has no such name; did you mean"),
    ("worker", ["--app", "twice_app"], {}, "'x' is taken"),
    ("worker", ["--app", "dies_app"], {}, "the process that imports it ended with code 9"),
    ("worker", ["--app", "absent.app:kit"], {}, "there is no module 'absent'"),
    ("worker", ["--app", "good_app", "--queue", "a,,b"], {}, "queue: must not be empty"),
    ("worker", ["--app", "good_app"], {"TASKKIT_DATABASE_URL": "postgresql://x/y"}, "TASKKIT_DATABASE_URL"),
    ("worker", ["--app", "good_app"], {"TASKKIT_DATABASE_URL": "mysql://u:secret@127.0.0.1:1/x"}, "127.0.0.1:1/x"),
    ("worker", [], {"TASKKIT_WORKER_PROCESES": "3"}, "TASKKIT_WORKER_PROCESES"),
    ("scheduler", [], {"TASKKIT_REDIS_URL": "http://x"}, "TASKKIT_REDIS_URL"),
    ("scheduler", [], {"TASKKIT_DATABASE_URL": "mysql://u:secret@127.0.0.1:1/x"}, "127.0.0.1:1/x"),
]  # fmt: skip


@pytest.mark.parametrize(("role", "arguments", "environment", "told"), CASES, ids=[str(n) for n in range(len(CASES))])
def test_what_is_wrong_is_told_in_one_line(
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
    assert not (folder / ".taskkit").exists() or environment == {}
