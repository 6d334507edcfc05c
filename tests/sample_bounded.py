"""A handler that writes down from when to when it ran, by the clock that all processes of a machine share."""

from __future__ import annotations

import time

from tests.sample_app import kit, note

__all__ = ["kit"]


@kit.task("span", max_retry=9, queue="span", limit_key="customer:{customer}")
def span(path: str, customer: str, seconds: float) -> None:
    began = time.monotonic()
    time.sleep(seconds)
    note(path, customer, began, time.monotonic())
