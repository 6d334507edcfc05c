"""The identity of a process, as it stands in SQL, in Redis and in logs: its host, its pid, and what makes it unique."""

from __future__ import annotations

import os
import secrets
import socket

LONGEST_HOST = 80
"""With pid and random digits an identity fits into its columns of 120 letters."""
_role = "app"


def new_identity(random_bytes: int = 4) -> str:
    """``host:pid:random``: people see which process it is, and no other call gets the same one, on any host."""
    host = "".join(letter for letter in socket.gethostname() if letter.isprintable())
    return f"{_short(host)}:{os.getpid()}:{secrets.token_hex(random_bytes)}"


def play(role: str) -> None:
    """Say what this process is: worker, child, scheduler or cli; one that says nothing is an application."""
    global _role
    _role = role


def connection_name() -> str:
    """``taskkit-worker:host:pid``, under which a server lists the connections of this process."""
    host = "".join(letter for letter in socket.gethostname() if "!" <= letter <= "~")  # Redis takes no others
    return f"taskkit-{_role}:{_short(host)}:{os.getpid()}"


def _short(host: str) -> str:
    return host.replace(":", "-")[:LONGEST_HOST]
