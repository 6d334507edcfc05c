"""What codes, queues, keys and numbers may look like; everything else is refused by name."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from taskkit.errors import InputError
from taskkit.zone import load_zone

LONGEST_TIMEOUT = 31_536_000
LONGEST_DELAY = 10 * 31_536_000
DRILL_QUEUES = "taskkit.drill-"
"""How the queues of drills begin; hex letters follow."""
DRILL_LETTERS = 6


def is_drill_queue(name: str) -> bool:
    """Whether a queue is a drill's own, so that what is in it belongs to nobody else."""
    return re.fullmatch(re.escape(DRILL_QUEUES) + f"[0-9a-f]{{{DRILL_LETTERS}}}", name) is not None


def check_name(value: object, field: str, longest: int = 64) -> str:
    """Text of 1 to ``longest`` letters without white space at its ends or control characters."""
    if not isinstance(value, str):
        raise InputError(field, f"must be text, not {type(value).__name__}")
    return _checked(value, field, longest)


@lru_cache(maxsize=4096)
def _checked(value: str, field: str, longest: int) -> str:
    if not value:
        raise InputError(field, "must not be empty")
    if len(value) > longest:
        raise InputError(field, f"has {len(value)} letters, at most {longest} fit: {value[:30]!r}…")
    if value.isprintable() and value[0] != " " and value[-1] != " ":
        return value
    if value != value.strip():
        raise InputError(field, f"must not begin or end with white space: {value!r}")
    if any(unicodedata.category(letter) in {"Cc", "Cs"} for letter in value):
        raise InputError(field, f"must not contain control characters: {value!a}")
    return value


def check_whole(value: object, field: str, lowest: int, highest: int) -> int:
    """A whole number within bounds; True and 1.0 are not."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError(field, f"must be a whole number from {lowest} to {highest}, not {value!r}")
    if not lowest <= value <= highest:
        raise InputError(field, f"must be from {lowest} to {highest}, not {value}")
    return value


def check_seconds(value: object, field: str, lowest: float, highest: float) -> float:
    """A number of seconds within bounds; NaN, infinity and True are not."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(field, f"must be a number of seconds, not {value!r}")
    if not lowest <= value <= highest:
        raise InputError(field, f"must be from {lowest} to {highest} seconds, not {value}")
    return value


def check_zone(value: object, field: str = "timezone") -> str:
    """The name of a time zone that exists and fits its column."""
    name = check_name(value, field)
    load_zone(name, field)
    return name
