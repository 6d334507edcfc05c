"""Handlers of tasks that run twice: what the first attempt does when it is woken too late, and what the second has done."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import psutil

from taskkit import Taskkit, current_run

kit = Taskkit()
PATIENCE = 120


@kit.task("twofold", queue="stale", blocking=True)
def twofold(folder: str, first: str, second: str) -> str:
    """Each attempt says that it has begun, and then does as it is told."""
    run = current_run()
    how = first if run.attempt == 1 else second
    (Path(folder) / f"{run.task_id}.{run.attempt}").touch()
    if run.attempt == 1 or how == "stays":
        _wait_for(Path(folder) / ("end" if how == "stays" else "woken"))
    if how == "raises":
        raise ValueError(f"attempt {run.attempt} raises")
    return f"attempt {run.attempt}"


@kit.task("kill_worker", queue="stale")
def kill_worker(path: str) -> None:
    """Kills its worker: the parent of the process that its child was forked from."""
    with Path(path).open("a") as file:
        file.write(f"{current_run().attempt}\n")
    os.kill(psutil.Process(os.getppid()).ppid(), signal.SIGKILL)
    time.sleep(60)


@kit.task("nap", queue="stale")
def nap(seconds: float) -> None:
    time.sleep(seconds)


def _wait_for(path: Path) -> None:
    until = time.monotonic() + PATIENCE
    while not path.exists() and time.monotonic() < until:
        time.sleep(0.02)
