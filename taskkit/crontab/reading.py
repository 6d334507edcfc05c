"""Reads a crontab line by line; every line ends as exactly one ``Line``."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import PurePath

from taskkit.cron import parse
from taskkit.crontab import detection
from taskkit.crontab.entries import cut_short, split_input, split_time, split_user
from taskkit.crontab.environment import job_environment, notes, setting
from taskkit.crontab.lines import Crontab, Detected, Job, Line, Refused
from taskkit.errors import CronError
from taskkit.texts import harmless

MOST_LINES = 10_000
UNREADABLE = re.compile(r"[\ud800-\udfff]")
STRAY_BYTE = re.compile(r"[\udc80-\udcff]")
DIFFERENT = (
    "an exit code other than 0 counts as failed and follows the retry rules; cron ignores it",
    "output is kept with the run, cut to a bound; cron mails it",
    "a task has a time limit and never overlaps itself; cron knows neither",
)
NO_USER = "the jobs run as the worker's own user; cron ran them as the owner of the crontab"
WITH_USER = "the jobs name their user: a worker can run them only as root or as that very user"
OPEN_END = "the file does not end with a line break: Debian's cron would refuse it whole"
CARRIAGE_RETURNS = (
    "lines end in CR LF, read as plain line ends: Debian's cron would hand the CR to the command"
)
BYTE_ORDER_MARK = "a byte order mark at the start was dropped: Debian's cron would refuse the file"
PERCENT = r"an unescaped % ends the command, and what follows it is its input; where a % is meant, write \%"
TOO_MANY_LINES = f"more than {MOST_LINES} lines: Debian's cron would refuse the file whole"
UNSURE = "whether there is a user column is not certain ({}): say which it is if this is wrong"


def decode(data: bytes) -> str:
    """The text of a crontab file for `read`; bytes that are not UTF-8 are kept apart, to be refused line by line."""
    return data.decode("utf-8", "surrogateescape")


def read(text: str, *, name: str, system: bool | None = None, timezone: str) -> Crontab:
    """Read a crontab; ``system`` says whether jobs have a user column, None finds it out (see `Crontab.detected`).

    ``name`` is the path or name of the file; ``timezone`` is that of every job above which no CRON_TZ line stands.
    Nothing in the text is an error: what cannot be scheduled is a line of kind ``refused`` with its reason.
    """
    raw = _split(text)
    detected = _detect(raw, name, system)
    about = [note for note, holds in _about_file(text, raw, detected) if holds]
    reader = _Reader(PurePath(name).name, detected.system, timezone, _about_lines(text, raw))
    lines = [reader.read(number, line) for number, line in enumerate(raw, 1)]
    jobs = [line.job for line in lines if line.job]
    return Crontab(lines, name, detected, [*about, *_about_jobs(jobs)])


def _split(text: str) -> list[str]:
    """Only a line feed ends a line, as for cron; one at the end begins no further line."""
    lines = text.removeprefix("\ufeff").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def _detect(raw: list[str], name: str, system: bool | None) -> Detected:
    if system is not None:
        return Detected(system, True, "as the caller said")
    return detection.by_path(name) or detection.by_lines(_commands(raw))


def _commands(raw: list[str]) -> Iterator[str]:
    """What follows the time fields, for every line that has them."""
    for line in raw:
        bare = line.removesuffix("\r").lstrip(" \t")
        try:
            if bare and bare[0] != "#" and setting(bare) is None:
                yield split_time(bare)[1]
        except Refused:
            continue


def _about_file(text: str, raw: list[str], detected: Detected) -> list[tuple[str, bool]]:
    return [
        (BYTE_ORDER_MARK, text.startswith("\ufeff")),
        (CARRIAGE_RETURNS, any(line.endswith("\r") for line in raw)),
        (OPEN_END, not text.endswith("\n") and bool(raw)),
        (TOO_MANY_LINES, len(raw) > MOST_LINES),
        (UNSURE.format(detected.reason), not detected.sure),
    ]


def _about_lines(text: str, raw: list[str]) -> dict[int, str]:
    """Notes for single lines, by number: the last one when it has no line break."""
    return {len(raw): OPEN_END} if raw and not text.endswith("\n") else {}


def _about_jobs(jobs: list[Job]) -> list[str]:
    if not jobs:
        return []
    return [*DIFFERENT, WITH_USER if any(job.user for job in jobs) else NO_USER]


class _Reader:
    """Goes down the lines and remembers the environment lines and how often a job stood there already."""

    def __init__(self, file: str, system: bool, timezone: str, about: dict[int, str]) -> None:
        self.file = file
        self.system = system
        self.timezone = timezone
        self.about = about
        self.settings: dict[str, str] = {}
        self.seen: Counter[str] = Counter()

    def read(self, number: int, raw: str) -> Line:
        """What one line is; never raises."""
        bare = raw.removesuffix("\r").lstrip(" \t")
        text = printable(raw.removesuffix("\r"))
        if not bare:
            return Line(number, text, "blank")
        if bare.startswith("#"):
            return Line(number, text, "comment")
        try:
            return self._active(number, text, bare)
        except Refused as refusal:
            return Line(number, text, "refused", str(refusal))
        except CronError as refusal:
            return Line(number, text, "refused", printable(str(refusal)))

    def _active(self, number: int, text: str, bare: str) -> Line:
        _check_characters(bare)
        if found := setting(bare):
            name, value, remark = found
            self.settings[name] = value
            return Line(number, text, "env", remark)
        return Line(number, text, "job", job=self._job(number, bare, text))

    def _job(self, number: int, bare: str, text: str) -> Job:
        expression, rest = split_time(bare)
        user, written = split_user(rest, self.system)
        command, stdin = split_input(written)
        timezone = self.settings.get("CRON_TZ") or self.timezone
        parse(expression, timezone)
        environment = job_environment(self.settings)
        return Job(
            expression=expression,
            timezone=timezone,
            user=user,
            command=command,
            stdin=stdin,
            env=environment,
            shell=environment["SHELL"],
            notes=(*notes(self.settings), *filter(None, [self.about.get(number), _percent(command, stdin)])),
            unique_key=self._key(expression, user or "", written.rstrip()),
        )

    def _key(self, *parts: str) -> str:
        told = "\0".join((self.file, self.settings.get("CRON_TZ", ""), *parts))
        digest = hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest()[:24]
        self.seen[digest] += 1
        stem = re.sub(r"[^A-Za-z0-9._-]", "_", self.file)[:40]
        return f"crontab:{stem}:{digest}" + (f":{self.seen[digest]}" if self.seen[digest] > 1 else "")


def _percent(command: str, stdin: str | None) -> str | None:
    return PERCENT if stdin is not None and cut_short(command) else None


def _check_characters(line: str) -> None:
    if "\0" in line:
        raise Refused("a NUL byte, at which cron would cut the line off")
    if UNREADABLE.search(line):
        raise Refused("bytes that are not UTF-8, which no payload can hold; save the file as UTF-8")


def printable(text: str) -> str:
    r"""The text of a line as a terminal can show it; bytes that were not UTF-8 as ``\xff``."""
    return harmless(STRAY_BYTE.sub(lambda found: f"\\x{ord(found[0]) - 0xDC00:02x}", text), keep="\t")
