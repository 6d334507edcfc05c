"""What a log line says and how: one JSON object, or a line for people. Nothing in here ever raises."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import socket
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import PurePath
from typing import Any

import msgspec

from taskkit.settings.urls import UNSPOKEN, redact_text
from taskkit.texts import encodable, harmless

LONGEST = 16_384
"""Characters of one message or extra that are kept."""
TASK_FIELDS = ("task_id", "task_code", "attempt", "worker")

context: ContextVar[Mapping[str, Any]] = ContextVar("taskkit_log_context", default={})  # noqa: B039 - never changed
process_fields: dict[str, Any] = {}

_own_attributes = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_host = socket.gethostname()
_userinfo = re.compile(r'([a-z][a-z0-9+.-]*://[^\s:/?#@"\\]*:)(?:[^\s"\\]|\\[^nrt])+@', re.IGNORECASE)
_parameter = re.compile(rf'([?&]{UNSPOKEN}=)(?:[^\s&#"\\]|\\[^nrt])+', re.IGNORECASE)
_colours = {"debug": "2", "info": "32", "warning": "33", "error": "31", "critical": "1;31"}


def fields_of(record: logging.LogRecord) -> dict[str, Any]:
    """Everything a line tells, in its order: what, which task, where, what else, and the exception."""
    line: dict[str, Any] = {
        "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")[:-6] + "Z",
        "level": record.levelname.lower(),
        "logger": record.name,
        "message": message_of(record),
    }
    extras = {key: value for key, value in vars(record).items() if key not in _own_attributes}
    told = {**process_fields, **context.get(), **extras}
    line |= {key: told.pop(key) for key in TASK_FIELDS if told.get(key) is not None}
    line |= {"host": _host, "pid": record.process}
    for key, value in told.items():
        if value is not None and key not in TASK_FIELDS:
            line[f"{key}_" if key in line else key] = value
    if text := exception_of(record):
        line["exception"] = text
    return line


def message_of(record: logging.LogRecord) -> str:
    """The message with its arguments; when they do not fit, both as they are."""
    try:
        return cut(record.getMessage())
    except Exception:  # noqa: BLE001 - a log call never raises
        return cut(f"{safe_repr(record.msg)} {safe_repr(record.args)}")


def exception_of(record: logging.LogRecord) -> str:
    """The traceback and stack of a record, or nothing."""
    parts = []
    with contextlib.suppress(Exception):
        if record.exc_info and record.exc_info[0]:
            parts.append(logging.Formatter().formatException(record.exc_info))
        elif record.exc_text:
            parts.append(record.exc_text)
    if record.stack_info:
        parts.append(record.stack_info)
    return cut("\n".join(parts), 4 * LONGEST)


def cut(text: str, limit: int = LONGEST) -> str:
    """A text of bounded length: a long one loses its middle, and says how much."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]} …{len(text) - 2 * half} characters left out… {text[-half:]}"


def safe_repr(value: object) -> str:
    """``repr`` that never raises and has a bounded length."""
    try:
        return cut(repr(value))
    except Exception:  # noqa: BLE001 - a log call never raises
        return f"<unprintable {type(value).__name__}>"


def _unknown(value: object) -> str:
    return str(value) if isinstance(value, PurePath) else safe_repr(value)


def encode(line: dict[str, Any]) -> str:
    """One line of JSON; what JSON cannot hold becomes its repr, lone surrogates become ``\\udc80``."""
    try:
        text = _encoder.encode(line).decode()
    except Exception:  # noqa: BLE001 - a log call never raises
        text = ""
    if not text or len(text) > 4 * LONGEST:
        text = _encoder.encode({_clean_text(str(key)): _clean(value) for key, value in line.items()}).decode()
    return _parameter.sub(r"\1***", _userinfo.sub(r"\1***@", text)) if "://" in text else text


def _clean(value: Any) -> Any:
    """The value if JSON can hold it and it is not too long, else its repr."""
    if isinstance(value, str):
        return _clean_text(value)
    try:
        short = len(_encoder.encode(value)) <= LONGEST
    except Exception:  # noqa: BLE001 - a log call never raises
        short = False
    return value if short else _clean_text(safe_repr(value))


def _clean_text(text: str) -> str:
    return encodable(cut(text))


_encoder = msgspec.json.Encoder(enc_hook=_unknown)


class JsonLines(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        return encode(fields_of(record))


class Pretty(logging.Formatter):
    """A line for people: time (UTC), level, message, fields; control characters cannot reach the terminal."""

    def __init__(self, *, colour: bool = False) -> None:
        super().__init__()
        self.colour = colour and "NO_COLOR" not in os.environ

    def format(self, record: logging.LogRecord) -> str:
        line = fields_of(record)
        clock, level = line.pop("time")[11:], line.pop("level")
        logger, message, exception = line.pop("logger"), line.pop("message"), line.pop("exception", "")
        del line["host"], line["pid"]
        told = " ".join(f"{key}={_plain(value)}" for key, value in line.items())
        head = f"{clock} {self._painted(level)} {_visible(message)}"
        tail = self._dim(f"  {_visible(told)} [{logger}]".replace("   [", "  ["))
        return "\n".join([head + tail, *(f"    {row}" for row in _shown(exception).splitlines())])

    def _painted(self, level: str) -> str:
        name = f"{level.upper():<8}"
        return f"\x1b[{_colours.get(level, '0')}m{name}\x1b[0m" if self.colour else name

    def _dim(self, text: str) -> str:
        return f"\x1b[2m{text}\x1b[0m" if self.colour else text


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else _unknown(value)


def _visible(text: str) -> str:
    return _shown(text).replace("\n", "\\n")


def _shown(text: str) -> str:
    return harmless(cut(redact_text(text)), keep="\n\t")
