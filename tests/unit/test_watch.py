"""Seeing that something does not move: only by looks, and only while it should."""

from __future__ import annotations

import threading
from collections.abc import Hashable

from taskkit.worker.watch import Call, Watched, Watcher
from tests.waiting import wait_until


def watcher(pulses: list[Hashable | None], limit: float = 3.0) -> Watcher:
    """Watches one thing whose pulses are these, one for each look."""
    return Watcher([Watched(lambda: "it does not move", lambda: pulses.pop(0))], limit, lambda _: None)


def looks(pulses: list[Hashable | None], passed: float = 1.0) -> list[str | None]:
    found = watcher(list(pulses))
    return [found.look(passed) for _ in pulses]


def test_what_has_one_pulse_for_too_long_is_told() -> None:
    assert looks([7, 7, 7, 7]) == [None, None, None, "it does not move"]


def test_what_moves_is_not_told() -> None:
    assert set(looks([1, 2, 3, 4, 5, 6])) == {None}


def test_what_need_not_move_is_not_told() -> None:
    assert set(looks([None] * 10)) == {None}
    assert set(looks([7, 7, 7, None, 7, 7, 7])) == {None}, "it begins anew"


def test_a_process_that_was_stopped_itself_does_not_take_that_for_standstill() -> None:
    """However long the gap between two looks was, it counts as no more than two pauses."""
    told: list[str] = []
    moved = iter(range(10**9))
    found = Watcher([Watched(lambda: "still", lambda: next(moved))], 0.2, told.append)
    found.start()
    threading.Event().wait(0.5)
    found.end()
    assert told == []
    assert looks([7, 7], passed=2 * watcher([]).pause) == [None, None]


def test_it_tells_once_from_a_thread_of_its_own() -> None:
    told: list[str] = []
    Watcher([Watched(lambda: "still", lambda: 7)], 0.2, told.append).start()
    wait_until(lambda: told)
    threading.Event().wait(0.3)
    assert told == ["still"]


def test_a_limit_of_0_never_looks() -> None:
    told: list[str] = []
    Watcher([Watched(lambda: "still", lambda: 7)], 0, told.append).start()
    threading.Event().wait(0.2)
    assert told == []


def test_a_call_has_a_pulse_of_its_own_while_it_lasts() -> None:
    call = Call()
    assert call.pulse() is None
    with call("asking"):
        first = call.pulse()
        assert call.inside == "asking"
        assert call.pulse() == first
    assert call.pulse() is None
    with call("asking"):
        assert call.pulse() not in {None, first}
