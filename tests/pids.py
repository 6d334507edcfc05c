"""What is asked about a process of which only the pid is known, and which may end meanwhile."""

from __future__ import annotations

import contextlib
from pathlib import Path

import psutil


def command_line(pid: int) -> str:
    """How a process was started; empty for one that has ended meanwhile."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return " ".join(psutil.Process(pid).cmdline())
    return ""


def defunct(pid: int) -> bool:
    """Whether a process has ended and nobody has taken notice; one that is gone is not."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    return False


def stopped(pid: int) -> bool:
    """Whether each thread of a process has stopped: one that was told to first ends what it does in the kernel."""
    states = []
    for thread in Path(f"/proc/{pid}/task").glob("*/stat"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            states.append(thread.read_text().rpartition(")")[2].split()[0])
    return set(states) == {"T"}


def alive(pid: int) -> bool:
    """Whether a process lives; a defunct one does not."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
