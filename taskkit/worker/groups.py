"""Ending a process group, killed and waited for until nothing of it is left; reaping what is ours to reap."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import time

log = logging.getLogger("taskkit.worker")
PATIENCE = 2.0


def end_group(group: int, patience: float = PATIENCE) -> bool:
    """Kill every process of the group and wait until it is gone, at most ``patience`` seconds; whether it is."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        try:
            os.killpg(group, signal.SIGKILL)
        except ProcessLookupError:
            return True
        except PermissionError:
            pass
        _reap(group)
        time.sleep(0.005)
    log.error(
        "processes of the group %s do not end although they were killed; their task is free all the same",
        group,
    )
    return False


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
