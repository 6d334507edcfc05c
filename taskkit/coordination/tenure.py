"""The time for which something is ours: renewed by a thread, and over at the latest when its life has passed."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable

from taskkit.errors import LockLost

log = logging.getLogger("taskkit.coordination")
SURE = 0.99
"""The holder counts on this part of a life only: its clock may run a little slower than the store's."""
RENEWALS_IN_A_LIFE = 3
RETRIES_IN_A_LIFE = 10
HOLDER_BYTES = 8
"""Random bytes in the name of a holder: a process makes a new one each time it takes something."""
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def instant() -> float:
    """Seconds that never go back and, where the system can tell, count on while the machine sleeps."""
    return time.clock_gettime(_CLOCK)


class Tenure:
    """Renews every third of ``life`` seconds, counted from ``since``, until it is ended or lost.

    It is lost when ``renew`` says so, or when ``life`` has passed since the last renewal that went well was
    *sent*: that needs no answer from anybody, so a process that was stopped knows it at its next look. What was
    lost once stays lost. ``on_lost`` gets the reason, once, in a thread of its own.
    """

    def __init__(
        self,
        what: str,
        life: float,
        since: float,
        renew: Callable[[], bool],
        on_lost: Callable[[str], None] | None = None,
    ) -> None:
        self._what, self._life = what, life
        self._renew, self._on_lost = renew, on_lost
        self._until = since + life * SURE
        self._pid = os.getpid()
        self._mutex = threading.Lock()
        self._over = threading.Event()
        self._why: str | None = None
        for act in (self._keep, self._watch):
            threading.Thread(target=act, name=f"{what}: {act.__name__[1:]}", daemon=True).start()

    @property
    def lost(self) -> str | None:
        """Why it is not ours any more; None while it is."""
        if os.getpid() != self._pid:
            return f"process {self._pid} has it; a process forked from it has not"
        if not self._over.is_set() and instant() >= self._until:
            self._lose(self._late())
        return self._why

    def check(self) -> None:
        """Raise LockLost when it is not ours any more."""
        why = self.lost
        if why is not None:
            raise LockLost(f"{self._what} was lost: {why}")

    def end(self) -> None:
        """Renew no more."""
        if os.getpid() == self._pid:
            self._over.set()

    def _late(self) -> str:
        return f"it could not be renewed within its {self._life:g} s; was this process stopped, or its store away?"

    def _lose(self, why: str) -> None:
        with self._mutex:
            if self._over.is_set():
                return
            self._why = why
            self._over.set()
        log.warning("%s was lost: %s", self._what, why)

    def _watch(self) -> None:
        """Notices the end of the life even while a renewal hangs, and tells whoever wanted to know."""
        while not self._over.wait(max(0.0, self._until - instant())):
            if instant() >= self._until:
                self._lose(self._late())
        if self._why is not None and self._on_lost is not None:
            try:
                self._on_lost(self._why)
            except Exception:
                log.exception("%s: on_lost failed", self._what)

    def _keep(self) -> None:
        pause = self._life / RENEWALS_IN_A_LIFE
        while not self._over.wait(pause):
            pause = self._renewed()

    def _renewed(self) -> float:
        """Renew; the pause until the next time."""
        sent = instant()
        if sent >= self._until:
            self._lose(self._late())
            return 0.0
        try:
            ours = self._renew()
        except Exception as error:  # noqa: BLE001 - whatever it was: try again, the end of the life is watched
            log.warning("%s was not renewed, will try again: %s", self._what, error)
            return self._life / RETRIES_IN_A_LIFE
        if not ours:
            self._lose("somebody else has it, or it was taken away")
            return 0.0
        self._until = max(self._until, sent + self._life * SURE)
        return self._life / RENEWALS_IN_A_LIFE
