"""Which occurrence of a periodic task comes next: after a run, after downtime, after an edit. Pure."""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from taskkit.cron import Schedule, parse, tzdata_version
from taskkit.errors import CronError

ALL_LIMIT = 100
"""How many missed occurrences the policy ``all`` runs at most."""
RECORD_LIMIT = 1000
"""How many skipped occurrences are written down one by one; the reason tells how many there were in all."""
SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class NextUp:
    """The occurrence a task now stands for, the fire time after it, and what was passed over and why."""

    occurrence_at: datetime
    next_fire_at: datetime
    passed: list[datetime] = field(default_factory=list)
    reason: str = ""


def schedule_of(cron_expr: str, timezone: str | None, gap: str, overlap: str, default_zone: str) -> Schedule:
    """The schedule that a row's columns describe; raises CronError."""
    return parse(cron_expr, timezone or default_zone, gap=gap, overlap=overlap)


def digest(schedule: Schedule, misfire: str) -> str:
    """Changes when expression, zone, policy or the time zone data changed: then the task is planned anew."""
    parts = (
        schedule.expression,
        schedule.timezone,
        schedule.gap,
        schedule.overlap,
        misfire,
        tzdata_version(),
    )
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def within(up: NextUp, last: datetime) -> NextUp:
    """The same as far as a database can hold it, whose last instant is ``last``; raises CronError beyond it."""
    if up.occurrence_at > last:
        raise CronError("cron", f"fires next at {up.occurrence_at.isoformat()}, later than MySQL can hold")
    return up if up.next_fire_at <= last else replace(up, next_fire_at=last)


def first(schedule: Schedule, now: datetime) -> NextUp:
    """The first occurrence after ``now``."""
    at = schedule.next(now)
    return NextUp(at, schedule.next(at))


def after_run(
    schedule: Schedule,
    misfire: str,
    occurrence_at: datetime | None,
    dispatched_at: datetime | None,
    now: datetime,
) -> NextUp:
    """What follows the occurrence whose run has ended at ``now``.

    Fire times that passed while it ran are skipped and the next one stays on the grid; with the policy ``all``
    those that had passed before it started still come. A run by hand stands for no occurrence.
    """
    since = occurrence_at or dispatched_at
    if since is None or since > now:
        return first(schedule, since or now)
    following = schedule.next(since)
    if following > now:
        return NextUp(following, schedule.next(following))
    if misfire == "all" and dispatched_at is not None and following < dispatched_at:
        return NextUp(following, schedule.next(following))
    at = schedule.next(now)
    return NextUp(at, schedule.next(at), *_passed(schedule, since, at, "still running"))


def catch_up(
    schedule: Schedule, misfire: str, occurrence_at: datetime, now: datetime, grace: timedelta
) -> NextUp | None:
    """What the misfire policy makes of an occurrence that waits since ``occurrence_at``; None: it stands as it is."""
    if occurrence_at > now:
        return None
    if misfire == "skip" and occurrence_at < now - grace:
        return _move(schedule, occurrence_at, schedule.next(now), "misfire policy skip")
    latest, count = schedule.latest(occurrence_at, now)
    if latest is None:
        return None
    if misfire == "all":
        if count < ALL_LIMIT:
            return None
        kept = latest_fires(schedule, occurrence_at, now, ALL_LIMIT)[0]
        return _move(schedule, occurrence_at, kept, "misfire policy all, limit reached")
    return _move(schedule, occurrence_at, latest, f"misfire policy {misfire}")


def _move(schedule: Schedule, occurrence_at: datetime, to: datetime, reason: str) -> NextUp:
    passed, reason = _passed(schedule, occurrence_at - SECOND, to, reason)
    if passed[:1] != [occurrence_at]:
        passed = [occurrence_at, *passed]
    return NextUp(to, schedule.next(to), passed, reason)


def _passed(schedule: Schedule, after: datetime, before: datetime, reason: str) -> tuple[list[datetime], str]:
    """Fire times strictly between the two, the latest RECORD_LIMIT of them, and the reason with their number."""
    _, count = schedule.latest(after, before - SECOND)
    if count > RECORD_LIMIT:
        reason = f"{reason}; {count} in all, the latest {RECORD_LIMIT} are written down"
    return latest_fires(schedule, after, before - SECOND, RECORD_LIMIT), reason


def latest_fires(schedule: Schedule, after: datetime, until: datetime, most: int) -> list[datetime]:
    """The last ``most`` fire times in after < t <= until, found by counting, not by walking through all."""
    span = range(max(0, int((until - after).total_seconds())) + 1)
    skip = bisect_left(span, -most, key=lambda s: -schedule.latest(after + timedelta(seconds=s), until)[1])
    return schedule.between(after + timedelta(seconds=skip), until, most)


def ahead(schedule: Schedule, now: datetime, hours: float, most: int) -> list[datetime]:
    """The fire times to write down in advance: the next one always, then those within ``hours``, up to ``most``."""
    until = now + timedelta(hours=hours)
    return schedule.between(now, until, most) or [schedule.next(now)]
