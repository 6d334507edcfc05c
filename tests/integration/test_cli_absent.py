"""What is not there: reading makes neither folder nor file of a SQLite URL, and wrong options of a process are one line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands import done, refused


@pytest.mark.parametrize(
    "command", ["tasks list", "tasks show 1", "tasks cancel 1", "probe mail", "enqueue mail"]
)
@pytest.mark.parametrize("place", ["far/away/center.db", "center.db"])
def test_only_an_upgrade_makes_an_sqlite_file(
    command: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TASKKIT_DATABASE_URL", f"sqlite:///{tmp_path}/{place}")
    assert "run `taskkit db upgrade`" in refused(*command.split(), code=1)
    assert not list(tmp_path.iterdir())
    done("db", "upgrade")
    assert (tmp_path / place).exists()


def test_an_import_that_is_only_looked_at_makes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TASKKIT_DATABASE_URL", f"sqlite:///{tmp_path}/far/center.db")
    answer = done("import-crontab", "-", "--dry-run", stdin="* * * * * date\n")
    assert "1 line in 1 file: 1 would be imported\n" in answer.out
    assert "which lines were imported already is not known" in answer.err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("role", ["worker", "scheduler"])
@pytest.mark.parametrize(
    ("option", "says"),
    [
        ("--nonsense", "--nonsense"),
        ("extra", "unexpected extra argument"),
        ("--home", "requires an argument"),
    ],
)
def test_wrong_options_of_a_process_are_one_line(role: str, option: str, says: str) -> None:
    found = subprocess.run(
        [sys.executable, "-m", f"taskkit.{role}", option], capture_output=True, text=True, check=False
    )
    assert (found.returncode, found.stdout, found.stderr.count("\n")) == (2, "", 1)
    assert found.stderr.startswith("taskkit: ")
    assert says in found.stderr
    assert f"see `python -m taskkit.{role} --help`" in found.stderr
