"""The names of time zones: one check for settings, tasks and cron, and what was probably meant."""

from __future__ import annotations

import re
from functools import lru_cache
from zoneinfo import ZoneInfo, available_timezones

from taskkit.errors import CronError
from taskkit.hints import closest

_MACHINE_NAMES = re.compile(r"localtime|Factory|posixrules|(posix|right)/.*")
_KNOWN_AS = {
    "beijing": "Asia/Shanghai",
    "shenzhen": "Asia/Shanghai",
    "guangzhou": "Asia/Shanghai",
    "china_standard_time": "Asia/Shanghai",
    "cst": "Asia/Shanghai or America/Chicago",
    "bangalore": "Asia/Kolkata",
    "mumbai": "Asia/Kolkata",
    "delhi": "Asia/Kolkata",
    "pst": "America/Los_Angeles",
    "san_francisco": "America/Los_Angeles",
    "washington": "America/New_York",
    "munich": "Europe/Berlin",
    "frankfurt": "Europe/Berlin",
}


@lru_cache(maxsize=512)
def load_zone(name: str, field: str = "timezone") -> ZoneInfo:
    """The zone of an IANA name; raises CronError with a suggestion when there is none.

    Names that mean something else on each machine, such as ``localtime``, are none.
    """
    if not name.isascii() or _MACHINE_NAMES.fullmatch(name):
        raise _unknown(name, field)
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise _unknown(name, field) from None


def _unknown(name: str, field: str) -> CronError:
    shown = ascii(name if len(name) <= 64 else name[:61] + "...")
    return CronError(field, f"there is no time zone {shown}; {_suggestion(name)}")


def _suggestion(name: str) -> str:
    if re.fullmatch(r"(UTC|GMT)?[+-].*", name.strip(), re.IGNORECASE):
        return "write a place such as Asia/Shanghai, or Etc/GMT-8 for UTC+8 (the sign is turned round)"
    if known := _KNOWN_AS.get(name.strip().rpartition("/")[2].lower().replace(" ", "_")):
        return f"did you mean {known}?"
    close = closest(name, (known for known in available_timezones() if not _MACHINE_NAMES.fullmatch(known)))
    return f"did you mean {close}?" if close else "write a name such as Asia/Shanghai or UTC"
