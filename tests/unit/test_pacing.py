"""The pace of a retry: never faster than the rate, never far ahead of what is known, and no further than need be."""

from __future__ import annotations

import pytest

from taskkit.pacing import Pace, PaceRules

OK, BAD, GONE = False, True, None


def started(rules: PaceRules, count: int) -> Pace:
    pace = Pace(rules)
    for _ in range(count):
        pace.start()
    return pace


@pytest.mark.parametrize(
    ("ends", "stops"),
    [
        ([], False),
        ([BAD] * 4, False),
        ([BAD] * 5, True),
        ([OK] * 5, False),
        ([BAD, BAD, OK, OK, OK], False),
        ([BAD, BAD, BAD, OK, OK], True),
        ([GONE] * 50, False),
        ([GONE] * 50 + [BAD] * 4, False),
        ([OK] * 1000 + [BAD] * 9, False),
        ([OK] * 1000 + [BAD] * 10, True),
        ([BAD, OK, OK] * 300, False),
        ([BAD] * 2 + [OK] * 20, False),
    ],
)
def test_it_stops_when_half_of_the_last_twenty_failed_and_at_least_five_have_ended(
    ends: list[bool | None], stops: bool
) -> None:
    pace = started(PaceRules(), len(ends))
    for end in ends:
        if pace.failing:
            break
        pace.end(end)
    assert bool(pace.failing) is stops
    assert (pace.due(1000.0) == 0) is stops


@pytest.mark.parametrize(("share", "failures"), [(0.1, 2), (0.5, 10), (0.9, 18), (1.0, 20)])
def test_the_share_is_settable(share: float, failures: int) -> None:
    pace = started(PaceRules(share=share), 40)
    for _ in range(20):
        pace.end(OK)
    for _ in range(failures - 1):
        pace.end(BAD)
    assert not pace.failing
    pace.end(BAD)
    assert pace.failing == f"{failures} of the last 20 that ended failed again"


@pytest.mark.parametrize("rate", [0.1, 1, 7, 10, 250])
@pytest.mark.parametrize("tick", [0.01, 0.25, 3.0])
def test_it_is_never_faster_than_the_rate(rate: float, tick: float) -> None:
    pace, now, seconds = Pace(PaceRules(rate=rate)), 0.0, 60.0
    while now < seconds:
        for _ in range(pace.due(now)):
            pace.start()
            pace.end(OK)
        assert pace.started <= 1 + rate * now + 1e-6
        now += tick
    if tick < 0.5:
        assert pace.started >= rate * seconds * 0.9 - 1


def test_a_pause_is_not_made_up_for() -> None:
    pace = Pace(PaceRules(rate=10))
    assert pace.due(0) == 1
    assert pace.due(3600) == 5


def test_a_clock_that_stands_still_starts_nothing_more() -> None:
    pace = Pace(PaceRules(rate=10))
    pace.due(1)
    for _ in range(5):
        pace.start()
    assert pace.due(1) == 0
    assert pace.due(0.5) == 0


def test_a_cause_that_is_not_mended_is_met_by_few_however_slowly_the_answers_come() -> None:
    pace, now = Pace(PaceRules(rate=1000)), 0.0
    while now < 60:
        for _ in range(pace.due(now)):
            pace.start()
        now += 0.1
    assert pace.started == 20
    for _ in range(5):
        pace.end(BAD)
    assert pace.failing
    assert pace.due(100) == 0


def test_each_success_makes_room_for_one_more() -> None:
    pace = started(PaceRules(), 20)
    assert pace.room == 0
    pace.end(OK)
    assert pace.room == 2
    pace.end(BAD)
    assert pace.room == 2, "a failure at the beginning makes no room"
    for _ in range(3):
        pace.end(OK)
    assert (pace.succeeded, pace.failed, pace.unanswered, pace.room) == (4, 1, 15, 9)


def test_one_that_could_not_be_started_takes_its_turn_but_no_room() -> None:
    pace = Pace(PaceRules(rate=1))
    assert pace.due(0) == 1
    pace.spend()
    assert pace.due(0) == 0
    assert pace.room == 20
    assert pace.due(1) == 1
