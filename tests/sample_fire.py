"""Handlers that hurt their worker on purpose: they close its pipes, kill its processes, leave processes behind, and grow."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import itertools
import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.sample_app import kit, note, wait_for

__all__ = ["kit"]
SLEEP = ["sleep", "1000"]
hoard: list[bytearray] = []


def _in_session(path: str) -> None:
    note(path, subprocess.Popen(SLEEP, start_new_session=True).pid)


def _orphan(path: str) -> None:
    """Its parent is gone at once, so that the nursery adopts it."""
    subprocess.run(["setsid", "sh", "-c", 'sleep 1000 & echo $! >> "$0"', path], check=True)


def _without_environment(path: str) -> None:
    """Likewise, and it bears no mark."""
    text = 'sleep 1000 & echo $! >> "$0"'
    subprocess.run(["/usr/bin/env", "-i", "/usr/bin/setsid", "/bin/sh", "-c", text, path], check=True)


def _daemon(path: str) -> None:
    """A copy of the handler's own process, as daemons are made: two forks, a session, all descriptors closed."""
    first = os.fork()
    if first:
        os.waitpid(first, 0)
        wait_for(lambda: bool(Path(path).read_text()))
        return
    os.setsid()
    if os.fork() == 0:
        note(path, os.getpid())
        os.closerange(0, 1000)
        time.sleep(1000)
    os._exit(0)


LEAVE: dict[str, Callable[[str], None]] = {
    "in a session": _in_session,
    "orphan": _orphan,
    "without environment": _without_environment,
    "daemon": _daemon,
}


@kit.task("leave", max_retry=0)
def leave(how: str, path: str, then: str = "return") -> None:
    """Starts a process in a session of its own, and returns, or sits in C."""
    LEAVE[how](path)
    wait_for(lambda: len(Path(path).read_text().split()) >= 1)
    if then == "spin":
        deque(itertools.repeat(0), maxlen=0)
    if then == "die":
        os.kill(os.getpid(), signal.SIGKILL)


@kit.task("spin_with_shell", max_retry=0)
def spin_with_shell(path: str) -> None:
    """A loop in C that ignores SIGTERM, beside a shell and its child."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    note(path, subprocess.Popen(["sh", "-c", 'sleep 1000 & echo $! >> "$0"; wait', path]).pid)
    wait_for(lambda: len(Path(path).read_text().split()) >= 2)
    deque(itertools.repeat(0), maxlen=0)


def _close_all() -> None:
    os.closerange(0, 1000)


def _close_and_sleep() -> None:
    _close_all()
    time.sleep(60)


def _close_and_open_others() -> None:
    """Its own sockets now bear the numbers that were its child's."""
    _close_all()
    import socket

    for _ in range(40):
        socket.socketpair()


def _write_garbage() -> None:
    """Into whatever is open, the child's own pipe among it."""
    for fd in range(3, 64):
        with contextlib.suppress(OSError):
            fcntl.fcntl(fd, fcntl.F_GETFD)
            os.set_blocking(fd, False)
            os.write(fd, b"\0\0\0\x05hello" * 50)
    time.sleep(60)


def _write_a_giant() -> None:
    for fd in range(3, 64):
        with contextlib.suppress(OSError):
            os.set_blocking(fd, False)
            os.write(fd, b"nonsense")
    time.sleep(60)


def _fill_a_pipe() -> None:
    """Waits for a program that waits for somebody to read what it writes."""
    subprocess.Popen(["yes"], stdout=subprocess.PIPE).wait()


def _ignore_signals() -> None:
    for number in range(1, 32):
        with contextlib.suppress(OSError):
            signal.signal(number, signal.SIG_IGN)
    while True:
        time.sleep(1)


def _stop_itself() -> None:
    """The thread that sends the signal may run on until the main thread has its turn to take it."""
    os.kill(os.getpid(), signal.SIGSTOP)
    time.sleep(60)


def _fork_and_return_twice() -> None:
    os.fork()


def _fork_many() -> None:
    for _ in range(20):
        if os.fork() == 0:
            time.sleep(1000)
    os._exit(5)


def _close_stdout() -> None:
    sys.stdout.close()


HURT: dict[str, Callable[[], Any]] = {
    "closes all": _close_all,
    "closes all and sleeps": _close_and_sleep,
    "closes all and opens others": _close_and_open_others,
    "writes garbage": _write_garbage,
    "writes a giant frame": _write_a_giant,
    "fills a pipe": _fill_a_pipe,
    "ignores signals": _ignore_signals,
    "forks and returns twice": _fork_and_return_twice,
    "forks many and exits": _fork_many,
    "reads nowhere": lambda: ctypes.string_at(0),
    "aborts": os.abort,
    "exits 0": lambda: os._exit(0),
    "kills itself": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "stops itself": _stop_itself,
    "closes stdout": _close_stdout,
}


@kit.task("hurt", max_retry=0, timeout=2)
def hurt(how: str) -> None:
    HURT[how]()


@kit.task("hurt_async", max_retry=0, timeout=2)
async def hurt_async(how: str) -> None:
    HURT[how]()


@kit.task("kill_nursery", max_retry=3, retry_delays=[0.05], jitter=0)
def kill_nursery(path: str) -> None:
    note(path, "begun")
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(60)


@kit.task("poison", max_retry=3, retry_delays=[0.05], jitter=0)
def poison(path: str, how: str) -> None:
    """Kills its child every time."""
    note(path, "begun")
    HURT[how]()
    time.sleep(60)


@kit.task("grow")
def grow(mib: int) -> int:
    """Keeps so much memory after it has returned."""
    hoard.append(bytearray(os.urandom(1024)) * (mib * 1024))
    return os.getpid()
