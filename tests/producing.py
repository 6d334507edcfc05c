"""Fixtures for tests of the producer: a kit on each database, without a broker, and a handler of it.

A test module takes them with ``pytest_plugins = ["tests.center_fixtures", "tests.producing"]``.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from taskkit import Settings, Taskkit
from taskkit.registry import Handler


@pytest.fixture
def kit(center_url: str) -> Iterator[Taskkit]:
    """A kit whose broker is not there."""
    found = Taskkit(Settings(database_url=center_url, redis_url="redis://127.0.0.1:1/0", key_prefix="p:"))
    yield found
    found.close()


def send_email(to: str, subject: str = "") -> None:
    raise AssertionError("never runs in here")


@pytest.fixture
def handler(kit: Taskkit) -> Handler[..., None]:
    return kit.task("send_email", queue="mail", priority=3, timeout=30, max_retry=7, retry_delays=[1, 2.5])(
        send_email
    )
