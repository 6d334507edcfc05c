"""How the program behaves whatever happens: one line on stderr, an exit code that means something, no traceback.

Exit codes: 0 done · 1 the operation failed · 2 bad input or settings · 130 Ctrl-C · 141 the reader went away.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Sequence

import click

from taskkit.cli import INTERRUPTED
from taskkit.errors import AppError, InputError, SettingsError, TaskkitError
from taskkit.settings.urls import redact_text

DEBUG = "TASKKIT_DEBUG"
COMPLETE = "_TASKKIT_COMPLETE"
"""Set by the completion scripts: then nothing may be printed but completions."""
NO_ARGUMENTS: tuple[type[click.UsageError], ...] = tuple(
    filter(None, [getattr(click.exceptions, "NoArgsIsHelpError", None)])
)
"""A group without a command: the whole help is the answer. Older releases of click print it by themselves."""
FAILED, BAD_INPUT, READER_GONE = 1, 2, 141


class Failed(TaskkitError):
    """A command did its work and the outcome is a failure that has been told already; carries the exit code."""

    def __init__(self, exit_code: int = FAILED) -> None:
        super().__init__(f"exit code {exit_code}")
        self.exit_code = exit_code


def run(arguments: Sequence[str]) -> int:
    """Run the command line and return the exit code; prints errors as one line and never raises."""
    debug = os.environ.get(DEBUG, "") not in {"", "0"}
    _take_any_text()
    try:
        return _told(arguments, debug)
    except BrokenPipeError:
        _forget_output()
        return READER_GONE
    except KeyboardInterrupt:
        return INTERRUPTED


def _told(arguments: Sequence[str], debug: bool) -> int:
    try:
        code = _called(arguments)
    except (BrokenPipeError, KeyboardInterrupt):
        raise
    except BaseException as error:
        if debug and not isinstance(error, click.ClickException | click.exceptions.Exit):
            raise
        code = _explained(error)
    sys.stdout.flush()
    return code


def _called(arguments: Sequence[str]) -> int:
    from taskkit.cli.root import cli

    result = cli.main(list(arguments), prog_name="taskkit", standalone_mode=False)
    return result if isinstance(result, int) else 0


def _explained(error: BaseException) -> int:
    """Print what is wrong and return the exit code."""
    if isinstance(error, NO_ARGUMENTS):
        click.echo(error.format_message(), err=True)
        return BAD_INPUT
    if isinstance(error, Failed):
        return error.exit_code
    if isinstance(error, click.Abort):
        return INTERRUPTED
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    if COMPLETE not in os.environ:
        say(_message(error))
    return (
        BAD_INPUT if isinstance(error, click.UsageError | InputError | SettingsError | AppError) else FAILED
    )


def _message(error: BaseException) -> str:
    if isinstance(error, click.ClickException):
        from taskkit.service import usage

        return usage(error)
    if isinstance(error, TaskkitError):
        return str(error) or type(error).__name__
    if isinstance(error, OSError):
        place = f"{error.filename}: " if error.filename else ""
        return f"{place}{error.strerror or error}"
    return f"unexpected {type(error).__name__}: {error}; run it again with {DEBUG}=1 for the traceback, and report it"


def interrupt(*_: object) -> None:
    """A signal's handler: end as at Ctrl-C, so that what was begun is cleaned up."""
    raise KeyboardInterrupt


def say(text: str) -> None:
    """One line on stderr: ``taskkit: …``, without secrets and without control characters."""
    from taskkit.render import plain

    line = " ".join(redact_text(text).split())
    with contextlib.suppress(OSError):
        click.echo(f"taskkit: {plain(line)}", err=True)


def _take_any_text() -> None:
    """A terminal that knows only ASCII gets escapes instead of an exception."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _forget_output() -> None:
    """Nobody reads any more: let the interpreter's own flush at exit go nowhere."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
