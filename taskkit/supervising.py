"""Processes of the roles: started, watched, started again with calm when they die, and stopped without a trace."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from taskkit.beats import HOST_LETTERS
from taskkit.clock import monotonic

PAUSES = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
"""Seconds before a role that died is started again; the last one repeats."""
STEADY_S = 60.0
"""A role that lived so long begins again with the first pause."""
BAD_START = 2
"""The exit code of a role whose settings, application or stores are wrong."""
PR_SET_PDEATHSIG = 1


@dataclass(slots=True)
class Role:
    """One role: its command, options of Popen for it, and the process that runs it now, if any."""

    name: str
    command: list[str]
    surroundings: dict[str, Any] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    deaths: int = 0
    starts_again: float = 0.0

    @property
    def pid(self) -> int | None:
        """The process that runs, or None."""
        return self.process.pid if self.process is not None else None

    def is_of(self, node: Mapping[str, Any]) -> bool:
        """Whether this row of a node is that of the process that runs."""
        return bool(node["pid"] == self.pid) and is_here(node)

    def start(self) -> None:
        """Start the process in a group of its own: Ctrl-C reaches it only through us, once."""
        self.started = monotonic()
        self.process = subprocess.Popen(
            self.command,
            stdin=subprocess.DEVNULL,
            process_group=0,
            **self.surroundings,
            preexec_fn=_end_with_us(),  # noqa: PLW1509 - one system call, and we have no threads
        )

    def signal(self, number: int) -> None:
        """Send a signal to the process, if it runs."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(number)

    def kill(self) -> None:
        """End the process and its group at once."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def died(self) -> int | None:
        """The exit code of a process that has ended since the last look (minus a signal), else None."""
        code = self.process.poll() if self.process is not None else None
        if code is not None:
            self.process = None
        return code

    def pause(self) -> float:
        """Seconds until it is to start again, after it died just now."""
        lived = monotonic() - self.started
        self.deaths = 1 if lived >= STEADY_S else self.deaths + 1
        pause = PAUSES[min(self.deaths, len(PAUSES)) - 1]
        self.starts_again = monotonic() + pause
        return pause


def is_here(node: Mapping[str, Any]) -> bool:
    """Whether a node is of this host: in containers a pid alone is found on every one."""
    return bool(node["host"] == socket.gethostname()[:HOST_LETTERS])


def ending(code: int) -> str:
    """How a process ended, in words."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"


def _end_with_us() -> Callable[[], None] | None:
    """Let the kernel tell the role to stop should we die without a word (Linux)."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    parent = os.getpid()

    def arm() -> None:
        prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(0)

    return arm


class Watch:
    """Keeps roles running until it is told to stop."""

    def __init__(self, roles: Sequence[Role], tell: Callable[[str], None], patience: float) -> None:
        self.roles, self.tell, self.patience = roles, tell, patience
        self.asked = 0
        self.bad_start = False

    def ask(self, *_: object) -> None:
        """Wish for a stop; a second time means at once. Safe in a signal handler."""
        self.asked += 1

    def start(self) -> None:
        """Start all roles."""
        for role in self.roles:
            role.start()

    def look(self) -> None:
        """Start again what died and has waited out its pause; a role that cannot even start stops everything."""
        for role in self.roles:
            code = role.died()
            if code is not None:
                self._met(role, code)
            elif role.process is None and monotonic() >= role.starts_again and not self.asked:
                self.tell(f"{role.name} starts again")
                role.start()

    def _met(self, role: Role, code: int) -> None:
        first = not role.deaths
        pause = role.pause()
        if code == BAD_START and first:
            self.tell(f"{role.name} could not start, see above; stopping")
            self.bad_start = True
            self.asked = max(1, self.asked)
            return
        self.tell(f"{role.name} {ending(code)}; it starts again in {pause:g} s")

    def stop(self, rest: Callable[[float], None]) -> bool:
        """Stop all roles in order, by force when that takes too long; returns whether no force was needed."""
        for role in self.roles:
            role.signal(signal.SIGTERM)
        deadline, told = monotonic() + self.patience, self.asked
        while self._left() and monotonic() < deadline:
            if self.asked > max(told, 1):
                told = self.asked
                for role in self.roles:
                    role.signal(signal.SIGTERM)
            rest(0.05)
        forced = self._left()
        for role in forced:
            self.tell(f"{role.name} (pid {role.pid}) did not stop in {self.patience:g} s and is killed")
            role.kill()
        return not forced

    def _left(self) -> list[Role]:
        return [role for role in self.roles if role.process is not None and role.process.poll() is None]
