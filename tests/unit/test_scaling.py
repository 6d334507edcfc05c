"""How many children a worker should have: the formula, and the calm with which it is followed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

import pytest

from taskkit.worker.scaling import (
    LONGEST_GAP,
    MOST_CALM,
    STEPS_DOWN,
    UNKNOWN_SECONDS,
    Bounds,
    Change,
    Demand,
    ServiceTimes,
    Staffing,
    need,
)

BOUNDS = Bounds(2, 8, 10.0, 30.0)


def look(
    at: float = 0.0, children: int = 2, busy: float = 2.0, waiting: float = 0.0, **fields: float
) -> Demand:
    return Demand(at, children, busy, waiting, **({"seconds": 1.0} | fields))


@dataclass
class Days:
    """A worker under a load that is told second by second: what waits, what runs, and what is changed."""

    seconds: float
    bounds: Bounds = BOUNDS
    children: int = 0
    waiting: float = 0.0
    changes: list[tuple[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.children = self.children or self.bounds.least
        self.staffing = Staffing(self.bounds)
        self.now = 0

    def run(self, until: int, arrivals: Callable[[int], float]) -> None:
        while self.now < until:
            self.now += 1
            offered = self.waiting + arrivals(self.now)
            done = min(offered, self.children / self.seconds)
            self.waiting = offered - done
            seen = look(self.now, self.children, done * self.seconds, self.waiting, seconds=self.seconds)
            change = self.staffing.decide(seen)
            if change is not None:
                assert self.bounds.least <= change.wanted <= self.bounds.most
                assert change.why
                self.changes.append((self.now, change.wanted))
                self.children = change.wanted

    @property
    def numbers(self) -> list[int]:
        return [self.bounds.least, *(number for _, number in self.changes)]

    @property
    def turns(self) -> int:
        """How often it grew again after it had shrunk, and the first time."""
        ups = [later > sooner for sooner, later in pairwise(self.numbers)]
        return sum(up and (not n or not ups[n - 1]) for n, up in enumerate(ups))


# the formula


@pytest.mark.parametrize(
    ("busy", "waiting", "seconds", "share", "expected"),
    [
        (2.0, 0, 1.0, 1.0, 2.0),  # nothing waits: Little's law alone
        (2.0, 100, 0.3, 1.0, 5.0),  # 30 s of work in 10 s
        (2.0, 100, 0.001, 1.0, 2.01),
        (2.0, 3, 600.0, 1.0, 5.0),  # three tasks occupy three children, however long they are
        (1.0, 1000, 0.01, 0.01, 2.0),  # async: a child runs a hundred of a second at a time
        (1.0, 50, 10.0, 0.01, 1.5),
        (0.0, 0, 0.0, 1.0, 0.0),
    ],
)
def test_the_need_is_what_is_busy_and_what_works_off_the_backlog_in_time(
    busy: float, waiting: float, seconds: float, share: float, expected: float
) -> None:
    seen = look(waiting=waiting, seconds=seconds, share=share)
    assert need(busy, seen, 10.0) == pytest.approx(expected)


def test_a_task_that_runs_counts_before_it_has_ended() -> None:
    times = ServiceTimes()
    assert times.means(0.0, 0.0, 0) == (UNKNOWN_SECONDS, 1.0)
    assert times.means(40.0, 2.0, 2) == (40.0, 1.0), "two run for 20 s and none has ended"
    assert times.means(0.0, 0.1, 10)[1] == pytest.approx(0.01), "async tasks, none of which has ended"


def test_one_long_task_among_many_short_ones_does_not_count_for_all_of_them() -> None:
    times = ServiceTimes()
    for _ in range(500):
        times.note(0.001, 1.0)
    seconds, share = times.means(100.0, 1.0, 1)
    assert 1.0 < seconds < 3.0
    assert share == pytest.approx(1.0)
    assert times.means(0.0, 0.0, 0)[0] == pytest.approx(0.001)


def test_what_ended_long_ago_is_forgotten() -> None:
    times = ServiceTimes()
    for seconds in (*[5.0] * 1000, *[0.1] * 300):
        times.note(seconds, 0.01)
    assert times.means(0.0, 0.0, 0) == (pytest.approx(0.001, rel=0.2), pytest.approx(0.01))


# up


def test_a_backlog_is_answered_within_two_looks_by_as_many_as_it_needs_at_once() -> None:
    staffing = Staffing(BOUNDS)
    assert staffing.decide(look(1, waiting=40)) is None
    assert staffing.decide(look(2, waiting=40)) == Change(
        6, "6.0 are needed: 2.0 are busy, and 40 tasks wait, 40.0 s of work to be done in 10 s"
    )


def test_the_lower_of_two_looks_counts_so_that_a_spike_is_not_followed() -> None:
    staffing = Staffing(BOUNDS)
    staffing.decide(look(1, waiting=1000))
    change = staffing.decide(look(2, waiting=15))
    assert change is not None and change.wanted == 4
    spike = Staffing(BOUNDS)
    assert [spike.decide(look(n, waiting=1000 * (n == 3))) for n in range(1, 10)] == [None] * 9


def test_there_are_never_more_than_the_limit_nor_fewer_than_the_least() -> None:
    days = Days(1.0)
    days.run(60, lambda _: 100)
    assert days.changes == [(2, 8)]
    days = Days(1.0, children=8)
    days.run(600, lambda _: 0)
    assert days.children == 2


@pytest.mark.parametrize("waiting", [0, 1, 2])
def test_a_little_that_waits_is_left_to_those_who_are_there(waiting: int) -> None:
    staffing = Staffing(BOUNDS)
    assert [staffing.decide(look(n, waiting=waiting)) for n in range(1, 20)] == [None] * 19


def test_a_single_long_task_that_waits_gets_a_child_of_its_own() -> None:
    staffing = Staffing(Bounds(1, 4, 10, 30))
    changes = [staffing.decide(look(n, 1, 1.0, 1, seconds=60)) for n in (1, 2)]
    assert changes[1] is not None and changes[1].wanted == 2


# down


def test_children_go_one_by_one_and_only_after_the_calm() -> None:
    days = Days(1.0)
    days.run(10, lambda _: 50)
    assert days.children == 8
    days.waiting = 0.0
    days.run(300, lambda _: 0)
    downs = [(at, n) for at, n in days.changes if at > 10]
    assert [n for _, n in downs] == [7, 6, 5, 4, 3, 2]
    assert downs[0][0] >= 10 + BOUNDS.calm_s
    gaps = [later[0] - sooner[0] for sooner, later in pairwise(downs)]
    assert min(gaps) >= BOUNDS.calm_s / STEPS_DOWN


def test_no_child_goes_while_the_rest_would_be_busy_for_more_than_nine_tenths() -> None:
    days = Days(1.0, children=4)
    days.run(600, lambda _: 2.8)
    assert (days.children, days.changes) == (4, [])
    days.run(1200, lambda _: 2.5)
    assert days.children == 3


def test_after_a_gap_nobody_knows_what_was_needed_meanwhile() -> None:
    """The broker was away, or the process was stopped."""
    staffing = Staffing(BOUNDS)
    for at in range(1, 29):
        assert staffing.decide(look(at, 4, 0.5)) is None
    again = 28 + LONGEST_GAP + 1
    assert staffing.decide(look(again, 4, 0.5)) is None
    assert [staffing.decide(look(again + n, 4, 0.5)) for n in range(1, 30)] == [None] * 29
    change = staffing.decide(look(again + 31, 4, 0.5))
    assert change is not None and change.wanted == 3


# calm


@pytest.mark.parametrize("load", [0.5, 1.0, 1.9, 2.05, 3.3, 5.9, 7.0, 7.9, 8.5, 20.0])
def test_a_steady_load_comes_to_rest(load: float) -> None:
    days = Days(0.1)
    days.run(3600, lambda _: load * 10)
    assert len(days.changes) <= 8
    assert not [at for at, _ in days.changes if at > 1200], days.changes
    if load <= 8:
        assert days.waiting * 0.1 / days.children < BOUNDS.backlog_s


@pytest.mark.parametrize("half", [1, 2, 5, 10, 14])
def test_waves_shorter_than_the_calm_change_nothing_once_it_has_grown(half: int) -> None:
    days = Days(0.1)
    days.run(3600, lambda at: 70.0 if at // half % 2 else 1.0)
    assert len(days.changes) <= 4, days.changes
    assert not [at for at, _ in days.changes if at > 300]


@pytest.mark.parametrize("half", [20, 31, 35, 45, 60, 90, 120, 240, 600])
def test_the_number_of_changes_is_bounded_under_any_square_wave(half: int) -> None:
    """An hour between 7 children's work and next to none: it follows long waves, one growth each, and sits out short ones."""
    days = Days(0.1)
    days.run(3600, lambda at: 70.0 if at // half % 2 else 1.0)
    waves = 3600 // (2 * half)
    assert days.turns <= min(waves, 3600 / (4 * BOUNDS.calm_s)), days.changes
    assert sum(abs(later - sooner) for sooner, later in pairwise(days.numbers)) <= 12 * days.turns
    assert days.waiting * 0.1 / 8 < BOUNDS.backlog_s + half, "and the work was done"


def test_a_child_that_is_missed_soon_after_it_went_makes_the_next_one_stay_longer() -> None:
    days = Days(0.1)
    days.run(3600, lambda at: 70.0 if at // 40 % 2 else 1.0)
    assert BOUNDS.calm_s < days.staffing.calm_s <= MOST_CALM * BOUNDS.calm_s
    days.run(9000, lambda _: 1.0)
    assert days.children == 2
    days.run(9100, lambda _: 70.0)
    assert days.staffing.calm_s == BOUNDS.calm_s, "after a long quiet time it begins anew"
