"""Ending a process group: killed, reaped as far as it is ours to reap, and waited for until nothing of it is left."""

from __future__ import annotations

import contextlib
import os
import signal
import time

PATIENCE = 2.0


def end_group(group: int, patience: float = PATIENCE) -> None:
    """Kill every process of the group and wait until it is gone, at most ``patience`` seconds."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        try:
            os.killpg(group, signal.SIGKILL)
        except ProcessLookupError:
            return
        except PermissionError:
            pass
        _reap(group)
        time.sleep(0.005)


def _reap(group: int) -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-group, os.WNOHANG)[0]:
            pass
