"""The town of the watchdog's checks, on each kind of database.

A test module takes it with ``pytest_plugins = ["tests.center_fixtures", "tests.town_fixtures"]``.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.towns import Town


@pytest.fixture
def town(center_url: str) -> Iterator[Town]:
    """A town that has nothing yet."""
    made = Town(center_url)
    yield made
    made.center.close()
