"""Producers of an incident: tasks at a steady rate, by the clock."""

from __future__ import annotations

import random
from typing import Any

from taskkit.lab.stand import Stand


def steady(
    stand: Stand, length_s: float, per_s: float, rng: random.Random, code: str = "push", **payload: Any
) -> int:
    """Producers at a steady mean rate; what is due by the clock is written, however late the beat comes."""
    written = 0
    for passed in stand.during(length_s, 0.25):
        wanted = round(passed * per_s) - written + rng.choice((0, 1))
        if wanted > 0:
            stand.enqueue(code, wanted, **payload)
            written += wanted
    return written
