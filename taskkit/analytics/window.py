"""The window an analysis looks at: half-open, in UTC inside, with the zone in which people read it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from taskkit.clock import as_utc, seconds
from taskkit.errors import InputError
from taskkit.zone import load_zone

BUCKETS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 86_400)
MOST_BUCKETS = 120


@dataclass(frozen=True, slots=True)
class Window:
    """``since`` belongs to it, ``until`` does not; both are aware, and kept in UTC."""

    since: datetime
    until: datetime
    zone: str = "UTC"

    def __post_init__(self) -> None:
        for name in ("since", "until"):
            object.__setattr__(self, name, _aware(name, getattr(self, name)))
        if self.since >= self.until:
            raise InputError(
                "until", f"must be later than since; {self.until} is not later than {self.since}"
            )
        load_zone(self.zone)

    @classmethod
    def last(cls, length_s: float, now: datetime, zone: str = "UTC") -> Window:
        """The seconds up to ``now``."""
        until = _aware("now", now)
        return cls(until - seconds(length_s), until, zone)

    @property
    def length_s(self) -> float:
        """How long it is, in seconds of real time, also over a change of clocks."""
        return (self.until - self.since).total_seconds()

    @property
    def bucket_s(self) -> int:
        """The width of a time bucket, so that the window has at most some 120 of them."""
        fitting = (width for width in BUCKETS_S if self.length_s / width <= MOST_BUCKETS)
        return next(fitting, BUCKETS_S[-1])


def _aware(name: str, value: object) -> datetime:
    if not isinstance(value, datetime):
        raise InputError(name, f"is no instant: {value!r}; give a datetime with a time zone")
    if value.tzinfo is None or value.utcoffset() is None:
        raise InputError(name, f"{value.isoformat()} has no time zone; write 2026-03-01T09:00:00+08:00 or …Z")
    return as_utc(value)
