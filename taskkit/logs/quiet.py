"""Silence for the loggers of httpx and httpcore, which write whole URLs, and so tokens, at every request."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from contextvars import ContextVar
from functools import cache

URL_LOGGERS = (
    "httpx",
    "httpcore.connection",
    "httpcore.http11",
    "httpcore.http2",
    "httpcore.proxy",
    "httpcore.socks",
)

_silent: ContextVar[bool] = ContextVar("_silent", default=False)


@contextlib.contextmanager
def unlogged() -> Iterator[None]:
    """Inside the block httpx and httpcore log nothing; other threads are not meant."""
    _watch_loggers()
    token = _silent.set(True)
    try:
        yield
    finally:
        _silent.reset(token)


@cache
def _watch_loggers() -> None:
    for name in URL_LOGGERS:
        logging.getLogger(name).addFilter(lambda record: not _silent.get())
