"""The handler ``shell``: runs a program in the child's process group and keeps what it says.

The program ends with its own process, not with its output: a background process that holds the pipe open is
neither waited for nor ended, and what it writes later is lost. The worker ends it with the process group.
"""

from __future__ import annotations

import os
import pwd
import signal
from collections.abc import Mapping, Sequence
from typing import Any

from taskkit.clock import monotonic
from taskkit.errors import PayloadError, TaskkitError
from taskkit.worker.builtin_output import USUAL, Kept, checked_limit
from taskkit.worker.builtin_program import CouldNotStart, Program, run

SHOWN_LINES = 20
SHOWN_CHARACTERS = 2000
HINTS = {126: ", found but not executable", 127: ", not found"}


class CommandFailed(TaskkitError):
    """The program could not be started, ended with an unexpected exit code, or was killed by a signal.

    ``exit_code`` is None when it did not start, and minus the signal's number when it was killed.
    """

    can_retry = True

    def __init__(self, message: str, exit_code: int | None = None) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def shell(
    *,
    argv: list[str] | None = None,
    command: str | None = None,
    shell: str = "/bin/sh",
    cwd: str | None = None,
    env: dict[str, str] | None = None,
    clean_env: bool = False,
    stdin: str | None = None,
    user: str | None = None,
    expect: list[int] | None = None,
    output_limit: int = USUAL,
) -> dict[str, Any]:
    """Run ``argv``, or ``command`` by ``shell -c``, and return exit_code, output, cut and runtime_ms.

    ``env`` is added to the worker's environment without its TASKKIT_* (they hold passwords), or with ``clean_env``
    to that of cron: HOME, LOGNAME, SHELL and PATH=/usr/bin:/bin, with HOME as the folder to start in. ``user``
    (needs a worker that is root, or that very user) always starts from the clean one, so that the worker's secrets
    stay with the worker. ``expect`` lists the exit codes that are a success, [0] by default, -15 meaning "killed by
    signal 15". Output is stdout and stderr together, of which head and tail are kept when it is longer than
    ``output_limit`` bytes (as JSON).
    """
    expected = _expected(expect)
    kept = Kept(checked_limit(output_limit))
    program = Program(
        argv=_words(argv, command, shell),
        **_surroundings(user, clean_env, _environment(env), shell, cwd),
        stdin=None if stdin is None else _text("stdin", stdin, nul=True).encode(),
    )
    started = monotonic()
    try:
        exit_code = run(program, kept)
    except CouldNotStart as reason:
        raise CommandFailed(str(reason)) from reason
    output, cut = kept.text()
    if exit_code not in expected:
        raise CommandFailed(_failure(exit_code, expected, output), exit_code)
    runtime_ms = round((monotonic() - started) * 1000)
    return {"exit_code": exit_code, "output": output, "cut": cut, "runtime_ms": runtime_ms}


def _words(argv: list[str] | None, command: str | None, shell: str) -> tuple[str, ...]:
    if (argv is None) == (command is None):
        raise PayloadError("command", "give exactly one of argv and command")
    if command is not None:
        return (_text("shell", shell), "-c", _text("command", command))
    if not isinstance(argv, list) or not argv:
        raise PayloadError("argv", "must be a list of at least one text")
    return tuple(_text(f"argv[{n}]", word, empty=n > 0) for n, word in enumerate(argv))


def _text(field: str, value: object, *, empty: bool = False, nul: bool = False) -> str:
    """A text that a program can be given; raises PayloadError."""
    if not isinstance(value, str) or not (value or empty or nul):
        raise PayloadError(field, "must be a text" + ("" if empty or nul else " that is not empty"))
    if "\0" in value and not nul:
        raise PayloadError(field, "holds a NUL character, which no program can be given")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise PayloadError(field, "holds a lone surrogate, which is not text") from None
    return value


def _expected(expect: Sequence[int] | None) -> frozenset[int]:
    codes = [0] if expect is None else expect
    if not isinstance(codes, list) or not codes or any(type(code) is not int for code in codes):
        raise PayloadError("expect", "must be a list of exit codes such as [0, 3]")
    return frozenset(codes)


def _environment(env: Mapping[str, str] | None) -> dict[str, str]:
    if env is None:
        return {}
    if not isinstance(env, dict):
        raise PayloadError("env", "must be an object of names and texts")
    for name, value in env.items():
        if "=" in _text("env", name):
            raise PayloadError("env", f"{name!r} is no name of a variable")
        _text(f"env.{name}", value, empty=True)
    return env


def _surroundings(
    user: str | None, clean: bool, env: dict[str, str], shell: str, cwd: str | None
) -> dict[str, Any]:
    """Environment, folder and account of the program, as cron makes them where asked for."""
    account = None if user is None else _account(_text("user", user))
    base = _as_cron(account, shell) if clean or account else _inherited()
    whole = base | env
    if cwd is None and (clean or account):
        home = whole.get("HOME", "/")
        cwd = home if os.path.isdir(home) else "/"  # noqa: PTH112  HOME may be any text, and need not be a folder
    elif cwd is not None:
        _text("cwd", cwd)
    other = account if account and account.pw_uid != os.geteuid() else None
    return {"env": whole, "cwd": cwd, "account": other}


def _inherited() -> dict[str, str]:
    """The worker's environment without taskkit's settings, whose URLs hold passwords that ``env`` would print."""
    return {name: value for name, value in os.environ.items() if not name.startswith("TASKKIT_")}


def _account(user: str) -> pwd.struct_passwd:
    """The account to run as; raises CommandFailed when there is none or the worker may not become it."""
    try:
        account = pwd.getpwnam(user)
    except KeyError:
        raise CommandFailed(f"could not start: there is no user {user!r} on this worker's machine") from None
    if os.geteuid() not in (0, account.pw_uid):
        raise CommandFailed(
            f"could not start: the worker runs as {_own_name()!r} and may not become {user!r}; "
            "run a worker for this queue as root or as that user, or leave user out"
        )
    return account


def _own_name() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def _as_cron(account: pwd.struct_passwd | None, shell: str) -> dict[str, str]:
    if account is None:
        home, name = os.path.expanduser("~"), _own_name()  # noqa: PTH111  never raises, unlike Path.home
    else:
        home, name = account.pw_dir, account.pw_name
    return {"HOME": home, "LOGNAME": name, "SHELL": shell, "PATH": "/usr/bin:/bin"}


def _failure(exit_code: int, expected: frozenset[int], output: str) -> str:
    """How the program ended, and the last lines that it said."""
    wanted = "" if expected == {0} else f" (expected {', '.join(map(str, sorted(expected)))})"
    last = "\n".join(output.rstrip().splitlines()[-SHOWN_LINES:])[-SHOWN_CHARACTERS:]
    said = f"; the last lines of its output:\n{last}" if last else " and said nothing"
    return f"{_ending(exit_code)}{wanted}{said}"


def _ending(exit_code: int) -> str:
    if exit_code < 0:
        return f"killed by {_signal_name(-exit_code)}"
    hint = HINTS.get(exit_code, "")
    if 128 < exit_code < 128 + signal.NSIG:
        hint = f", as a shell reports {_signal_name(exit_code - 128)}"
    return f"exit code {exit_code}{hint}"


def _signal_name(number: int) -> str:
    try:
        return f"{signal.Signals(number).name} (signal {number})"
    except ValueError:
        return f"signal {number}"
