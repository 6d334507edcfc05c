"""What a crontab is read into: its lines, its jobs, and how it was told whether it has a user column."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from taskkit.cron import parse

Kind = Literal["comment", "blank", "env", "job", "refused"]


@dataclass(frozen=True, slots=True)
class Job:
    """One job line. ``notes`` say what is not carried over; ``env`` holds the environment lines above it.

    ``unique_key`` is made of the file's name without its folder, the time fields, the CRON_TZ in force, the user and
    the command, and of how many equal lines stand above. So reading a file twice, or from another folder, gives the
    same keys; a line that stands twice has two; and no key depends on any other line, nor on the environment.
    """

    expression: str
    timezone: str
    user: str | None
    command: str
    stdin: str | None
    env: Mapping[str, str]
    shell: str
    notes: tuple[str, ...]
    unique_key: str

    @property
    def payload(self) -> dict[str, Any]:
        """The payload for the built-in handler ``shell``: runs the command in cron's environment."""
        payload: dict[str, Any] = {
            "command": self.command,
            "shell": self.shell,
            "env": dict(self.env),
            "clean_env": True,
        }
        optional = {"stdin": self.stdin, "user": self.user}
        return payload | {name: value for name, value in optional.items() if value is not None}

    def task(self) -> dict[str, Any]:
        """The periodic task that this job becomes: code, payload and options for a producer's ``enqueue``."""
        return {
            "code": "shell",
            "payload": self.payload,
            "cron": self.expression,
            "timezone": self.timezone,
            "unique_key": self.unique_key,
        }

    def upcoming(self, after: datetime, count: int) -> list[datetime]:
        """The next ``count`` fire times after an instant, in UTC."""
        return parse(self.expression, self.timezone).upcoming(after, count)


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the file, numbered from 1; ``text`` is printable; ``reason`` is never empty when refused."""

    number: int
    text: str
    kind: Kind
    reason: str = ""
    job: Job | None = None


@dataclass(frozen=True, slots=True)
class Detected:
    """Whether the jobs have a user column (``system``), why we think so, and whether that is certain."""

    system: bool
    sure: bool
    reason: str


class Crontab(list[Line]):
    """The lines of one file in order, with what holds for all of them.

    ``detected`` tells how the user column was found out (``read(…, system=…)`` overrides it), ``notes`` what is
    different from cron for every job of the file.
    """

    def __init__(self, lines: Iterable[Line], name: str, detected: Detected, notes: Iterable[str]) -> None:
        super().__init__(lines)
        self.name = name
        self.detected = detected
        self.notes = tuple(notes)

    @property
    def jobs(self) -> list[Job]:
        """The jobs of the file, in its order."""
        return [line.job for line in self if line.job is not None]


class Refused(ValueError):
    """A line that becomes no job; the text is the reason."""
