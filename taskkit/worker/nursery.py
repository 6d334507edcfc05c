"""The nursery: loads the application once, forks warmed children from it, reaps them, and ends with its parent.

It has one thread and no connection, so forking it is safe.
``python -m taskkit.worker.nursery FD STACKS APP THREADS WORKER``, where STACKS is a descriptor for its stacks.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import selectors
import signal
import socket
import sys
from array import array
from collections.abc import Iterable
from typing import Any

import msgspec

from taskkit import logs
from taskkit.app import load
from taskkit.errors import TaskkitError
from taskkit.identity import play
from taskkit.kit import Taskkit
from taskkit.worker import frames
from taskkit.worker.child import Child
from taskkit.worker.frames import Born, Died, HandlerInfo, Hello, Kill, Spawn
from taskkit.worker.groups import end_group
from taskkit.worker.marks import Marks
from taskkit.worker.stacks import answer_into
from taskkit.worker.strays import bear, end_adopted, mark_of

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
ROOM = socket.CMSG_SPACE(64 * array("i").itemsize)
DO_NOT_WAIT = socket.MSG_DONTWAIT | getattr(socket, "MSG_CMSG_CLOEXEC", 0)
"""``socket.recv_fds`` takes flags and forgets them: it would wait for the parent and not notice deaths meanwhile."""


class Nursery:
    """Forks and reaps the children of one worker."""

    def __init__(self, sock: socket.socket, kit: Taskkit, worker_id: str) -> None:
        self.sock, self.kit, self.worker_id = sock, kit, worker_id
        self.children: dict[int, int] = {}
        self._unpacker = frames.Unpacker()
        self._descriptors: list[int] = []
        self._wake_in, self._wake_out = socket.socketpair()
        for end in (self._wake_in, self._wake_out):
            end.setblocking(False)

    def run(self) -> None:
        """Serve the parent until its end of the socket closes; then nothing of ours may live on."""
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake_in.fileno(), warn_on_full_buffer=False)
        with selectors.DefaultSelector() as selector:
            selector.register(self.sock, selectors.EVENT_READ)
            selector.register(self._wake_out, selectors.EVENT_READ)
            while True:
                selector.select()
                self._drain_wakes()
                self._reap()
                if not self._listen():
                    break
        self._end_all()

    def _listen(self) -> bool:
        """Carry out what the parent asks; False when it is gone."""
        try:
            data, handed, _, _ = self.sock.recvmsg(frames.CHUNK, ROOM, DO_NOT_WAIT)
        except (BlockingIOError, InterruptedError):
            return True
        except OSError:
            return False
        if not data:
            return False
        self._descriptors += _descriptors(handed)
        for body in self._unpacker.feed(data):
            order = frames.to_nursery.decode(body)
            if isinstance(order, Spawn):
                self._spawn(order.number)
            elif isinstance(order, Kill):
                self._signal(self._pid(order.number), order.signal)
        return True

    def _spawn(self, number: int) -> None:
        handed, self._descriptors = self._descriptors[:3], self._descriptors[3:]
        pid = os.fork()
        if pid == 0:
            self._become_child(number, *handed)
        with contextlib.suppress(OSError):
            os.setpgid(pid, pid)
        for descriptor in handed:
            os.close(descriptor)
        self.children[pid] = number
        self._tell(Born(number, pid))

    def _become_child(self, number: int, channel: int, marks: int, stacks: int) -> None:
        """In the fork: a process group of its own, no ends of others, and not a step beyond the parent's death."""
        code = 1
        try:
            os.setpgid(0, 0)
            parent = os.getppid()
            _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:
                os._exit(1)
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for end in (self.sock, self._wake_in, self._wake_out):
                end.close()
            for descriptor in self._descriptors:
                os.close(descriptor)
            answer_into(stacks)
            bear(mark_of(self.worker_id, number))
            sock = socket.socket(fileno=channel)
            sock.setblocking(True)
            gc.enable()
            play("child")
            Child(self.kit, sock, Marks(marks)).run()
            code = 0
        except BaseException:  # noqa: BLE001 - the only way out of a child is _exit
            sys.excepthook(*sys.exc_info())
        finally:
            with contextlib.suppress(Exception):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)

    def _reap(self) -> None:
        """Collect all who have ended, adopted ones too; tell the parent when all that a child started is gone."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            number = self.children.pop(pid, None)
            if number is not None:
                end_group(pid)
                end_adopted(self.worker_id, self.children)
                self._tell(Died(number, os.waitstatus_to_exitcode(status)))

    def _end_all(self) -> None:
        for pid in list(self.children):
            self._signal(pid, signal.SIGKILL)
        for pid in list(self.children):
            end_group(pid)
        end_adopted(self.worker_id, {})

    def _signal(self, pid: int | None, number: int) -> None:
        if pid is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, number)

    def _pid(self, number: int) -> int | None:
        return next((pid for pid, known in self.children.items() if known == number), None)

    def _drain_wakes(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._wake_out.recv(4096):
                pass

    def _tell(self, frame: msgspec.Struct) -> None:
        with contextlib.suppress(OSError):
            self.sock.sendall(frames.pack(frame))


def _descriptors(handed: Iterable[tuple[int, int, bytes]]) -> list[int]:
    """The descriptors that travelled along with some bytes."""
    found = array("i")
    for level, kind, raw in handed:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            found.frombytes(raw[: len(raw) - len(raw) % found.itemsize])
    return list(found)


def hello(kit: Taskkit) -> Hello:
    """What the parent is to know of the application."""
    handlers = [
        HandlerInfo(
            handler.code,
            "async" if handler.is_async else "thread" if handler.defaults.blocking else "sync",
            handler.defaults.queue,
            handler.defaults.retry_delays,
            handler.defaults.jitter,
        )
        for handler in kit.registry
    ]
    own = msgspec.json.encode(kit.settings, enc_hook=str) if kit.has_own_settings else None
    return Hello(None, handlers, own)


def _prctl(option: int, value: int) -> None:
    """Linux's prctl; elsewhere the closed socket alone ends the children."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def main(arguments: list[str]) -> None:
    """Load the application, greet the parent, and serve it."""
    descriptor, stacks, app, worker_id = *map(int, arguments[:2]), arguments[2] or None, arguments[3]
    answer_into(stacks)
    os.set_inheritable(descriptor, False)
    os.set_inheritable(stacks, False)
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sock = socket.socket(fileno=descriptor)
    try:
        kit = load(app)
        logs.configure(kit.settings, role="worker", worker=worker_id)
        greeting: Any = hello(kit)
    except TaskkitError as error:
        sock.sendall(frames.pack(Hello(" ".join(str(error).split()), [])))
        return
    sock.sendall(frames.pack(greeting))
    gc.collect()
    gc.freeze()
    _prctl(PR_SET_PDEATHSIG, 0)  # from here on the closed socket says it, and the children's groups end first
    Nursery(sock, kit, worker_id).run()


if __name__ == "__main__":
    main(sys.argv[1:])
