"""SQLite makes an error of whatever our functions raise: Ctrl-C in the middle of one stays Ctrl-C."""

from __future__ import annotations

from datetime import datetime

import pytest
from sqlalchemy import event

from taskkit.center import Database
from taskkit.errors import StoreError

pytest_plugins = ["tests.center_fixtures"]


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def test_an_interrupt_in_one_of_our_functions_is_no_error_of_sqlite(sqlite_center_url: str) -> None:
    """SQLite says only that a function raised something; noted where it was raised within, else it was a signal."""
    database = Database(sqlite_center_url, clock=interrupt)  # type: ignore[arg-type]
    with pytest.raises(KeyboardInterrupt):
        database.now()
    assert database.in_use == 0
    database.close()
    outside = Database(sqlite_center_url)
    event.listen(outside.engine, "connect", lambda raw, _: raw.create_function("taskkit_now", 0, interrupt))
    with pytest.raises(KeyboardInterrupt):
        outside.write(lambda c: c.execute(outside.text("SELECT {now}")))
    assert outside.in_use == 0
    outside.close()


def test_a_fault_in_one_of_our_functions_is_told_as_an_error(sqlite_center_url: str) -> None:
    def wrong() -> datetime:
        raise ValueError("no time")

    database = Database(sqlite_center_url, clock=wrong)
    with pytest.raises(StoreError, match="user-defined function raised exception"):
        database.now()
    database.close()
