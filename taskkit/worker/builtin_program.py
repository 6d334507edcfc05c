"""Runs one program to its end: starts it, feeds and reads its pipes, and ends it when interrupted."""

from __future__ import annotations

import contextlib
import os
import pwd
import selectors
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from taskkit.clock import monotonic
from taskkit.worker.builtin_output import Kept

CHUNK = 65536
DRAIN_S = 0.2
LOOK_S = 0.05
END_S = 1.0


@dataclass(frozen=True, slots=True)
class Program:
    """What to run; ``account`` is that of another user, None for one's own."""

    argv: tuple[str, ...]
    env: dict[str, str]
    cwd: str | None
    stdin: bytes | None
    account: pwd.struct_passwd | None


class CouldNotStart(Exception):
    """The program was not started; the text says why."""


def run(program: Program, kept: Kept) -> int:
    """Run a program, its output into ``kept``; returns its exit code, or minus the signal that killed it.

    Whatever is raised meanwhile, `Interrupted` above all, ends the program and its descendants first.
    """
    process = _start(program)
    with contextlib.closing(_pipes(process, program.stdin, kept)) as pipes:
        try:
            while process.poll() is None:
                pipes.step()
            pipes.drain()
        except BaseException:
            end(process, pipes)
            raise
    return process.returncode


def _start(program: Program) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            program.argv,
            bufsize=0,
            stdin=subprocess.PIPE if program.stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=program.env,
            cwd=program.cwd,
            preexec_fn=_reset_signals(),  # noqa: PLW1509  only where nothing else helps, see there
            **_identity(program.account),
        )
    except (OSError, subprocess.SubprocessError) as reason:
        raise CouldNotStart(_why(program, reason)) from reason


def _identity(account: pwd.struct_passwd | None) -> dict[str, Any]:
    """Another user's ids and groups, as cron sets them."""
    if account is None:
        return {}
    groups = os.getgrouplist(account.pw_name, account.pw_gid)
    return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": groups}


def _reset_signals() -> Callable[[], None] | None:
    """Undo what a program would inherit: ignored and blocked signals, with which it could not be stopped politely."""
    ignored = [
        number for number in (signal.SIGTERM, signal.SIGINT) if signal.getsignal(number) is signal.SIG_IGN
    ]
    if not ignored and not signal.pthread_sigmask(signal.SIG_BLOCK, ()):
        return None

    def reset() -> None:
        for number in ignored:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())

    return reset


def _why(program: Program, reason: Exception) -> str:
    text = reason.strerror if isinstance(reason, OSError) and reason.strerror else str(reason)
    if program.cwd is not None and not os.path.isdir(program.cwd):  # noqa: PTH112  any text may stand there
        return f"could not start in the folder {program.cwd!r}: {text}"
    return f"could not start {program.argv[0]!r}: {text}"


class _Pipes:
    """The pipes to and from a program, fed and read as they become ready, and the notice of its end."""

    def __init__(self, process: subprocess.Popen[bytes], fed: bytes | None, kept: Kept) -> None:
        self.process = process
        self.kept = kept
        self.fed = memoryview(fed or b"")
        self.ready = selectors.DefaultSelector()
        self.notice = _exit_notice(process.pid)
        if process.stdout:
            self.ready.register(process.stdout, selectors.EVENT_READ, self._read)
        if process.stdin:
            os.set_blocking(process.stdin.fileno(), False)
            self.ready.register(process.stdin, selectors.EVENT_WRITE, self._feed)
        if self.notice is not None:
            self.ready.register(self.notice, selectors.EVENT_READ, lambda: None)

    def step(self, seconds: float | None = None) -> None:
        """Wait until a pipe is ready or the program ended, and do what is to be done."""
        wait = LOOK_S if self.notice is None else None
        for key, _ in self.ready.select(wait if seconds is None else seconds):
            key.data()

    def drain(self) -> None:
        """Read what is left; a descendant that keeps the pipe open gets no more than a moment."""
        self.forget_end()
        for key in [key for key in self.ready.get_map().values() if key.data == self._feed]:
            self._close(key.fileobj)
        deadline = monotonic() + DRAIN_S
        while self.ready.get_map() and (left := deadline - monotonic()) > 0:
            self.step(left)

    def forget_end(self) -> None:
        """From here on the end of the program, which may have come, wakes no `step`."""
        if self.notice is not None:
            self.ready.unregister(self.notice)
            os.close(self.notice)
            self.notice = None

    def close(self) -> None:
        """Let go of everything but the process."""
        self.forget_end()
        self.ready.close()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe:
                pipe.close()

    def _read(self) -> None:
        pipe = self.process.stdout
        if pipe and (data := os.read(pipe.fileno(), CHUNK)):
            self.kept.add(data)
        else:
            self._close(pipe)

    def _feed(self) -> None:
        pipe = self.process.stdin
        try:
            sent = os.write(pipe.fileno(), self.fed[:CHUNK]) if pipe else len(self.fed)
        except BrokenPipeError:  # it does not want to read the rest, as is its right
            sent = len(self.fed)
        self.fed = self.fed[sent:]
        if not self.fed:
            self._close(pipe)

    def _close(self, pipe: Any) -> None:
        self.ready.unregister(pipe)
        pipe.close()


def _pipes(process: subprocess.Popen[bytes], fed: bytes | None, kept: Kept) -> _Pipes:
    """The pipes of a program; it is ended at once when it cannot be watched, for want of descriptors perhaps."""
    try:
        return _Pipes(process, fed, kept)
    except BaseException:
        process.kill()
        process.communicate()
        raise


def _exit_notice(pid: int) -> int | None:
    """A descriptor that becomes readable when the process ends; None where the system has none."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def end(process: subprocess.Popen[bytes], pipes: _Pipes) -> None:
    """End a program and its descendants: SIGTERM, a second in which they are still read, SIGKILL.

    Those that left its ancestry are not seen here; the worker ends the process group.
    """
    if process.poll() is not None:  # reaped: its pid may belong to somebody else by now
        return
    pipes.forget_end()
    family = _family(process.pid)
    _send(family, signal.SIGTERM)
    deadline = monotonic() + END_S
    while monotonic() < deadline and (process.poll() is None or any(map(_alive, family[1:]))):
        pipes.step(LOOK_S / 2)
    _send(family, signal.SIGKILL)
    process.wait()


def _family(pid: int) -> list[Any]:
    import psutil  # loaded only when something went wrong

    program = psutil.Process(pid)
    return [program, *program.children(recursive=True)]


def _send(family: list[Any], number: signal.Signals) -> None:
    import psutil

    for member in family:
        with contextlib.suppress(psutil.Error):
            member.send_signal(number)


def _alive(member: Any) -> bool:
    """Whether a descendant still runs; a defunct one waits only to be reaped."""
    import psutil

    try:
        return bool(member.is_running() and member.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False
