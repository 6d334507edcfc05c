"""A process is known by its mark also when it is looked at in the middle of its exec, where it shows nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from taskkit.worker import strays
from tests.waiting import wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="read from /proc")
MARK = "host:1:a#7"


@pytest.fixture
def marked() -> Iterator[int]:
    """A process that bears a mark."""
    process = subprocess.Popen(["sleep", "60"], env={strays.VARIABLE: MARK})
    wait_until(lambda: strays.found_mark(process.pid))
    yield process.pid
    process.kill()
    process.wait()


@pytest.fixture
def bare() -> Iterator[int]:
    """A process without any environment."""
    process = subprocess.Popen(["sleep", "60"], env={})
    wait_until(lambda: b"sleep" in (strays.PROC / str(process.pid) / "cmdline").read_bytes())
    yield process.pid
    process.kill()
    process.wait()


def shown_later(pid: int, looks: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have /proc show nothing of the process for so many looks, as in an exec."""
    place = folder / str(pid)
    place.mkdir()
    for name in ("environ", "maps"):
        (place / name).touch()
    (place / "stat").symlink_to(f"/proc/{pid}/stat")
    seen: list[float] = []

    def rest(seconds: float) -> None:
        seen.append(seconds)
        if len(seen) == looks:
            for name in ("environ", "maps"):
                (place / name).unlink()
                (place / name).symlink_to(f"/proc/{pid}/{name}")

    monkeypatch.setattr(strays, "PROC", folder)
    monkeypatch.setattr(time, "sleep", rest)


def test_work_05_a_process_in_the_middle_of_its_exec_is_looked_at_again(
    marked: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        shown_later(marked, 3, tmp_path, patch)
        assert strays.found_mark(marked) is None
        assert strays.settled_mark(marked) == MARK


def test_one_without_environment_is_not_looked_at_for_ever(bare: int) -> None:
    began = time.monotonic()
    assert strays.settled_mark(bare) is None
    assert time.monotonic() - began >= strays.LOOKS * strays.LOOK_S


def test_one_that_has_ended_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A zombie shows no environment either, and will never show one; nor does one that is gone."""
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    monkeypatch.setattr(strays, "LOOKS", 1_000_000)
    assert strays.settled_mark(pid) is None
    os.waitpid(pid, 0)
    assert strays.settled_mark(pid) is None


def test_one_with_an_environment_of_its_own_is_seen_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strays, "LOOKS", 1_000_000)
    process = subprocess.Popen(["sleep", "60"], env={"A": "b"})
    try:
        assert strays.settled_mark(process.pid) is None
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
