"""The fields of a cron expression, and the text of an expression in one spelling."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NoReturn

from taskkit.errors import CronError
from taskkit.hints import closest

MAX_LENGTH = 100
"""Characters in the column ``cron_expr``."""

ALIASES = {
    "@HOURLY": "0 * * * *",
    "@DAILY": "0 0 * * *",
    "@MIDNIGHT": "0 0 * * *",
    "@WEEKLY": "0 0 * * 0",
    "@MONTHLY": "0 0 1 * *",
    "@YEARLY": "0 0 1 1 *",
    "@ANNUALLY": "0 0 1 1 *",
}
REFUSED_ALIASES = {
    "@REBOOT": "@reboot is not a time; start it with the system, or give a time such as @daily",
    "@EVERY": "@every is not taken; write a step such as */5 * * * *, or */30 * * * * * for seconds",
}


@dataclass(frozen=True)
class Field:
    """One field: its name, the values it may have, and names for them counting from ``low``."""

    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()

    def number(self, text: str) -> int | None:
        """The value that a number or a name stands for; None when it is neither, or out of range."""
        if text in self.names:
            return self.low + self.names.index(text)
        value = int(text) if text.isdigit() else -1
        return value if self.low <= value <= self.high else None


_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")

SECOND = Field("second", 0, 59)
MINUTE = Field("minute", 0, 59)
HOUR = Field("hour", 0, 23)
DAY = Field("day-of-month", 1, 31)
MONTH = Field("month", 1, 12, _MONTHS)
WEEKDAY = Field("day-of-week", 0, 7, _WEEKDAYS)
FIVE = (MINUTE, HOUR, DAY, MONTH, WEEKDAY)
SIX = (SECOND, *FIVE)


def refuse(expression: str, problem: str) -> NoReturn:
    """Raise the one-line CronError for an expression."""
    shown = expression if len(expression) <= MAX_LENGTH else expression[:40] + "..."
    raise CronError("cron", f"{shown!a}: {problem}")


def normalise(expression: str) -> str:
    """The expression in one spelling: five or six fields, one blank between, upper case, ``*`` for ``?``."""
    if not isinstance(expression, str):
        raise CronError("cron", f"must be text, not {type(expression).__name__}")
    text = expression.strip(" \t\r\n")
    _check_characters(text)
    words = _without_alias(text, text.upper().split())
    _check_count(text, words)
    return " ".join(_star(field, word) for field, word in by_field(words))


def by_field(words: list[str]) -> list[tuple[Field, str]]:
    """Each of five or six words with the field it stands in."""
    return list(zip(SIX if len(words) == len(SIX) else FIVE, words, strict=True))


def _check_characters(text: str) -> None:
    if not text:
        raise CronError("cron", "is empty; write five fields such as '0 9 * * *'")
    if len(text) > MAX_LENGTH:
        refuse(text, f"is {len(text)} characters long, at most {MAX_LENGTH} are kept")
    if strange := re.search(r"[^\t -~]", text):
        refuse(text, f"{strange.group()!a} is not an ASCII character; use plain digits, names and signs")


def _without_alias(text: str, words: list[str]) -> list[str]:
    first = words[0]
    if "=" in text:
        refuse(text, "a time zone is not part of the expression; give it as the task's timezone")
    if first in REFUSED_ALIASES:
        refuse(text, REFUSED_ALIASES[first])
    if not first.startswith("@"):
        return words
    if len(words) == 1 and first in ALIASES:
        return ALIASES[first].split()
    close = closest(first, ALIASES) or "@DAILY"
    refuse(text, f"is not a known name; did you mean {close.lower()}?")


def _check_count(text: str, words: list[str]) -> None:
    if len(words) == len(SIX) + 1:
        refuse(text, "has 7 fields; a year is not taken, write 5 fields, or 6 with seconds first")
    if len(words) not in (len(FIVE), len(SIX)):
        refuse(text, f"has {len(words)} field{'s' * (len(words) > 1)}; write 5, or 6 with seconds first")


def _star(field: Field, word: str) -> str:
    return "*" if word == "?" and field in (DAY, WEEKDAY) else word
