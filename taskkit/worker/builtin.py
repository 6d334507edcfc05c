"""The handlers that every worker has: ``shell`` runs a program, ``http`` calls a URL, ``taskkit.noop`` nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from taskkit.worker.builtin_http import RequestFailed, http
from taskkit.worker.builtin_shell import CommandFailed, shell

__all__ = ["HANDLERS", "CommandFailed", "RequestFailed", "http", "noop", "shell"]


def noop(**payload: object) -> None:
    """Do nothing with any payload; what ``taskkit probe`` sends the whole way."""


HANDLERS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {"shell": shell, "http": http, "taskkit.noop": noop}
)
"""The built-in handlers by task code."""
