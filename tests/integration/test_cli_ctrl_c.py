"""Ctrl-C ends every command with exit code 130 and without a word, whatever it is doing."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.commands import PROGRAM, built, cli, done, program
from tests.waiting import wait_until


def test_ctrl_c_is_exit_code_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("taskkit.cron.explain", interrupt)
    answer = cli("cron", "explain", "* * * * *")
    assert (answer.code, answer.out, answer.err.strip()) == (130, "", "")


GATE = """
import atexit, importlib.abc, os, sys, time

def wait():
    open("here", "w").close()
    time.sleep(60)

class Gate(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == os.environ["GATE"] and not os.path.exists("here"):
            wait()

sys.meta_path.insert(0, Gate())
if os.environ["GATE"] == "the end":
    atexit.register(wait)
"""


@pytest.mark.parametrize(
    "moment",
    ["taskkit.cli.conduct", "click.core", "taskkit.cli.root", "taskkit.cli.cron", "rich.console", "the end"],
)
def test_ctrl_c_while_the_program_loads_or_leaves(moment: str, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(GATE)
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    process = subprocess.Popen(
        [*PROGRAM, "cron", "explain", "@daily"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": path, "GATE": moment},
    )  # fmt: skip
    wait_until((tmp_path / "here").exists, 30)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, err.strip()) == (130, b"")
    assert bool(out) == (moment == "the end")


def test_ctrl_c_on_a_waiting_program() -> None:
    built()
    process = subprocess.Popen([*PROGRAM, "probe", "mail"], stderr=subprocess.PIPE, stdout=subprocess.PIPE)
    wait_until(lambda: done("tasks", "list", "--json").json, 30)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err.strip()) == (130, b"", b"")
    assert done("tasks", "list", "--json").json[0]["status_name"] == "cancelled"


def test_ctrl_c_within_an_exec(tmp_path: Path) -> None:
    """As in the making of a dataclass: CPython then dies of the signal at the end, although it was caught."""
    (tmp_path / "shop.py").write_text('exec("raise KeyboardInterrupt")')
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    answer = program("enqueue", "mail", "--app", "shop:kit", env={**os.environ, "PYTHONPATH": path})
    assert (answer.returncode, answer.stdout, answer.stderr.strip()) == (130, "", "")
