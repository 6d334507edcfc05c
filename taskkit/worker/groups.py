"""Ending a process group, killed and waited for until nothing of it is left; reaping what is ours to reap."""

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


def reap_adopted(own: int) -> None:
    """As PID 1: collect the ended processes that came to us when their parents died; ``own`` is waited for elsewhere."""
    with contextlib.suppress(ChildProcessError):
        while ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            if ended.si_pid == own:
                return
            os.waitpid(ended.si_pid, os.WNOHANG)


def _reap(group: int) -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-group, os.WNOHANG)[0]:
            pass
