"""Installations that many tests share: a scheduler and a worker that run on the embedded default, and on servers.

A test module takes them with ``pytest_plugins = ["tests.stacks"]``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import EXTERNAL_DATABASE
from tests.processes import Installation, Stack, on_servers
from tests.servers import MariaDB, Valkey

SHARED: dict[str, Any] = {
    "worker_processes": 2,
    "worker_threads": 4,
    "worker_kill_grace_s": 0.5,
    "worker_heartbeat_s": 0.5,
    "scheduler_heartbeat_s": 0.5,
}


@pytest.fixture(scope="session")
def embedded_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """SQLite and the embedded Valkey in a home folder."""
    with Installation(tmp_path_factory.mktemp("embedded"), **SHARED) as home:
        yield Stack(home)


@pytest.fixture(scope="session")
def server_stack(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest, valkey: Valkey
) -> Iterator[Stack]:
    """MariaDB (or the server of TASKKIT_TEST_DATABASE_URL) and Valkey."""
    database = EXTERNAL_DATABASE or _mariadb(request).url
    folder = tmp_path_factory.mktemp("servers")
    with on_servers(folder, database, valkey.url, **SHARED) as home:
        yield Stack(home)


def _mariadb(request: pytest.FixtureRequest) -> MariaDB:
    found: MariaDB = request.getfixturevalue("mariadb")
    return found


@pytest.fixture(params=["embedded_stack", "server_stack"], ids=["embedded", "servers"])
def stack(request: pytest.FixtureRequest) -> Stack:
    """A running installation: on the embedded default, and on servers."""
    found: Stack = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """A file into which handlers write lines."""
    file = tmp_path / "notes"
    file.touch()
    return file
