"""Job lines of a crontab: time fields and command, by the grammar of Debian's cron."""

from __future__ import annotations

import re
from dataclasses import dataclass

from taskkit.crontab.environment import LONGEST
from taskkit.crontab.lines import Refused

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
NICKNAMES = {"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"}
NO_REBOOT = (
    "@reboot: a task belongs to no machine, so there is no start of a machine to tie it to; "
    "make it a systemd unit of that machine, or enqueue the task from its start script"
)

ITEM = re.compile(r"(\*|[0-9a-z]+)(?:-([0-9a-z]+))?(?:/([0-9]+))?", re.ASCII | re.IGNORECASE)
BLANK = re.compile(r"[ \t]+")
USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]*\$?", re.ASCII)
FORMAT = re.compile(r"\bdate\b[^|;&]*\+\S*$")
CLOSED_BY = {"'": "'", '"': '"', "`": "`", "(": ")"}
ESCAPE = re.compile(r"\\([%\\])|%")


@dataclass(frozen=True, slots=True)
class TimeField:
    """One of the five time fields: its bounds and the names it knows; the first name means ``low``."""

    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()

    def check(self, text: str) -> None:
        """Raise Refused unless Debian's cron would match at least one value with it."""
        for item in text.split(","):
            self._check_item(item)

    def _check_item(self, item: str) -> None:
        match = ITEM.fullmatch(item)
        if match is None or (match[1] == "*" and match[2]):
            raise Refused(
                f"{self.name}: {shown(item)} is no number, name, range or step that Debian's cron knows"
            )
        first, last, step = match.groups()
        if step and not number(step):
            raise Refused(f"{self.name}: a step of 0 in {shown(item)}")
        if first == "*":
            return
        start = self._number(first)
        if step and last is None:
            raise Refused(f"{self.name}: a step needs a range, write {start}-{self.high}/{step}")
        if last is not None and self._number(last) < start:
            raise Refused(
                f"{self.name}: {shown(item)} goes backwards and matches nothing in cron; {self._forwards(start, last)}"
            )

    def _number(self, text: str) -> int:
        if text.lower() in self.names:
            return self.names.index(text.lower()) + self.low
        if not text.isdigit():
            known = f" (names are {', '.join(self.names)})" if self.names else ""
            raise Refused(f"{self.name}: {shown(text)} is no number{known}")
        if not self.low <= number(text) <= self.high:
            raise Refused(f"{self.name}: {shown(text)} is not in {self.low}-{self.high}")
        return number(text)

    def _forwards(self, start: int, last: str) -> str:
        end = self._number(last)
        if self.names is DAYS and end == 0:
            return f"write {start}-7"
        return f"write {start}-{self.high},{self.low}-{end}"


def number(digits: str) -> int:
    """The value of digits, however many; beyond nine they are out of every range."""
    return int(digits.lstrip("0")[:9] or "0")


def shown(text: str) -> str:
    """A piece of the file as it appears in a reason: quoted, on one line, and not without end."""
    return repr(text if len(text) <= 40 else text[:37] + "...")


FIELDS = (
    TimeField("minute", 0, 59),
    TimeField("hour", 0, 23),
    TimeField("day of month", 1, 31),
    TimeField("month", 1, 12, MONTHS),
    TimeField("day of week", 0, 7, DAYS),
)


def split_time(line: str) -> tuple[str, str]:
    """The checked cron expression of a job line and what follows it. Raises Refused."""
    if line.startswith("@"):
        nickname, rest = first_word(line)
        return _known(nickname), rest
    fields = BLANK.split(line, maxsplit=len(FIELDS))
    rest = fields.pop() if len(fields) > len(FIELDS) else ""
    for field, text in zip(FIELDS, filter(None, fields), strict=False):
        field.check(text)
    if not all(fields[: len(FIELDS)]) or len(fields) < len(FIELDS):
        raise Refused(f"only {len([f for f in fields if f])} of five time fields, and no command")
    return " ".join(fields), rest


def _known(nickname: str) -> str:
    if nickname == "@reboot":
        raise Refused(NO_REBOOT)
    if nickname not in NICKNAMES:
        raise Refused(f"{shown(nickname)} is none of {', '.join(sorted(NICKNAMES))}")
    return nickname


def first_word(text: str) -> tuple[str, str]:
    """The first word and the rest without the blanks between."""
    word, *rest = BLANK.split(text, maxsplit=1)
    return word, rest[0] if rest else ""


def split_user(rest: str, system: bool) -> tuple[str | None, str]:
    """The user, if the file has that column, and the command as written. Raises Refused."""
    user, command = first_word(rest) if system else (None, rest)
    if user and not USER.fullmatch(user):
        raise Refused(
            f"{shown(user)} is no user name: cron expects one before the command here; is it a user's own crontab?"
        )
    if not command:
        raise Refused("no command after the time fields" + (" and the user" if system else ""))
    if not system and command.startswith("*"):
        raise Refused("the command starts with '*', which cron refuses: a time field too many?")
    if len(command.encode()) > LONGEST:
        raise Refused(f"the command has more than {LONGEST} bytes, which cron refuses; put it into a script")
    return user, command


def split_input(text: str) -> tuple[str, str | None]:
    """The command up to the first unescaped ``%``, and what cron would feed to it: ``%`` is a line break there."""
    end = next((match.start() for match in ESCAPE.finditer(text) if match[0] == "%"), len(text))
    command = ESCAPE.sub(lambda match: match[1], text[:end])
    if not command.strip():
        raise Refused("no command before the '%', which starts its input")
    return command, _input(text[end + 1 :]) if end < len(text) else None


def cut_short(command: str) -> bool:
    """Whether a command that ends at a ``%`` looks as if that was not meant: ``date +``, an open quote or bracket."""
    opened: list[str] = []
    escaped = False
    for letter in command:
        inside = opened[-1] if opened else ""
        if escaped or (letter == "\\" and inside != "'"):
            escaped = not escaped
        elif letter == inside:
            opened.pop()
        elif inside in {"'", '"'} and not (inside == '"' and letter in "(`"):
            continue
        elif letter in CLOSED_BY:
            opened.append(CLOSED_BY[letter])
    return bool(opened) or FORMAT.search(command) is not None


def _input(text: str) -> str:
    """Cron ends the input with a line break, unless nothing or only backslashes follow the last one."""
    fed = re.sub(r"\\?%", lambda match: "%" if len(match[0]) == 2 else "\n", text)
    core = fed.rstrip("\\")
    return fed if not core or core.endswith("\n") else fed + "\n"
