"""When a promised wait will be broken: from what waits, what arrives and what is done."""

from __future__ import annotations

import pytest

from taskkit.analytics.diagnosis import Diagnosis, Figure
from taskkit.watchdog.checks.forecast import look_ahead
from tests.watchdogs import at


def backlog(**values: float | None) -> Diagnosis:
    fixed = {
        "waiting": 600,
        "arrival_per_s": 20.0,
        "service_per_s": 9.0,
        "capacity_per_s": 10.0,
        "slots": 10,
        "service_mean": 1000.0,
    }
    evidence = tuple(Figure(name, value) for name, value in (fixed | values).items())
    return Diagnosis("backlog", "burst", "warning", "high", at(), at(hours=1), at(hours=1), evidence=evidence)


@pytest.mark.parametrize(
    ("values", "breaks_in"),
    [
        ({}, (600 * 9 - 600) / 11),  # 9 a second keep 600 s up to 5,400 tasks; 11 more of them each second
        ({"arrival_per_s": 9.0}, None),
        ({"arrival_per_s": 1.0}, None),
        ({"waiting": 5400}, 0.0),
        ({"waiting": 90_000, "arrival_per_s": 0.0}, 0.0),
        ({"service_per_s": None}, (600 * 9 - 600) / 11),
        ({"service_per_s": 0.0, "capacity_per_s": None, "oldest_age": 100.0}, 500.0),
        ({"service_per_s": None, "capacity_per_s": None, "oldest_age": 1000.0}, 0.0),
        ({"service_per_s": None, "capacity_per_s": None, "waiting": 0}, None),
    ],
)
def test_the_instant_at_which_a_promise_of_ten_minutes_is_broken(
    values: dict[str, float | None], breaks_in: float | None
) -> None:
    found = look_ahead(backlog(**values), 600.0)
    assert found.breaks_in_s == (None if breaks_in is None else pytest.approx(breaks_in))


def test_the_slots_that_would_keep_it_bear_what_arrives_and_what_waits() -> None:
    assert (look_ahead(backlog(), 600.0).wanted, look_ahead(backlog(), 600.0).more) == (23, 13)
    assert look_ahead(backlog(waiting=36_000), 600.0).wanted == 67
    assert look_ahead(backlog(service_mean=None), 600.0).wanted is None
    assert look_ahead(backlog(service_mean=None), 600.0).more == 1
