"""Environment lines of a crontab, by the grammar of Debian's cron, and what they mean for a job."""

from __future__ import annotations

import re
from collections.abc import Mapping

from taskkit.crontab.lines import Refused

LONGEST = 998
"""Bytes of an environment line or a command that Debian's cron keeps; more are cut off or refused."""

SETTING = re.compile(
    r"""(?: (?P<q>["']) (?P<quoted_name> (?:(?!(?P=q))[^=])* ) (?P=q) | (?P<name> (?!["'])[^\s=]* ) )
        \s* = \s*
        (?: (?P<v>["']) (?P<quoted_value> (?:(?!(?P=v)).)* ) (?P=v) \s* | (?P<value> [^"'\s].* ) )""",
    re.ASCII | re.DOTALL | re.VERBOSE,
)
EMPTY = re.compile(r"([A-Za-z_]\w*)\s*=\s*", re.ASCII)
BLANKS = " \t\n\v\f\r"

NOT_CARRIED = {
    "MAILFROM": "it is the sender of cron's mails, which taskkit does not send",
    "CONTENT_TYPE": "it is a header of cron's mails, which taskkit does not send",
    "CONTENT_TRANSFER_ENCODING": "it is a header of cron's mails, which taskkit does not send",
    "RANDOM_DELAY": "the job starts on time; Debian's cron ignores it too",
    "START_HOURS_RANGE": "it belongs to anacron",
}


def setting(line: str) -> tuple[str, str, str] | None:
    """Name, value and a remark of an environment line; None for any other line. Raises Refused."""
    match = SETTING.fullmatch(line)
    if match is None:
        empty = EMPTY.fullmatch(line)
        return (
            (empty[1], "", "empty without quotes: Debian's cron would refuse the whole file")
            if empty
            else None
        )
    name = match["quoted_name"] if match["q"] else match["name"]
    value = _unquoted(match["quoted_value"] if match["v"] else match["value"])
    if not name:
        raise Refused("an environment line without a name")
    if len(line.encode()) > LONGEST:
        raise Refused(f"an environment line of more than {LONGEST} bytes, which cron would cut off")
    return name, value, _remark(name, value)


def _unquoted(value: str) -> str:
    """Cron trims blanks at the end even inside quotes, and takes off a second pair of quotes."""
    value = value.rstrip(BLANKS)
    if len(value) >= 2 and value[0] in "\"'" and value[-1] == value[0]:
        return value[1:-1]
    return value


def _remark(name: str, value: str) -> str:
    if name == "LOGNAME":
        return "not carried over: LOGNAME is always the user's, as with cron"
    if name == "CRON_TZ":
        return f"the jobs below are planned in time zone {value or 'of the import'}"
    if name in NOT_CARRIED:
        return f"not carried over: {NOT_CARRIED[name]}"
    if "$" in value:
        return "taken literally: cron does not expand $"
    return ""


def job_environment(lines: Mapping[str, str]) -> dict[str, str]:
    """What a job finds: cron's own defaults under the lines of the file. HOME and LOGNAME are the handler's."""
    return {"SHELL": "/bin/sh", "PATH": "/usr/bin:/bin"} | {k: v for k, v in lines.items() if k != "LOGNAME"}


def notes(lines: Mapping[str, str]) -> list[str]:
    """What the environment lines would have meant to cron and is different here."""
    found = [f"{name} is not carried over: {why}" for name, why in NOT_CARRIED.items() if name in lines]
    if lines.get("MAILTO"):
        found.insert(0, f"no mail to {lines['MAILTO']}: the output is kept with the run")
    if lines.get("CRON_TZ"):
        found.append(
            f"planned in {lines['CRON_TZ']} (CRON_TZ): Debian's cron ignores that line, cronie honours it"
        )
    if lines.get("TZ"):
        found.append(f"TZ={lines['TZ']} is the program's time zone, as with cron, not the schedule's")
    if "LOGNAME" in lines:
        found.append("LOGNAME is not carried over: it is always the user's, as with cron")
    return found
