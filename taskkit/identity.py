"""The identity of a process, as it stands in SQL, in Redis and in logs: its host, its pid, and what makes it unique."""

from __future__ import annotations

import os
import secrets
import socket

LONGEST_HOST = 80
"""With pid and random digits an identity fits into its columns of 120 letters."""


def new_identity(random_bytes: int = 4) -> str:
    """``host:pid:random``: people see which process it is, and no other call gets the same one, on any host."""
    host = "".join(letter for letter in socket.gethostname() if letter.isprintable())
    short = host.replace(":", "-")[:LONGEST_HOST]
    return f"{short}:{os.getpid()}:{secrets.token_hex(random_bytes)}"
