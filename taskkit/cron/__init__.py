"""Cron: an expression, a time zone and a DST policy become fire times, and can explain themselves.

**Fields.** Five (minute, hour, day-of-month, month, day-of-week) or six with seconds first; ``@hourly``,
``@daily``, ``@midnight``, ``@weekly``, ``@monthly``, ``@yearly``, ``@annually``; lists, ranges, steps, names,
any case. Weekdays are 0 to 7 with 0 and 7 for Sunday, in six fields too (Quartz and XXL-JOB count 1 = Sunday:
write names there). ``?`` is ``*`` in the two day fields. ``L`` in day-of-month is the last day; ``5L`` or
``L5`` in day-of-week the last Friday, ``5#2`` the second one. ``H`` is resolved once by `resolve_hash`.

**Days.** As Debian's cron: a day matches when day-of-month *or* day-of-week does, but *both* must when either
field starts with ``*`` (or is ``?``). ``L`` and ``#`` do not start with ``*``: ``0 0 L * 5`` is the last day of
the month or any Friday, ``0 0 * * 5#2`` the second Friday.

**Clock changes.** A schedule whose minute or hour field starts with ``*`` follows elapsed time: it fires
whenever the local clock shows a matching time, in both copies of a repeated hour, and never makes up for a
skipped one. All others are fixed times: in a gap they fire at the moment the gap ends (``gap="after"``, once
however many times were lost) or not at all (``"skip"``); in a repeated hour at the ``"first"`` copy, the
``"second"`` or ``"both"``. A wildcard in the seconds alone leaves a schedule a fixed one. A date that a zone
left out altogether (Apia, 2011-12-30) is made up for at the end of the gap only if the schedule does not fire
on that day anyway, so that a daily task runs once on every date that existed. Where a gap ends at midnight
(Nuuk), the fire made up for comes at 00:00 of the next date.

**Limits.** Instants from 1900 up to 2100; whole seconds. Nothing here depends on the zone of the process.
"""

from taskkit.cron.explained import Explained, explain
from taskkit.cron.hashing import resolve_hash
from taskkit.cron.schedule import Schedule, parse
from taskkit.cron.zones import tzdata_version

__all__ = ["Explained", "Schedule", "explain", "parse", "resolve_hash", "tzdata_version"]
