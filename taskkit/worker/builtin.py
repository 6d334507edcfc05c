"""The handlers that every worker has: ``shell`` runs a program, ``http`` calls a URL; two more are for tests of the way."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from taskkit.worker.builtin_http import RequestFailed, http
from taskkit.worker.builtin_shell import CommandFailed, shell

__all__ = ["HANDLERS", "CommandFailed", "RequestFailed", "http", "nap", "noop", "shell"]


def noop(**payload: object) -> None:
    """Do nothing with any payload; what ``taskkit probe`` sends the whole way."""


def nap(seconds: float) -> None:
    """Sleep; what drills run while they break something."""
    time.sleep(seconds)


HANDLERS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {"shell": shell, "http": http, "taskkit.noop": noop, "taskkit.nap": nap}
)
"""The built-in handlers by task code."""
