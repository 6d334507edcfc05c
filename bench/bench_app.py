"""The application that the measurements run."""

from __future__ import annotations

import time

from taskkit import Taskkit

kit = Taskkit()


@kit.task("stamp", timeout=30, max_retry=0)
def stamp(sent: float) -> float:
    """Milliseconds between ``sent`` and the first line of the handler, on one monotonic clock."""
    return (time.monotonic() - sent) * 1000


@kit.task("noop", timeout=30, max_retry=0)
def noop() -> None:
    """Nothing."""
