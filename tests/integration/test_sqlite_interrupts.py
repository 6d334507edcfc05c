"""SQLite makes an error of whatever our functions raise: Ctrl-C in the middle of one stays Ctrl-C."""

from __future__ import annotations

import signal
from datetime import datetime

import pytest
from sqlalchemy import event

from taskkit.center import Database
from taskkit.errors import StoreError

pytest_plugins = ["tests.center_fixtures"]
NUMBERS = "WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {most})"
ALL_THE_TIME = NUMBERS.replace("{most}", "100000000") + "SELECT COUNT({digest(n)}) FROM numbers"
COUNTED_FIRST = f"SELECT {{digest(x)}} FROM ({NUMBERS} SELECT COUNT(*) AS x FROM numbers) y".replace(
    "{most}", "300000"
)
SOME = NUMBERS.replace("{most}", "10") + "SELECT COUNT({digest(n)}) FROM numbers"


class Stopped(BaseException):
    """What a handler of a signal raises: of no kind that SQLite or taskkit know."""


def interrupt(*_: object) -> datetime:
    raise KeyboardInterrupt


def test_an_interrupt_in_one_of_our_functions_is_no_error_of_sqlite(sqlite_center_url: str) -> None:
    database = Database(sqlite_center_url, clock=interrupt)
    with pytest.raises(KeyboardInterrupt):
        database.now()
    assert database.in_use == 0
    database.close()


def stop(*_: object) -> None:
    raise Stopped


@pytest.mark.parametrize("after_s", [0.002 + 0.0007 * n for n in range(20)])
def test_what_a_signal_raises_in_the_middle_of_our_functions_comes_out_as_it_is(
    sqlite_center_url: str, after_s: float
) -> None:
    """Wherever it comes: in SQLite, as one of our functions begins, or within it. The timer runs with the processor."""
    database = Database(sqlite_center_url)
    database.now()
    before = signal.signal(signal.SIGPROF, stop)

    def arm(*_: object) -> None:
        signal.setitimer(signal.ITIMER_PROF, after_s)

    event.listen(database.engine, "before_cursor_execute", arm)
    try:
        with pytest.raises(Stopped):
            database.read(lambda c: c.execute(database.text(ALL_THE_TIME)).all())
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    event.remove(database.engine, "before_cursor_execute", arm)
    assert database.in_use == 0
    assert database.read(lambda c: c.execute(database.text(SOME)).scalar()) == 10
    database.close()


def test_two_signals_at_once_leave_a_connection_that_works(sqlite_center_url: str) -> None:
    """Both wait while SQLite counts, so that the second comes as the first is noted."""
    database = Database(sqlite_center_url, pool_size=1, overflow=0)
    database.now()
    timers = {signal.SIGPROF: signal.ITIMER_PROF, signal.SIGVTALRM: signal.ITIMER_VIRTUAL}
    before = {number: signal.signal(number, stop) for number in timers}

    def arm(*_: object) -> None:
        for timer in timers.values():
            signal.setitimer(timer, 0.03)

    event.listen(database.engine, "before_cursor_execute", arm)
    try:
        with pytest.raises(Stopped):
            database.read(lambda c: c.execute(database.text(COUNTED_FIRST)).all())
    finally:
        for number, handler in before.items():
            signal.setitimer(timers[number], 0)
            signal.signal(number, handler)
    event.remove(database.engine, "before_cursor_execute", arm)
    assert database.read(lambda c: c.execute(database.text(SOME)).scalar()) == 10
    database.close()


def test_a_fault_in_one_of_our_functions_is_told_as_an_error(sqlite_center_url: str) -> None:
    def wrong() -> datetime:
        raise ValueError("no time")

    database = Database(sqlite_center_url, clock=wrong)
    with pytest.raises(StoreError, match="user-defined function raised exception"):
        database.now()
    database.close()
