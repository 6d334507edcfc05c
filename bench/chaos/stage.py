"""The private servers of a chaos run, and the run's own way into its database."""

from __future__ import annotations

import contextlib
import os
import socket
import sqlite3
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pymysql

from bench.chaos import audit
from bench.chaos.app import LEDGER
from taskkit import Settings, Taskkit
from tests.servers import MariaDB, Server, Valkey

ROOT = Path(__file__).resolve().parents[2]
DATABASE = "taskkit_chaos"
LOOKS = 20
SETTINGS = {
    "LOG_LEVEL": "info",
    "LOG_FORMAT": "json",
    "WORKER_THREADS": "4",
    "WORKER_KILL_GRACE_S": "0.5",
    "WORKER_GRACE_S": "2",
}


class Stage:
    """MariaDB (or an SQLite file) and Valkey in a folder of their own, a kit that enqueues, and an environment."""

    def __init__(
        self, home: Path, database: str, server: Mapping[str, object] | None = None, **settings: float
    ) -> None:
        self.home, self.ledger = home, home / "ledger.txt"
        self.valkey = Valkey()
        options = {"innodb_autoinc_lock_mode": 2, **(server or {})}
        self.mariadb = MariaDB(**options) if database == "mariadb" else None
        self.settings = {"HOME": str(home / "home"), "REDIS_URL": self.valkey.url, **SETTINGS}
        self.settings |= {name.upper(): str(value) for name, value in settings.items()}
        if self.mariadb is not None:
            self.settings["DATABASE_URL"] = self.mariadb.url_of(DATABASE)

    def open(self, *, audited: bool = True) -> Taskkit:
        """Start the servers, make the schema, with its audit where it is wanted, and open a kit on them."""
        from bench.chaos import app
        from taskkit.doors import open_center

        self.valkey.start()
        if self.mariadb is not None:
            self.mariadb.start().admin(f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4")
        settings = Settings.load(env={f"TASKKIT_{key}": value for key, value in self.settings.items()})
        if self.mariadb is not None:
            from taskkit.center import TaskCenter

            center = TaskCenter(settings.sqlalchemy_url())
            center.upgrade_schema()
            center.close()
        else:
            open_center(settings, upgrade=True).close()
        kind = "sqlite" if self.mariadb is None else "mysql"
        for statement in audit.statements(kind) if audited else ():
            self.query(statement)
        kit = Taskkit(settings)
        kit.registry = app.kit.registry
        app.kit.replace_doors(kit.center, None)
        return kit

    def environment(self) -> dict[str, str]:
        """What schedulers and workers are started with."""
        env = {key: value for key, value in os.environ.items() if not key.startswith("TASKKIT_")}
        env |= {f"TASKKIT_{key}": value for key, value in self.settings.items()}
        return env | {"PYTHONPATH": str(ROOT), LEDGER: str(self.ledger), "PYTHONDONTWRITEBYTECODE": "1"}

    def query(self, statement: str) -> Sequence[Sequence[Any]]:
        """Run one statement on a connection of its own; raises what the driver raises."""
        if self.mariadb is None:
            file = self.home / "home" / "taskkit.db"
            with contextlib.closing(sqlite3.connect(file, timeout=15)) as link, link:
                return link.execute(statement).fetchall()
        with contextlib.closing(self.connect()) as link, link.cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall())

    def connect(self, **options: Any) -> pymysql.Connection[Any]:
        """A connection as root over the server's socket; raises OSError or what the driver raises."""
        assert self.mariadb is not None
        defaults = {"autocommit": True, "read_timeout": 30, "database": DATABASE}
        link = pymysql.connect(user="root", defer_connect=True, **defaults | options)
        ours = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            ours.connect(str(self.mariadb.socket))
            link.connect(ours)
        except BaseException:
            ours.close()
            raise
        return link

    def offset(self) -> float:
        """What takes an instant of the database's clock to this process's monotonic one."""
        if self.mariadb is None:
            return time.monotonic() - time.time()
        with contextlib.closing(self.connect()) as link, link.cursor() as cursor:
            return min(self._look(cursor) for _ in range(LOOKS))[1]

    @staticmethod
    def _look(cursor: Any) -> tuple[float, float]:
        """One look at the clock: how exact it is, and the offset; the narrowest of many is taken."""
        before = time.monotonic()
        cursor.execute(f"SELECT {audit.CLOCK['mysql']}")
        clock = float(cursor.fetchone()[0])
        after = time.monotonic()
        return after - before, (before + after) / 2 - clock

    def close(self) -> None:
        """End the servers; their logs stay with those of the run."""
        for server in self.servers:
            if server.log.exists():
                (self.home / f"{server.name}.log").write_bytes(server.log.read_bytes())
            server.close()

    def check(self) -> None:
        """Raise when a server has ended that nobody ended."""
        for server in self.servers:
            if not server.running:
                raise RuntimeError(f"{server.name} has ended by itself; see {self.home / server.name}.log")

    @property
    def servers(self) -> list[Server]:
        """Those of this run."""
        return [self.valkey] if self.mariadb is None else [self.valkey, self.mariadb]
