"""The wish to stop: signals at any moment, also while the main thread waits for that very wish."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from taskkit.service import Stop


@pytest.fixture
def stop() -> Iterator[Stop]:
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    found = Stop()
    found.listen()
    yield found
    found.ask()
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.mark.timeout(20)
def test_a_signal_in_the_middle_of_waiting_for_the_stop_is_no_deadlock(stop: Stop) -> None:
    """The main thread holds the lock of the event for a moment whenever it begins to wait."""
    with stop._event._cond:
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.asked
    assert stop._event.wait(10), "those who wait without looking are woken as well"
    assert stop.wait(0)


def test_wakers_are_called_once_and_by_the_first_signal(stop: Stop) -> None:
    called: list[int] = []
    stop.on_ask(lambda: called.append(1))
    os.kill(os.getpid(), signal.SIGTERM)
    assert stop.wait(10)
    assert called == [1]


def test_a_stop_that_was_asked_for_without_a_signal_needs_nobody_to_pass_it_on() -> None:
    stop = Stop()
    assert not stop.asked
    stop.ask()
    assert (stop.asked, stop.wait(10)) == (True, True)
