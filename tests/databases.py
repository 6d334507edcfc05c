"""Plain connections to a MySQL or MariaDB server, and a fresh database on it."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote, urlsplit

import pymysql

from taskkit.center.wires import MySQLWire

numbers = itertools.count(1)


def connect(url: str, **options: Any) -> pymysql.Connection[Any]:
    """A plain PyMySQL connection to a mysql:// or mariadb:// URL."""
    parts = urlsplit(url)
    return MySQLWire(
        host=parts.hostname or "127.0.0.1",
        port=parts.port or 3306,
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        database=parts.path.lstrip("/") or None,
        autocommit=True,
        **options,
    )


@contextlib.contextmanager
def fresh_database(server_url: str) -> Iterator[str]:
    """Create a database ``taskkit_<n>`` on the server of this URL, give its URL, and drop it afterwards."""
    name = f"taskkit_{os.getpid()}_{next(numbers)}"
    run(server_url, f"CREATE DATABASE `{name}` CHARACTER SET utf8mb4")
    try:
        yield urlsplit(server_url)._replace(path=f"/{name}").geturl()
    finally:
        run(server_url, f"DROP DATABASE IF EXISTS `{name}`")


def run(url: str, statement: str) -> None:
    with contextlib.closing(connect(url)) as link, link.cursor() as cursor:
        cursor.execute(statement)
