"""Limits: how they are stated, which one is about a task, and how many may start now."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest

from taskkit.errors import InputError
from taskkit.limits import (
    Limit,
    LimitBook,
    Scope,
    Starts,
    check_limit_key,
    fill_key,
    make_limit,
    parse_rate,
    shown_rate,
)

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def limit(rate: int = 100, period: int = 1) -> Limit:
    return Limit(Scope.KEY, "stripe", None, rate, period)


@pytest.mark.parametrize(
    ("text", "rate", "period", "shown"),
    [
        ("100/s", 100, 1, "100/s"),
        (" 600 / min ", 600, 60, "600/min"),
        ("600/m", 600, 60, "600/min"),
        ("5000/h", 5000, 3600, "5000/h"),
        ("30/10s", 30, 10, "30/10s"),
        ("1/90s", 1, 90, "1/90s"),
        ("7/120s", 7, 120, "7/2min"),
        ("1/D", 1, 86_400, "1/d"),
    ],
)
def test_a_rate_is_so_many_starts_in_a_time(text: str, rate: int, period: int, shown: str) -> None:
    assert parse_rate(text) == (rate, period)
    assert shown_rate(rate, period) == shown
    assert parse_rate(shown) == (rate, period)


@pytest.mark.parametrize(
    "text", ["", "100", "100/", "/s", "0/s", "-1/s", "1.5/s", "1/0s", "1/2d", "1/w", 100, None]
)
def test_a_rate_that_means_nothing_is_refused_by_name(text: object) -> None:
    with pytest.raises(InputError, match=r"^rate: "):
        parse_rate(text)


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"queue": None, "key": None, "concurrency": 1}, "queue"),
        ({"queue": "a", "key": "b", "concurrency": 1}, "queue"),
        ({"queue": "a", "key": None}, "concurrency"),
        ({"queue": "a", "key": None, "concurrency": 0}, "concurrency"),
        ({"queue": "a", "key": None, "concurrency": True}, "concurrency"),
        ({"queue": "", "key": None, "concurrency": 1}, "queue"),
        ({"queue": None, "key": "k" * 191, "concurrency": 1}, "key"),
        ({"queue": "a", "key": None, "rate": "often"}, "rate"),
    ],
)
def test_a_limit_that_means_nothing_is_refused_by_name(given: dict[str, object], field: str) -> None:
    with pytest.raises(InputError) as raised:
        make_limit(**given)  # type: ignore[arg-type]
    assert raised.value.field == field


def test_a_limit_says_its_terms() -> None:
    both = make_limit(queue="mail", key=None, concurrency=5, rate="100/s")
    assert (str(both), both.terms) == ("queue mail", "5 at once, 100/s")
    assert make_limit(queue=None, key="stripe", rate="1/min").terms == "1/min"


def test_the_closest_limit_is_the_one() -> None:
    stated = ["customer:17", "customer:*", "*", "cust*"]
    book = LimitBook(make_limit(queue=None, key=name, concurrency=1) for name in stated)
    for key, name in {
        "customer:17": "customer:17",
        "customer:170": "customer:*",
        "customer:": "customer:*",
        "custom": "cust*",
        "x": "*",
    }.items():
        found = book.find(Scope.KEY, key)
        assert found is not None
        assert found.name == name
    assert book.find(Scope.KEY, None) is None
    assert book.find(Scope.QUEUE, "customer:17") is None
    assert book.covers("mail", "x")
    assert not book.covers("mail", None)
    assert not LimitBook()


def test_a_key_is_filled_with_the_payload() -> None:
    assert fill_key("customer:{id}:{kind}", {"id": 17, "kind": "a", "more": 1.5}) == "customer:17:a"
    assert fill_key("stripe", {}) == "stripe"
    for payload in ({}, {"id": None}, {"id": 1.5}, {"id": True}, {"id": ""}, {"id": [1]}, None):
        with pytest.raises(InputError, match=r"^limit_key: 'customer:\{id\}' needs id to be"):
            fill_key("customer:{id}", payload)
    with pytest.raises(InputError, match="must not end with"):
        check_limit_key("customer:*")


# starts


def run(of: Limit, seconds: float, latest: float, seed: int = 1, least: float = 0.02) -> list[datetime]:
    """The starts when somebody lets go all there is room for, as often as may be, and now and then late."""
    rng, now, starts, found = random.Random(seed), NOON, Starts(), []
    while now - NOON < timedelta(seconds=seconds):
        starts = Starts.decode(starts.encode())
        room = starts.room(of, now)
        starts.take(of, now, room)
        found += [now] * room
        late = latest * rng.random() if rng.random() > 0.02 else 10 * latest * rng.random()
        now = max(starts.next(of, now), now + timedelta(seconds=least)) + timedelta(seconds=late)
    return found


@pytest.mark.parametrize(
    ("rate", "period", "seconds"), [(100, 1, 15), (30, 1, 30), (1, 1, 60), (5, 1, 60), (600, 60, 300)]
)
@pytest.mark.parametrize("latest", [0.0, 0.005, 0.03])
def test_rule_07_a_rate_is_never_exceeded_in_any_period_and_is_used(
    rate: int, period: int, seconds: float, latest: float
) -> None:
    """Whatever second is looked at, and however late the starts are let go."""
    of = limit(rate, period)
    found = run(of, seconds, latest)
    for first, beyond in zip(found, found[rate:], strict=False):
        assert beyond - first >= timedelta(seconds=period)
    assert len(found) >= 0.95 * rate * seconds / period


def test_starts_are_spread_over_the_period() -> None:
    """A tenth of the period at once at most, so that a rate by the hour is not spent in its first second."""
    starts, of = Starts(), limit(600, 60)
    assert starts.room(of, NOON) == 61
    starts.take(of, NOON, 61)
    assert starts.room(of, NOON) == 0
    assert timedelta(0) < starts.next(of, NOON) - NOON <= timedelta(seconds=0.2)
    assert starts.room(of, NOON + timedelta(seconds=1)) == 10


def test_a_clock_that_was_set_back_stops_nothing_for_longer_than_a_period() -> None:
    starts, of = Starts(), limit(1, 1)
    starts.take(of, NOON, 1)
    assert starts.room(of, NOON - timedelta(hours=1)) == 1
    assert starts.room(of, NOON + timedelta(seconds=0.5)) == 0
    assert starts.room(of, NOON + timedelta(seconds=1)) == 1


def test_what_is_remembered_stays_small() -> None:
    of = limit(100_000, 3600)
    starts, now = Starts(), NOON
    for _ in range(5000):
        starts.take(of, now, starts.room(of, now))
        now += timedelta(seconds=1)
    assert len(starts.encode()) < 8000


@pytest.mark.parametrize("text", [None, "", "null", "[]", "{}", '[["a"],1]', '[[[1,2]],"x"]', "nonsense"])
def test_starts_that_somebody_edited_are_forgotten(text: str | None) -> None:
    assert Starts.decode(text) == Starts()
