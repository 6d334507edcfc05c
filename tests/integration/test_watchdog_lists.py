"""Lists that are cut, and windows that pass: what is still wrong and only not named any more has not ended."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from taskkit.alerts import AlertState, ReadLevel
from taskkit.center import alert_checks
from taskkit.watchdog import checks
from taskkit.watchdog.checks import backlog
from taskkit.watchdog.engine import CheckOutcome, Engine
from taskkit.watchdog.post import Post
from taskkit.watchdog.signals import Rule
from tests.centers import new, periodic
from tests.towns import Town, plan
from tests.watchdogs import breach, rule

pytest_plugins = ["tests.center_fixtures", "tests.town_fixtures"]


@pytest.fixture
def one_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A list of one instead of fifty."""
    monkeypatch.setattr(checks, "MOST", 1)


def firing(town: Town, asked: Rule) -> set[str]:
    """Look once, and what fires then."""
    Engine(town.center, Post([])).apply(asked, CheckOutcome(tuple(town.look(asked))))
    return {one.object for one in town.center.alerts.open() if one.state is AlertState.FIRING}


@pytest.mark.usefixtures("one_named")
def test_dead_letters_of_a_code_that_is_no_longer_the_most_frequent_one_do_not_end(town: Town) -> None:
    asked = rule("given_up", keep_firing="0s")
    town.run(new("mail"), new("mail"), ends="given_up")
    assert firing(town, asked) == {"mail"}
    town.run(*[new("push") for _ in range(3)], ends="given_up")
    assert firing(town, asked) == {"mail"}, "what has an alert goes first"
    assert town.breaches(asked).keys() == {"mail"}
    town.pass_by(700, every=100)
    assert firing(town, asked) == set()


def test_dead_letters_that_are_not_listed_for_want_of_room_do_not_end(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = rule("given_up", keep_firing="0s")
    town.run(new("mail"), ends="given_up")
    assert firing(town, asked) == {"mail"}
    monkeypatch.setattr(alert_checks, "MOST_DEAD", 1)
    town.run(new("push"), new("push"), ends="given_up")
    assert firing(town, asked) == {"mail", "push"}


@pytest.mark.usefixtures("one_named")
def test_missed_times_of_a_code_that_is_no_longer_the_first_do_not_end(town: Town) -> None:
    asked = rule("missed", keep_firing="0s")
    plan(town)
    town.clock.move(seconds=200)
    assert firing(town, asked) == {"report"}
    town.center.intake.insert([periodic(town.now, "* * * * *", code="early")])
    town.center.plan.sweep()
    town.clock.move(seconds=200)
    assert firing(town, asked) == {"report"}


@pytest.mark.usefixtures("one_named")
def test_a_silent_worker_does_not_end_because_another_fell_silent_later(town: Town) -> None:
    asked = rule("worker_dead", hold="0s", keep_firing="0s")
    for name in ("host:1:a", "host:2:b", "host:3:c"):
        town.worker(name, queues=name[-1])
    del town.workers["host:1:a"]
    town.pass_by(70)
    assert firing(town, asked) == {"host:1:a"}
    del town.workers["host:2:b"]
    town.pass_by(70)
    assert firing(town, asked) == {"host:1:a"}


@pytest.mark.usefixtures("one_named")
def test_what_has_an_alert_stays_in_a_list_that_is_cut_and_the_worst_fill_it_up(town: Town) -> None:
    asked = rule("slow")
    assert checks.most(["b", "a"], str, asked, town.place()) == ["b"]
    Engine(town.center, Post([])).apply(asked, CheckOutcome((breach("a"), breach("c"))))
    assert checks.most(["b", "a", "d", "c"], str, asked, town.place()) == ["a", "c"]


def test_a_queue_that_needs_too_long_does_not_end_when_others_become_longer(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = rule(above=1000, drain_above="10s", drain_from=10, per="queue", hold="0s", keep_firing="0s")
    monkeypatch.setattr(backlog, "MOST_DIAGNOSED", 1)
    drain: dict[str, float] = {"mail": 100.0, "push": 1.0}

    def diagnosis(_rule: Any, _place: Any, queues: tuple[str, ...]) -> Any:
        return SimpleNamespace(
            verdict="burst", figure=lambda name: drain[queues[0]] if name == "drain_now" else None
        )

    monkeypatch.setattr(backlog, "_diagnosis", diagnosis)
    monkeypatch.setattr(
        backlog, "_breach", lambda _rule, name, waiting, *_: breach(name, value=float(waiting))
    )
    engine = Engine(town.center, Post([]))

    def look() -> dict[str, ReadLevel]:
        readings = backlog.check(asked, town.place())
        engine.apply(asked, CheckOutcome(tuple(readings)))
        return {one.object: one.level for one in readings}

    town.center.intake.insert([new(queue="mail") for _ in range(20)])
    town.pass_by(60)
    assert look() == {"mail": ReadLevel.BREACH}
    town.center.intake.insert([new(queue="push") for _ in range(30)])
    town.pass_by(60)
    assert look() == {"push": ReadLevel.CLEAR, "mail": ReadLevel.BREACH}
    drain["mail"] = 1.0
    assert look() == {"push": ReadLevel.CLEAR, "mail": ReadLevel.CLEAR}
    assert town.center.alerts.open() == []


def test_a_time_that_has_still_not_fired_does_not_end_because_it_is_long_ago(town: Town) -> None:
    asked = rule("missed", keep_firing="0s")
    planned = town.now
    plan(town)
    town.clock.move(seconds=3 * 3600)
    found = town.breaches(asked)
    assert found.keys() == {"report"}, "a watchdog that was not there tells it too"
    assert found["report"].since is not None
    assert found["report"].since <= planned + timedelta(minutes=2)
