"""Every odd way in which a handler can end, by name."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, NoReturn


def _self_kill(number: int) -> NoReturn:
    os.kill(os.getpid(), number)
    time.sleep(60)
    raise AssertionError("unreachable")


class Locked(Exception):
    def __init__(self) -> None:
        super().__init__("holds a lock")
        self.lock = threading.Lock()


class Demanding(Exception):
    def __init__(self, one: int, *, two: int) -> None:
        super().__init__(f"needs {one} and {two}")


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def _raise(error: BaseException) -> NoReturn:
    raise error


def _endless(n: int = 0) -> int:
    return _endless(n + 1) + 1


ODD: dict[str, Callable[[], Any]] = {
    "exit_0": lambda: sys.exit(0),
    "exit_none": sys.exit,
    "exit_3": lambda: sys.exit(3),
    "exit_text": lambda: sys.exit("out of paper"),
    "interrupt": lambda: _raise(KeyboardInterrupt()),
    "generator_exit": lambda: _raise(GeneratorExit()),
    "base": lambda: _raise(BaseException("x")),
    "os_exit_0": lambda: os._exit(0),
    "os_exit_7": lambda: os._exit(7),
    "locked": lambda: _raise(Locked()),
    "demanding": lambda: _raise(Demanding(1, two=2)),
    "mute": lambda: _raise(Mute()),
    "group": lambda: _raise(BaseExceptionGroup("both", [ValueError("one"), KeyboardInterrupt("two")])),
    "bytes": lambda: _raise(ValueError(b"caf\xe9".decode("utf-8", "surrogateescape"))),
    "nul": lambda: _raise(ValueError("a\0b")),
    "silent": lambda: _raise(ValueError()),
    "long": lambda: _raise(ValueError("😀" * 16_384)),
    "recursion": _endless,
    "segfault": lambda: _self_kill(signal.SIGSEGV),
    "killed": lambda: _self_kill(signal.SIGKILL),
}
