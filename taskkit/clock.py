"""Instants are timezone-aware UTC; intervals are monotonic seconds."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LAST_INSTANT = datetime(2038, 1, 19, 3, 14, 7, tzinfo=UTC)
"""The last instant a MySQL TIMESTAMP can hold."""
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_SPAN = re.compile(r"(?:\d+(?:\.\d+)?[smhdw])+")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")


def utc_now() -> datetime:
    """This node's clock, aware and in UTC. What is due is decided by the database's clock, never by this."""
    return datetime.now(UTC)


def monotonic() -> float:
    """Seconds on a clock that never jumps; the same clock for all processes of one machine."""
    return time.monotonic()


def as_utc(value: datetime) -> datetime:
    """Return an aware instant in UTC; the caller has refused naive ones."""
    return value.astimezone(UTC)


def iso(value: datetime | None) -> str | None:
    """An instant as ISO 8601 with microseconds and ``Z``, or None."""
    if value is None:
        return None
    return value.astimezone(UTC).isoformat(timespec="microseconds")[:26] + "Z"


def parse_instant(text: str) -> datetime:
    """Read an ISO 8601 instant; raises ValueError when it has no offset."""
    value = datetime.fromisoformat(text.strip())
    if value.tzinfo is None:
        raise ValueError("has no time zone; write 2026-03-01T09:00:00+08:00 or …Z")
    return value.astimezone(UTC)


def parse_span(text: str) -> float:
    """Seconds from plain seconds (90) or units (90s, 15m, 1h30m, 2d); raises ValueError."""
    word = text.strip().lower()
    if _NUMBER.fullmatch(word):
        return float(word)
    if not _SPAN.fullmatch(word):
        raise ValueError(f"{text!r} is no length of time; write seconds (90) or units (90s, 15m, 1h30m, 2d)")
    parts = re.findall(r"(\d+(?:\.\d+)?)([smhdw])", word)
    return sum(float(count) * _UNITS[unit] for count, unit in parts)


def seconds(count: float) -> timedelta:
    """A timedelta of ``count`` seconds."""
    return timedelta(seconds=count)
