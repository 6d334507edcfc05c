"""The parent's end of its nursery: start it, greet it, ask it for children and for their end."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from taskkit.errors import AppError
from taskkit.worker import frames
from taskkit.worker.frames import Hello, Kill, Spawn
from taskkit.worker.stacks import StackFile

LOADING_PATIENCE = 120.0


class NurseryLink:
    """A running nursery; ``hello`` says what the application has."""

    def __init__(self, app: str | None, worker_id: str) -> None:
        self.app, self.worker_id = app, worker_id
        self.stacks = StackFile()
        self.loading = False
        self.hello = self._start()

    def _start(self) -> Hello:
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-m", "taskkit.worker.nursery"]
        handed = [theirs.fileno(), self.stacks.fd]
        arguments = [*map(str, handed), self.app or "", self.worker_id]
        self.process = subprocess.Popen(
            command + arguments, pass_fds=handed, start_new_session=True, stdin=subprocess.DEVNULL
        )
        theirs.close()
        self.sock = ours
        self._unpacker = frames.Unpacker()
        self.loading = True
        try:
            return self._greet()
        finally:
            self.loading = False

    def _greet(self) -> Hello:
        self.sock.settimeout(LOADING_PATIENCE)
        while True:
            try:
                data = self.sock.recv(frames.CHUNK)
            except TimeoutError:
                self.end()
                raise AppError(
                    f"--app {self.app}: importing it took longer than {LOADING_PATIENCE:.0f} s"
                ) from None
            if not data:
                code = self.process.wait()
                raise AppError(
                    f"--app {self.app}: the process that imports it ended with code {code}; see its output"
                )
            for body in self._unpacker.feed(data):
                greeting = frames.from_nursery.decode(body)
                if isinstance(greeting, Hello):
                    self.sock.setblocking(False)
                    return self._checked(greeting)

    def _checked(self, greeting: Hello) -> Hello:
        if greeting.error is not None:
            self.end()
            raise AppError(greeting.error)
        return greeting

    def restart(self) -> None:
        """Start another one in its place, after :meth:`end`; raises AppError."""
        self.hello = self._start()

    def spawn(self, number: int, channel: int, marks: int, stacks: int) -> None:
        """Ask for a child with these descriptors; ours of the channel is closed."""
        with self._telling():
            socket.send_fds(self.sock, [frames.pack(Spawn(number))], [channel, marks, stacks])
        os.close(channel)

    def kill(self, number: int, signal_number: int) -> None:
        """Ask for a signal to a child's process group."""
        with self._telling():
            self.sock.sendall(frames.pack(Kill(number, int(signal_number))))

    @contextlib.contextmanager
    def _telling(self) -> Iterator[None]:
        """A nursery that has died is noticed by :meth:`receive`, not here."""
        with contextlib.suppress(OSError):
            self.sock.setblocking(True)
            yield
        with contextlib.suppress(OSError):
            self.sock.setblocking(False)

    def receive(self) -> list[Any] | None:
        """What it has said since the last call; None when it is gone."""
        found: list[Any] = []
        while True:
            data = frames.receive(self.sock)
            if data is None:
                return found
            if data == b"":
                return found or None
            found += [frames.from_nursery.decode(body) for body in self._unpacker.feed(data)]

    def end(self) -> int:
        """Let it end all children and itself; returns its exit code, or minus the signal that killed it."""
        self.sock.close()
        try:
            return self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()
