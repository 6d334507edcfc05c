"""What every process of taskkit is made of: a wish to stop, tickers with threads of their own, a clean end."""

from __future__ import annotations

import gc
import logging
import os
import queue
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

from taskkit.clock import monotonic
from taskkit.errors import TaskkitError

if TYPE_CHECKING:
    import click

log = logging.getLogger("taskkit.service")
LONGEST_PAUSE = 5.0


class Stop:
    """The wish to stop. The first signal asks for an end in order, the second one ends at once, after ``at_once``."""

    def __init__(self) -> None:
        self._event, self._asked = threading.Event(), False
        self._bell: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._wakers: list[Callable[[], None]] = []
        self.at_once: Callable[[], None] = lambda: None

    def listen(self) -> None:
        """Take SIGTERM and SIGINT; only in the main thread.

        A signal may come while the main thread holds the lock of the event that it waits for, so a thread of its own
        sets it; to put something into a SimpleQueue is safe in a signal handler.
        """
        threading.Thread(target=self._pass_on, name="stop", daemon=True).start()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._signalled)

    def on_ask(self, waker: Callable[[], None]) -> None:
        """Call ``waker`` when the wish comes up; it must be safe in a signal handler."""
        self._wakers.append(waker)

    def ask(self) -> None:
        """Wish for a stop in order."""
        self._asked = True
        self._event.set()
        for waker in self._wakers:
            waker()

    @property
    def asked(self) -> bool:
        """Whether the process is to stop."""
        return self._asked

    def wait(self, seconds: float) -> bool:
        """Rest for so long, or until a stop is wished for; returns whether it is."""
        return self._asked or self._event.wait(seconds)

    def _signalled(self, _number: int, _frame: FrameType | None) -> None:
        if self._asked:
            self.at_once()
            os._exit(1)
        self._asked = True
        self._bell.put(None)
        for waker in self._wakers:
            waker()

    def _pass_on(self) -> None:
        self._bell.get()
        self._event.set()


class Troubles:
    """Says once that something fails and once that it works again, and how long to pause meanwhile."""

    def __init__(self, what: str) -> None:
        self._what, self._count, self._since = what, 0, 0.0
        self._told: str | None = None

    def met(self, error: Exception) -> float:
        """Note a failure, told when it is the first or another one; returns the seconds to pause, at most 5."""
        if self._count == 0:
            self._since = monotonic()
        if str(error) != self._told:
            surprise = None if isinstance(error, TaskkitError) else error
            log.warning(
                "%s failed and is tried again: %s", self._what, error or repr(error), exc_info=surprise
            )
        self._told = str(error)
        self._count += 1
        return float(min(LONGEST_PAUSE, 0.05 * 2 ** min(self._count, 8)))

    def over(self) -> None:
        """Note a success."""
        if self._count:
            log.warning("%s works again after %.1f s", self._what, monotonic() - self._since)
        self._count, self._told = 0, None


def carry_on(act: Callable[[], float], troubles: Troubles) -> float:
    """Call ``act`` and return the seconds to rest that it says; whatever it meets is told and answered with a pause."""
    try:
        rest = act()
    except Exception as error:  # noqa: BLE001 - what calls this outlives everything; what it meets is told
        return troubles.met(error)
    troubles.over()
    return rest


class Ticker:
    """A thread that calls ``tick() → seconds to rest`` until the stop; trouble with stores pauses it, nothing ends it."""

    def __init__(self, name: str, tick: Callable[[], float], stop: Stop) -> None:
        self._tick, self._stop = tick, stop
        self._troubles = Troubles(name)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin to tick."""
        self._thread.start()

    def join(self, seconds: float) -> None:
        """Wait for the last tick to end, at most so long."""
        self._thread.join(seconds)

    def _run(self) -> None:
        while not self._stop.asked:
            self._stop.wait(carry_on(self._tick, self._troubles))


def exit_with(error: TaskkitError) -> int:
    """Say in one line why a process cannot start; returns the exit code 2."""
    import sys

    print(f"taskkit: {' '.join(str(error).split())}", file=sys.stderr)
    return 2


def program(command: click.Command, name: str) -> NoReturn:
    """Run a process's command; what is wrong with its options is one line and the exit code 2.

    At the end nothing is searched for garbage any more: that took longer than stopping.
    """
    import sys

    import click

    try:
        code = command.main(prog_name=name, standalone_mode=False)
    except click.ClickException as error:
        print(f"taskkit: {usage(error, name)}", file=sys.stderr)
        code = 2
    except click.Abort:
        code = 130
    finally:
        gc.freeze()
    sys.exit(code if isinstance(code, int) else 0)


def usage(error: click.ClickException, name: str = "") -> str:
    """click's sentence in our form, with the command whose help has the answer."""
    text = " ".join(error.format_message().split()).rstrip(".")
    context = getattr(error, "ctx", None)
    path = name if context is None else context.command_path
    hint = f"; see `{path} --help`" if path else ""
    return text[:1].lower() + text[1:] + hint
