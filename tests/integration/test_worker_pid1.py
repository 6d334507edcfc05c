"""A worker that is process 1 of a container: it reaps what it is left with, and SIGTERM stops it in order."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from taskkit.states import Status
from tests.fires import APP
from tests.pids import command_line, defunct
from tests.processes import Stack
from tests.waiting import wait_until

pytest_plugins = ["tests.stacks"]
UNSHARE = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]


def refusal() -> str | None:
    """Why no process can be process 1 here, if so."""
    if shutil.which("unshare") is None:
        return "there is no unshare"
    done = subprocess.run([*UNSHARE, "true"], capture_output=True, text=True, check=False)
    return done.stderr.strip() or "unshare is refused" if done.returncode else None


@pytest.mark.skipif(sys.platform != "linux", reason="namespaces of processes are Linux's")
def test_as_process_1_it_reaps_adopted_processes_and_stops_on_sigterm(
    server_stack: Stack, notes: Path
) -> None:
    if why := refusal():
        pytest.skip(why)
    home = server_stack.home
    out = home.folder / "pid1.out"
    with out.open("wb") as log:
        outside = subprocess.Popen(
            [
                *UNSHARE,
                sys.executable,
                "-m",
                "taskkit.worker",
                "--app",
                APP,
                "--queue",
                "pid1",
                "--processes",
                "1",
            ],
            env=home.environment,
            cwd=home.folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        task_id = home.enqueue("leave", {"how": "orphan", "path": str(notes)}, queue="pid1")
        assert home.wait(task_id, seconds=30).status is Status.SUCCESS, out.read_text()
        (worker,) = psutil.Process(outside.pid).children()
        (nursery,) = [p for p in worker.children() if "taskkit.worker.nursery" in command_line(p.pid)]
        # without its nursery, everything that lived below it becomes its own
        os.kill(nursery.pid, signal.SIGKILL)
        after = home.enqueue("echo", {"value": 1}, queue="pid1")
        assert home.wait(after, seconds=30).status is Status.SUCCESS
        wait_until(lambda: not [p for p in worker.children(recursive=True) if defunct(p.pid)])
        assert [p.name() for p in worker.children(recursive=True) if p.name() == "sleep"] == []
        running = home.enqueue("nap", {"seconds": 60}, queue="pid1")
        home.wait(running, Status.RUNNING)
        os.kill(worker.pid, signal.SIGTERM)
        assert outside.wait(20) == 0
        assert home.task(running).status in {Status.PENDING, Status.DISPATCHED}
        assert home.outcomes(running) == ["handed_back"]
    finally:
        outside.kill()
        outside.wait()
