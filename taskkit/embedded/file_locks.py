"""File locks that end with their process, however it ends, and that a fork does not take along."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from taskkit.errors import EmbeddedError

_open: set[FileLock] = set()


class FileLock:
    """An open lock file; every object holds a lock of its own, also within one process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        _open.add(self)

    @property
    def held(self) -> bool:
        """Whether this process still has the file open: a forked child of the holder has not."""
        return self.fd >= 0

    @property
    def in_place(self) -> bool:
        """Whether the file is still the one that others find under this path."""
        try:
            return os.path.samestat(os.fstat(self.fd), os.stat(self.path))  # noqa: PTH116 - beside fstat
        except FileNotFoundError:
            return False

    def share(self) -> None:
        """Hold the lock together with others; waits while somebody holds it alone."""
        fcntl.flock(self.fd, fcntl.LOCK_SH)

    def try_alone(self) -> bool:
        """Hold the lock alone if nobody else holds it; a share held before may be lost in trying."""
        try:
            fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def close(self) -> None:
        """Give the lock up, also in the name of a child that has just been forked."""
        if self.held:
            fcntl.flock(self.fd, fcntl.LOCK_UN)
            self.hand_over()

    def hand_over(self) -> None:
        """Close the file here without unlocking: a process that inherited it goes on holding the lock."""
        _open.discard(self)
        os.close(self.fd)
        self.fd = -1


def _let_go_in_child() -> None:
    for lock in list(_open):
        lock.hand_over()


os.register_at_fork(after_in_child=_let_go_in_child)


def is_free(path: Path) -> bool:
    """Whether nobody holds the lock of this file."""
    lock = FileLock(path)
    try:
        return lock.try_alone()
    finally:
        lock.close()


@contextlib.contextmanager
def alone(path: Path, patience: float) -> Iterator[None]:
    """Hold a lock alone within the block; raises EmbeddedError when others keep it longer than ``patience`` s."""
    lock = FileLock(path)
    deadline = time.monotonic() + patience
    try:
        while not lock.try_alone():
            if time.monotonic() > deadline:
                raise EmbeddedError(
                    f"another process has held {path} for {patience:g} s; is it stopped or stuck?"
                )
            time.sleep(0.005)
        yield
    finally:
        lock.close()
