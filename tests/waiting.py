"""Wait for a condition with a deadline, so that no test sleeps for luck."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(predicate: Callable[[], T], seconds: float = 10, *, every: float = 0.02) -> T:
    """Call ``predicate`` until it is true and return its value; raises AssertionError after ``seconds``."""
    deadline = time.monotonic() + seconds
    while not (value := predicate()):
        if time.monotonic() > deadline:
            name = getattr(predicate, "__name__", repr(predicate))
            raise AssertionError(f"{name} did not become true within {seconds} s (last value: {value!r})")
        time.sleep(every)
    return value
