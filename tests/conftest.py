"""Fixtures that every test shares: a clean environment, private servers, a fresh database and key prefix."""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

import pytest
import redis
from hypothesis import HealthCheck, settings

from tests.servers import MariaDB, Server, Valkey, available, fresh_database

EXTERNAL_DATABASE = os.environ.get("TASKKIT_TEST_DATABASE_URL")
DATABASES = ["external"] if EXTERNAL_DATABASE else ["sqlite", "mariadb"]
FOLDERS = ("faults", "acceptance", "integration", "contracts", "unit")
numbers = itertools.count(1)
if (
    signal.getsignal(signal.SIGINT) is signal.SIG_IGN
):  # started in the background: our programs would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)
settings.register_profile("busy machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy machine")
S = TypeVar("S", bound=Server)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What waits for real processes comes first: a file that lasts minutes must not begin when all others are done."""
    items.sort(
        key=lambda item: FOLDERS.index(item.path.parent.name) if item.path.parent.name in FOLDERS else 0
    )


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No TASKKIT_* setting, no taskkit.toml and no width of a terminal of the developer's reaches a test."""
    for key in [key for key in os.environ if key.startswith("TASKKIT_") or key in {"COLUMNS", "LINES"}]:
        monkeypatch.delenv(key)
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariaDB]:
    """The session's MariaDB; a test that stops or kills its server makes one of its own."""
    yield from session_server(MariaDB)


@pytest.fixture(scope="session")
def valkey() -> Iterator[Valkey]:
    """The session's Valkey; a test that stops or kills its server makes one of its own."""
    yield from session_server(Valkey)


def session_server(kind: type[S]) -> Iterator[S]:
    with available(kind) as server:
        yield server


@pytest.fixture(params=DATABASES)
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A fresh, empty database: SQLite and MariaDB, or only the server of TASKKIT_TEST_DATABASE_URL."""
    server = EXTERNAL_DATABASE if request.param == "external" else None
    if request.param == "mariadb":
        server = request.getfixturevalue("mariadb").url
    if server is None or urlsplit(server).scheme.startswith("sqlite"):
        yield f"sqlite:///{tmp_path}/taskkit.db"
        return
    with fresh_database(server) as url:
        yield url


@pytest.fixture
def redis_url(valkey: Valkey) -> str:
    """The session's Valkey, emptied."""
    with redis.Redis.from_url(valkey.url) as client:
        client.flushall()
    return valkey.url


@pytest.fixture
def key_prefix() -> str:
    """A key prefix that no other test uses."""
    return f"t{os.getpid()}-{next(numbers)}:"
