"""Logging: JSON lines with the task in every one of them, pretty on a terminal, in dated files with ``log_dir``.

A log call never raises, whatever is logged; passwords in URLs are replaced by ``***``.
"""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Iterator
from typing import Any, TextIO

from taskkit.errors import SettingsError
from taskkit.logs.handlers import DatedFiles, LineHandler, StreamHandler
from taskkit.logs.lines import JsonLines, Pretty, context, process_fields
from taskkit.settings import Settings

QUIET = ("httpx", "httpcore", "alembic", "apscheduler")
"""Loggers of which only warnings pass: some tell every request with its URL, and so the tokens of robots."""


def configure(settings: Settings, *, role: str, stream: TextIO | None = None, **fields: Any) -> None:
    """Send all log lines of this process to ``stream``; without one to files in ``log_dir``, else to stdout.

    ``role`` names the files. ``fields`` stand in every line, such as ``worker="…"``. May be called again.
    Raises SettingsError when ``log_dir`` cannot be written.
    """
    handler = (
        StreamHandler(stream or sys.stdout) if stream or not settings.log_dir else _files(settings, role)
    )
    pretty = settings.log_format == "pretty" or (settings.log_format == "auto" and handler.on_terminal)
    handler.setFormatter(Pretty(colour=handler.on_terminal) if pretty else JsonLines())
    process_fields.clear()
    process_fields.update(fields)
    root = logging.getLogger()
    remove_handlers()
    root.addHandler(handler)
    root.setLevel(settings.log_level.upper())
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)


def remove_handlers() -> None:
    """Undo ``configure``: close what it opened."""
    root = logging.getLogger()
    for handler in [handler for handler in root.handlers if isinstance(handler, LineHandler)]:
        root.removeHandler(handler)
        handler.close()


def _files(settings: Settings, role: str) -> LineHandler:
    assert settings.log_dir is not None  # noqa: S101 - told to mypy
    try:
        return DatedFiles(settings.log_dir, role, days=settings.log_days)
    except OSError as problem:
        reason = problem.strerror or problem
        raise SettingsError(f"log_dir = {str(settings.log_dir)!r}: cannot be written: {reason}") from None


@contextlib.contextmanager
def bind(**fields: Any) -> Iterator[None]:
    """Inside the block every line of this thread or asyncio task carries ``fields``, such as ``task_id=7``."""
    token = context.set({**context.get(), **fields})
    try:
        yield
    finally:
        context.reset(token)
