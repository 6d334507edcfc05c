"""Processes of taskkit that start quickly: forked from one that has imported what they need, and otherwise their own.

Four fifths of the start of a worker or a scheduler are imports, which a test run would pay for a thousand times. What
is forked has its own session, environment, folder and path, runs its module as ``python -m`` does, and ends on its own;
only its command line in /proc is that of the one that forked it. Where the system cannot do it, ``python -m`` it is.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from tests.machine import ending_with_parent

ROOT = Path(__file__).parents[1]
CODE = struct.Struct("!i")
LONGEST = 1 << 18
PR_SET_PDEATHSIG, PR_SET_NAME = 1, 15
WARM = (
    "pymysql sqlalchemy.dialects.mysql.pymysql sqlalchemy.dialects.sqlite.pysqlite redis taskkit.worker.process "
    "alembic.command alembic.context click taskkit.logs taskkit.center.wires taskkit.worker.nursery_link taskkit.scheduler.process taskkit.doors taskkit.embedded taskkit.queues.connect"
).split()
WARMER = {
    "taskkit.watchdog": ["taskkit.watchdog.process", "taskkit.watchdog.policy", "taskkit.analytics.survey"]
}
"""What is forked from a process of its own, since the others must not have loaded so much."""


class Forked:
    """A forked process, with as much of Popen as tests need."""

    def __init__(self, pid: int, status: int) -> None:
        self.pid, self._status = pid, status
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Its exit code, negative for a signal; None while it lives."""
        return self._look(0)

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code; raises TimeoutExpired when it lives on for so many seconds."""
        code = self._look(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _look(self, seconds: float | None) -> int | None:
        if self.returncode is None and select.select([self._status], [], [], seconds)[0]:
            told = os.read(self._status, CODE.size)
            os.close(self._status)
            self.returncode = CODE.unpack(told)[0] if told else -signal.SIGKILL
        return self.returncode


class Zygote:
    """The process that forks; it ends with this one, and all that it forked with it."""

    def __init__(self, kind: str) -> None:
        self._sock, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._process = subprocess.Popen(
            [*ending_with_parent(), sys.executable, "-m", "tests.zygote", str(theirs.fileno()), kind],
            cwd=ROOT,
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        theirs.close()
        self._asking = threading.Lock()

    def fork(
        self, module: str, arguments: Sequence[str], env: Mapping[str, str], cwd: Path, out: int, err: int
    ) -> Forked:
        """Run a module as a process of its own, with these descriptors for what it prints."""
        reader, writer = os.pipe()
        wanted = {"module": module, "arguments": list(arguments), "env": dict(env), "cwd": str(cwd)}
        with self._asking:
            try:
                socket.send_fds(self._sock, [json.dumps(wanted).encode()], [out, err, writer])
            finally:
                os.close(writer)
            return Forked(int(self._sock.recv(32)), reader)


def launch(
    module: str, arguments: Sequence[str], env: Mapping[str, str], cwd: Path, out: Any, err: Any
) -> Forked | subprocess.Popen[bytes]:
    """Start ``python -m module arguments`` in a session of its own; it is killed when this process ends."""
    if hasattr(os, "pidfd_open") and sys.platform == "linux":
        return _zygote(os.getpid(), module if module in WARMER else "").fork(
            module, arguments, env, cwd, out.fileno(), err.fileno()
        )
    return subprocess.Popen(
        [*ending_with_parent(), sys.executable, "-m", module, *arguments],
        env=dict(env),
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=out,
        stderr=err,
        start_new_session=True,
    )


@cache
def _zygote(_pid: int, kind: str) -> Zygote:
    return Zygote(kind)


def serve(control: socket.socket) -> dict[str, Any] | None:
    """Fork for each request and tell of each end; None when nobody asks any more, in the forked ones what to become."""
    living: dict[int, tuple[int, int]] = {}
    while True:
        for ready in select.select([control.fileno(), *living], [], [])[0]:
            if ready in living:
                _tell_end(ready, *living.pop(ready))
                continue
            data, descriptors, _, _ = socket.recv_fds(control, LONGEST, 3)
            if not data:
                return None
            out, err, status = descriptors
            pid = os.fork()
            if pid == 0:
                control.detach()
                _take_place(out, err)
                return dict(json.loads(data))
            os.close(out)
            os.close(err)
            control.send(str(pid).encode())
            living[os.pidfd_open(pid)] = pid, status


def _tell_end(descriptor: int, pid: int, status: int) -> None:
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with contextlib.suppress(BrokenPipeError):  # nobody waits for it any more
        os.write(status, CODE.pack(code))
    os.close(status)
    os.close(descriptor)


def _take_place(out: int, err: int) -> None:
    """A session and descriptors of its own, nobody else's; it dies with the process that forked it."""
    parent = os.getppid()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    os.setsid()
    os.dup2(out, 1)
    os.dup2(err, 2)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))


def _become(wanted: dict[str, Any]) -> None:
    ctypes.CDLL(None).prctl(PR_SET_NAME, wanted["module"].encode())  # as ps and top name it
    os.chdir(wanted["cwd"])
    os.environ.clear()
    os.environ.update(wanted["env"])
    own = [path for path in wanted["env"].get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.path = [wanted["cwd"], *own, *(path for path in sys.path if path not in {str(ROOT), *own})]
    sys.argv = [wanted["module"], *wanted["arguments"]]
    time.tzset()
    runpy.run_module(wanted["module"], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    for name in [*WARM, *WARMER.get(sys.argv[2], ())]:
        __import__(name)
    if sys.argv[2] in WARMER:
        __import__("taskkit.watchdog.checks").watchdog.checks.preload()
    __import__("taskkit.center.wires").center.wires.MySQLWire(
        defer_connect=True
    )  # what TLS needs is made once
    found = serve(socket.socket(fileno=int(sys.argv[1])))
    if found is not None:
        _become(found)
