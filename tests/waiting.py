"""Wait for a condition with a deadline, so that no test sleeps for luck."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


SHARE, SELDOM = 0.1, 0.1


def wait_until(predicate: Callable[[], T], seconds: float = 10, *, every: float = 0.02) -> T:
    """Call ``predicate`` until it is true and return its value; raises AssertionError after ``seconds``.

    The longer it has waited, the more seldom it looks: what is looked at needs the machine more.
    """
    began = time.monotonic()
    deadline = began + seconds
    while not (value := predicate()):
        if time.monotonic() > deadline:
            name = getattr(predicate, "__name__", repr(predicate))
            raise AssertionError(f"{name} did not become true within {seconds} s (last value: {value!r})")
        time.sleep(max(every, min(SELDOM, SHARE * (time.monotonic() - began))))
    return value
