"""Shared memory between parent and child: what runs since when, and what was taken back before it began.

Layout: two unsigned 64-bit numbers ``revoked`` and ``begun``, then for each slot ``seq`` (0: free) and the
monotonic second at which its job started. Begin and revoke exclude each other by a record lock on the file.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
import tempfile
import time
from pathlib import Path

from taskkit.worker.strays import MEMORY

HEAD = struct.Struct("=QQ")
NUMBER = struct.Struct("=Q")
START = struct.Struct("=d")
SLOT = struct.Struct("=Qd")
LOCK_TRIES = 50


class Marks:
    """The marks of one child; ``create`` in the parent, ``Marks(fd)`` in the child."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.slots = (os.fstat(fd).st_size - HEAD.size) // SLOT.size
        self._map = mmap.mmap(fd, HEAD.size + self.slots * SLOT.size)

    @classmethod
    def create(cls, slots: int, name: str = "") -> Marks:
        """Marks for a new child with room for ``slots`` jobs at a time; the child's mappings bear the name."""
        fd = unnamed_file(f"{MEMORY}{name}")
        os.ftruncate(fd, HEAD.size + slots * SLOT.size)
        return cls(fd)

    def close(self) -> None:
        """Release the memory and the descriptor."""
        self._map.close()
        os.close(self.fd)

    def begin(self, seq: int, slot: int, now: float) -> bool:
        """Child: mark a job as started; False when the parent has taken it back."""
        fcntl.lockf(self.fd, fcntl.LOCK_EX, 8)
        try:
            if NUMBER.unpack_from(self._map, 0)[0] >= seq:
                return False
            NUMBER.pack_into(self._map, 8, seq)
            place = HEAD.size + slot * SLOT.size
            START.pack_into(self._map, place + NUMBER.size, now)
            NUMBER.pack_into(self._map, place, seq)
            return True
        finally:
            fcntl.lockf(self.fd, fcntl.LOCK_UN, 8)

    def end(self, slot: int) -> None:
        """Child: nothing runs in this slot any more."""
        NUMBER.pack_into(self._map, HEAD.size + slot * SLOT.size, 0)

    def revoke(self, upto: int) -> int:
        """Parent: take back every job up to this number that has not begun; returns the last that has.

        A child that was stopped in the middle of a start keeps all of its jobs.
        """
        if not self._lock_soon():
            return upto
        try:
            begun = self.begun()
            NUMBER.pack_into(self._map, 0, upto)
            return begun
        finally:
            fcntl.lockf(self.fd, fcntl.LOCK_UN, 8)

    def _lock_soon(self) -> bool:
        for _ in range(LOCK_TRIES):
            try:
                fcntl.lockf(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 8)
            except OSError:
                time.sleep(0.001)
            else:
                return True
        return False

    def begun(self) -> int:
        """The number of the last job that has begun."""
        return int(NUMBER.unpack_from(self._map, 8)[0])

    def running(self, slot: int) -> tuple[int, float]:
        """The job in this slot and its start; (0, …) when it is free."""
        seq, started = SLOT.unpack_from(self._map, HEAD.size + slot * SLOT.size)
        return seq, started


def unnamed_file(name: str) -> int:
    """A descriptor of a file in memory that no folder lists."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create(name)
    fd, path = tempfile.mkstemp(prefix="taskkit-")
    Path(path).unlink()
    return fd
