"""The fingerprint of an error: what stays the same when the same cause strikes another task, another day or machine.

It is made of three things: the type of the exception, its message with numbers, ids and other values taken out, and
the place: the file and function of the innermost frame outside of Python's own library. An attempt that has no
traceback to show (killed, lost, over its time) has its task's code for a place.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator

from taskkit.states import Outcome

FAILURES = frozenset({Outcome.FAILED, Outcome.TIMEOUT, Outcome.LOST, Outcome.GIVEN_UP})
"""Outcomes that have a fingerprint."""
LENGTH = 12
"""Hex letters of a fingerprint."""
READ, KEPT = 2_000, 300
"""Letters of a message that are looked at, and that are kept of what they become."""
TRACE = 70_000
_RULES = "1"
"""Goes into every fingerprint, so that other rules of taking values out never give an old fingerprint a new meaning."""

_DAY = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{0,6},?\s+"
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6}\.?"
_CODES = r"errno|exit code|exit status|exited with|status code|status|signal|error code|error|code|answered|HTTP(?:/\d(?:\.\d)?)?"
_VALUE = re.compile(
    "|".join(
        (
            r"(?P<url>\b[a-z][a-z0-9+.-]{1,20}://[^\s'\"<>]{1,2000})",
            r"(?P<mail>(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,6})",
            rf"(?P<code>\b(?i:{_CODES})[ :=]{{1,2}}\d{{1,4}}(?![\w.]))",
            r"(?P<mysql>(?<=\()\d{4}(?=, ?['\"]))",
            r"(?P<subs>\(\d+ sub-exceptions?\))",
            r"(?P<quoted>(?<!\w)'[^'\n]{0,1000}'(?!\w)|(?<!\w)\"[^\"\n]{0,1000}\"(?!\w))",
            r"(?P<object>(?<= at )0x[0-9a-fA-F]+)",
            rf"(?P<date>\b(?:{_DAY})?(?:\d{{1,2}}[ -]{_MONTH}|{_MONTH}\s+\d{{1,2}})[ ,-]{{1,2}}\d{{2,4}}\b)",
            r"(?P<path>(?<![\w/\\.:<>])(?:~|\.{1,2}|[A-Za-z]:)?(?:[/\\][\w.@%+~=,-]{1,255}){2,40}[/\\]?)",
            r"(?P<ipv6>(?<![\w:])(?=[0-9a-fA-F:]{0,40}\d)(?:[0-9a-fA-F]{0,4}:){2,7}[0-9a-fA-F]{0,4}(?![\w:]))",
            r"(?P<hex>\b0x[0-9a-fA-F]+|(?<![A-Za-z0-9])(?=[a-fA-F]{0,64}\d)[0-9a-fA-F]{7,128}"
            r"(?:-[0-9a-fA-F]{2,16}){0,8}(?![A-Za-z0-9]))",
            r"(?P<id>(?<![A-Za-z0-9])(?=(?:[A-Za-z]{0,40}\d){2})(?=[A-Za-z]{0,40}\d{1,40}[A-Za-z])"
            r"[A-Za-z0-9]{6,128}(?![A-Za-z0-9]))",
            r"(?P<number>(?:(?<![\w-])-)?\d+(?:[.,:/T+-]\d+)*(?:[eE][+-]?\d+|Z\b)?)",
        )
    )
)
_NAME = re.compile(r"[A-Za-z_][A-Za-z_.]{0,39}|[1-5]\d\d [A-Z][A-Za-z ]{2,40}")
"""What may stay within quotes: a name as code has them, or the line of an HTTP status."""
_VALUE_BEFORE = re.compile(r"(?:[:=,(\[]|\b(?:entry|value|key|string))\s*$")
_SAME_AGAIN = re.compile(r"(<[a-z]+>|%s|\?|%\([^()]{1,60}\)s)(?:\s*,\s*\1)+")
_TYPE = re.compile(r"[A-Za-z_][\w.]{0,199}(?=: |$)")
_FRAME = re.compile(r'^ *(?:\| )? {2}File "([^"\n]{1,1000})", line \d+, in ([^\n]{1,200})$', re.MULTILINE)
_CHAINED = re.compile(
    r"^(?:The above exception was the direct cause of the following exception|"
    r"During handling of the above exception, another exception occurred):$",
    re.MULTILINE,
)
_FIRST_OF_GROUP = re.compile(r"^ *\+-\+-{4,} 1 -{4,}$", re.MULTILINE)
_NEXT_OF_GROUP = re.compile(r"^ *\+-{4,}.*$", re.MULTILINE)
_MARGIN = re.compile(r"^ *\| ?", re.MULTILINE)
_STANDARD = re.compile(r"[/\\](?:python\d[\w.]*|Lib)[/\\](?!(?:site|dist)-packages[/\\])|^<frozen ")
_COMPREHENSIONS = frozenset({"<listcomp>", "<dictcomp>", "<setcomp>"})
_PARTED = re.compile(r"[/\\]")


def fingerprint(outcome: Outcome, code: str, error: str | None, traceback: str | None) -> str | None:
    """The fingerprint of an attempt that ended so, as lower-case hex; None when it did not fail."""
    if outcome not in FAILURES:
        return None
    trace = None if outcome in {Outcome.TIMEOUT, Outcome.LOST} else traceback
    parts = (_RULES, normalised(error or outcome.value, trace), place(trace) or f"code {code}")
    text = "\0".join(parts).encode("utf-8", "backslashreplace")
    return hashlib.blake2b(text, digest_size=LENGTH // 2).hexdigest()


def normalised(error: str, traceback: str | None = None) -> str:
    """An error with its values taken out, on one line; a group of exceptions is told with the first one in it."""
    said = _without_values(error)
    inner = _innermost_of_group(traceback) if traceback else None
    return said if inner is None else f"{said} > {_without_values(_last_line(inner))}"


def place(traceback: str | None) -> str | None:
    """Where an error came from: ``file.py:function``; None when the text shows no frame."""
    if not traceback:
        return None
    text = _last_exception(traceback[-TRACE:])
    frames = list(_frames(_innermost_of_group(text) or "")) or list(_frames(text))
    own = [frame for frame in frames if not _STANDARD.search(frame[0])]
    return next((f"{_file(path)}:{name}" for path, name in reversed(own or frames)), None)


def _without_values(error: str) -> str:
    """The type stays as it is; of the message the first two lines that hold anything."""
    text = error[:READ].strip()
    found = _TYPE.match(text.partition("\n")[0])
    kind = found[0] if found else ""
    lines = [line.strip() for line in text[len(kind) :].splitlines() if line.strip()]
    message = _VALUE.sub(_placeholder, " ".join(lines[:2]))
    message = " ".join(_SAME_AGAIN.sub(r"\1", message).split())
    return (kind + (message if message.startswith(":") or not kind else f" {message}")).strip()[:KEPT]


def _placeholder(found: re.Match[str]) -> str:
    kind, text = str(found.lastgroup), found[0]
    if kind in {"code", "mysql"}:  # a number that says what went wrong, not with which value
        return text
    if kind == "quoted":
        return text if _stays(found) else "<text>"
    if kind == "url":
        return _host(text)
    return {"mail": "<mail>", "path": "<path>", "subs": "(<n> sub-exceptions)"}.get(kind, "<n>")


def _stays(found: re.Match[str]) -> bool:
    """Whether what is in quotes names something of the code's; after a colon and the like it is a value."""
    inner = found[0][1:-1]
    if not _NAME.fullmatch(inner):
        return False
    before = found.string[max(0, found.start() - 12) : found.start()]
    return before.strip() in {"", ":"} or inner[0].isdigit() or not _VALUE_BEFORE.search(before)


def _host(url: str) -> str:
    """Scheme and host of a URL, which tell whose trouble it is; never the user and password in it."""
    scheme, _, rest = url.partition("://")
    host = re.split(r"[/?#]", rest, maxsplit=1)[0].rpartition("@")[2]
    return f"{scheme}://{re.sub(r'[0-9]+(?:[.:][0-9]+)*', '<n>', host)[:100]}/"


def _last_exception(traceback: str) -> str:
    """The part of a traceback that is about the exception that came out last."""
    return _CHAINED.split(traceback)[-1]


def _innermost_of_group(traceback: str) -> str | None:
    """What a traceback of a group says of the first exception in it, groups in groups too; None without a group."""
    if "+-+-" not in traceback:
        return None
    text = _last_exception(traceback[-TRACE:])
    first = _FIRST_OF_GROUP.search(text)
    if first is None:
        return None
    rest = text[first.end() :]
    following = next((m for m in _NEXT_OF_GROUP.finditer(rest) if not _FIRST_OF_GROUP.match(m[0])), None)
    section = rest[: following.start()] if following else rest
    return _last_exception(_MARGIN.sub("", _FIRST_OF_GROUP.split(section)[-1]))


def _last_line(trace: str) -> str:
    """The line of a traceback that tells type and message: the first one, behind the frames, that is not indented."""
    *_, behind = _FRAME.split(trace)
    lines = (line for line in behind.splitlines() if line.strip() and not line.startswith(" "))
    return next((line for line in lines if not line.startswith("Traceback ")), "")


def _frames(trace: str) -> Iterator[tuple[str, str]]:
    """``(path, function)`` of each frame, outermost first; comprehensions have frames only before Python 3.12."""
    for found in _FRAME.finditer(trace):
        if found[2] not in _COMPREHENSIONS:
            yield found[1], found[2].strip()


def _file(path: str) -> str:
    """The name of a file without where this machine keeps it; an ``__init__.py`` with its package."""
    parts = _PARTED.split(path)
    return "/".join(parts[-2:]) if parts[-1] == "__init__.py" else parts[-1]
