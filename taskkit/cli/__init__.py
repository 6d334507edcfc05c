"""The command line. One file per group of commands; whatever is heavy is imported when a command needs it."""

from __future__ import annotations

import gc
import os
import sys

INTERRUPTED = 130


def main() -> None:
    """The program ``taskkit``; Ctrl-C is exit code 130 without a word, also while it is being loaded.

    When it has ended nothing is searched for garbage any more: that took longer than many a command.
    """
    try:
        code = _run()
    except KeyboardInterrupt:
        code = INTERRUPTED
    gc.freeze()
    exec("")  # noqa: S102 - where Ctrl-C met an exec, as dataclasses make, CPython dies of SIGINT unless another follows
    sys.exit(code)


def _run() -> int:
    """While the program loads and leaves, Ctrl-C ends it at once: there is nothing to clean up then."""
    import signal  # here, since even this takes a moment

    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if ours:
        signal.signal(signal.SIGINT, _leave)
    from taskkit.cli.conduct import run
    from taskkit.identity import play

    play("cli")
    if ours:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    code = run(sys.argv[1:])
    if ours:
        signal.signal(signal.SIGINT, _leave)
    return code


def _leave(*_: object) -> None:
    os._exit(INTERRUPTED)
