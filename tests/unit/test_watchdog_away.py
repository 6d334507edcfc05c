"""While SQL is away: one alert, told once from memory by one watchdog, and what becomes of it when SQL is back."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from taskkit.alerts import AlertState, Event
from taskkit.center import TaskCenter
from taskkit.errors import DatabaseUnavailable, StoreError
from taskkit.notices import Courier, MemoryOutbox
from taskkit.receivers.protocol import Reply, Verdict
from taskkit.service import Stop
from taskkit.settings import Settings
from taskkit.watchdog.away import SqlAway
from taskkit.watchdog.checks.stores import sql_away
from taskkit.watchdog.engine import CheckOutcome, Engine
from taskkit.watchdog.policy import Policy
from taskkit.watchdog.post import Post
from taskkit.watchdog.process import WatchdogProcess
from tests.schemas import on_sqlite
from tests.unit.test_notices import Clock, Robot
from tests.watchdogs import breach, clear, rule

AWAY = DatabaseUnavailable("the database does not answer")
RETRY = Reply(Verdict.RETRY, "timeout")
STORES: dict[str, Any] = {"hold": "10s", "keep_firing": "30s", "every": "10s", "group_wait": "0s"}


class Told:
    """The mark in Redis, which both watchdogs see."""

    def __init__(self, shared: dict[str, str], name: str) -> None:
        self.shared, self.name = shared, name

    def others(self) -> bool:
        return self.shared.get("by", self.name) != self.name

    def put(self) -> None:
        self.shared["by"] = self.name

    def take_away(self) -> None:
        self.shared.clear()


class Dog:
    """One watchdog's knowledge of SQL, its outbox in memory, and its robot."""

    def __init__(self, center: TaskCenter, clock: Clock, *, leads: bool = True, **keys: Any) -> None:
        self.center, self.clock, self.rule = center, clock, rule("stores", **(STORES | keys))
        self.robot = Robot(clock)
        self.memory = MemoryOutbox(clock.seconds)
        self.post = Post([self.robot])
        self.shared: dict[str, str] = {}
        mark = Told(self.shared, "leader" if leads else "other")
        self.away = SqlAway(sql_away, self.memory, mark, lambda: leads)  # type: ignore[arg-type]

    def fails(self, seconds: float, every: float = 1.0) -> None:
        """SQL does not answer for so long, and what can be told from memory is told."""
        end = self.clock.seconds() + seconds
        while self.clock.seconds() < end:
            self.away.failed(self.rule, self.post, AWAY, self.clock.now)
            self.tells()
            self.clock.move(every)

    def answers(self) -> None:
        self.away.back(self.center, self.rule, self.post)

    def tells(self) -> None:
        courier = Courier(self.memory, [self.robot], "me", clock=self.clock)
        while courier.tick() <= 0:
            continue

    def tells_from_the_book(self) -> None:
        courier = Courier(self.center.outbox, [self.robot], "me", clock=self.clock)
        while courier.tick() <= 0:
            continue

    def looks(self) -> None:
        """The ordinary check finds SQL well."""
        Engine(self.center, self.post).apply(self.rule, CheckOutcome((clear("sql"),)))
        self.tells_from_the_book()

    @property
    def told(self) -> list[Event]:
        return [item.event for notice in self.robot.taken.values() for item in notice.items]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def center(tmp_path: Path, clock: Clock) -> Iterator[TaskCenter]:
    with on_sqlite(tmp_path, clock) as found:
        yield found


def fails(*_: object, **__: object) -> Any:
    raise AWAY


def test_it_is_told_once_and_its_end_once(center: TaskCenter, clock: Clock) -> None:
    dog = Dog(center, clock)
    dog.answers()
    dog.fails(60)
    assert dog.told == [Event.FIRING]
    dog.answers()
    assert not dog.away.known
    clock.move(31)
    dog.looks()
    clock.move(31)
    dog.looks()
    assert dog.told == [Event.FIRING, Event.RESOLVED]


def untold(center: TaskCenter, clock: Clock) -> Dog:
    """Knows that SQL is away, and could not tell it yet."""
    dog = Dog(center, clock)
    dog.robot.answers = [RETRY]
    dog.fails(12)
    assert dog.told == []
    return dog


def test_what_was_not_told_yet_survives_that_it_could_not_be_written(
    center: TaskCenter, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    dog = untold(center, clock)
    with monkeypatch.context() as patched:
        patched.setattr(center.alerts, "record", fails)
        with pytest.raises(StoreError):
            dog.answers()
    assert dog.away.known, "it is handed over at the next look"
    (kept,) = dog.memory.waiting(["ops"])
    assert (kept.attempts, kept.due) == (1, False), "no sooner than it was due"
    assert kept.notice.uuid == dog.robot.calls[0][3], "with its key"
    dog.answers()
    dog.tells_from_the_book()
    assert dog.told == [Event.FIRING]
    assert not dog.away.known


def test_what_was_not_told_yet_is_told_where_another_was_faster(
    center: TaskCenter, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    dog = untold(center, clock)
    with monkeypatch.context() as patched:
        patched.setattr(center.alerts, "record", lambda changes: [0 for _ in changes])
        dog.answers()
    assert dog.away.known
    clock.move(10)
    dog.tells()
    assert dog.told == [Event.FIRING], "from memory"
    dog.answers()
    assert [alert.state for alert in center.alerts.open()] == [AlertState.FIRING]
    dog.tells_from_the_book()
    assert dog.told == [Event.FIRING]


def test_what_is_pending_in_the_book_is_taken_over_so_that_its_end_is_told(
    center: TaskCenter, clock: Clock
) -> None:
    dog = Dog(center, clock)
    Engine(center, dog.post).apply(dog.rule, CheckOutcome(tuple(sql_away(AWAY))))
    assert [alert.state for alert in center.alerts.open()] == [AlertState.PENDING]
    dog.fails(20)
    dog.answers()
    clock.move(31)
    dog.looks()
    clock.move(31)
    dog.looks()
    assert dog.told == [Event.FIRING, Event.RESOLVED]


def test_sql_that_comes_and_goes_is_one_incident(center: TaskCenter, clock: Clock) -> None:
    dog = Dog(center, clock)
    for _ in range(3):
        dog.fails(15)
        dog.answers()
        dog.tells_from_the_book()
        clock.move(12)
        dog.answers()
    assert dog.told == [Event.FIRING]
    assert [alert.flaps for alert in center.alerts.open()] == [0]
    clock.move(31)
    dog.looks()
    clock.move(31)
    dog.looks()
    dog.answers()
    dog.fails(15)
    assert dog.told == [Event.FIRING, Event.RESOLVED, Event.FIRING], "the next one is told again"


def test_a_standby_that_reads_in_the_book_that_it_is_told_does_not_tell_it_again(
    center: TaskCenter, clock: Clock
) -> None:
    dog = Dog(center, clock)
    other = Dog(center, clock, leads=False)
    other.away._mark.shared = dog.shared  # type: ignore[attr-defined]
    dog.fails(15)
    dog.answers()
    clock.move(6)
    other.answers()
    dog.answers()
    for _ in range(20):
        dog.fails(1)
        other.fails(1)
    assert dog.told == [Event.FIRING]
    assert other.told == []


def test_a_standby_that_hears_late_that_sql_is_back_does_not_begin_anew_what_has_ended(
    center: TaskCenter, clock: Clock
) -> None:
    dog, other = Dog(center, clock), Dog(center, clock, leads=False)
    dog.fails(15)
    dog.answers()
    clock.move(6)
    other.answers()
    other.fails(3)
    clock.move(31)
    dog.looks()
    clock.move(31)
    dog.looks()
    assert dog.told == [Event.FIRING, Event.RESOLVED]
    other.answers()
    assert center.alerts.open() == []
    assert not other.away.known


def test_a_silence_set_before_holds_while_sql_is_away(center: TaskCenter, clock: Clock) -> None:
    dog = Dog(center, clock)
    starts = clock.now + timedelta(minutes=5)
    center.alerts.silence(
        starts + timedelta(minutes=10), "ada", "SQL moves", rule="stores", object="sql", starts_at=starts
    )
    dog.answers()
    clock.move(301)
    dog.fails(120)
    assert dog.told == []
    assert dog.away.known, "looks and delivery wait all the same"
    clock.move(600)
    dog.fails(2)
    assert dog.told == [Event.FIRING], "the silence is over"


@pytest.mark.parametrize(("keys", "every"), [({"hold": "0s"}, 1.0), ({"every": "5s"}, 1.0), ({}, 16.0), ({"every": "5s"}, 16.0)])  # fmt: skip
def test_a_standby_waits_and_then_tells_once(
    center: TaskCenter, clock: Clock, keys: dict[str, Any], every: float
) -> None:
    dog = Dog(center, clock, leads=False, **keys)
    dog.fails(29, every)
    assert dog.told == []
    dog.fails(60, every)
    assert dog.told == [Event.FIRING]


def test_a_standby_that_heard_that_it_was_told_is_quiet_and_writes_nothing(
    center: TaskCenter, clock: Clock
) -> None:
    dog = Dog(center, clock, leads=False, hold="0s")
    dog.shared["by"] = "leader"
    dog.fails(120)
    assert dog.told == []
    dog.answers()
    assert center.alerts.newest() == []


def test_how_long_a_look_at_sql_hangs_does_not_keep_the_leader_from_telling(
    center: TaskCenter, clock: Clock
) -> None:
    dog = Dog(center, clock, every="5s")
    dog.fails(60, every=16.0)
    assert dog.told == [Event.FIRING]


def test_a_rule_that_is_switched_off_while_sql_is_away_lets_the_watchdog_work_again(
    center: TaskCenter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(home=tmp_path, database_url=center.database.url.render_as_string())
    asked = rule("stores", **(STORES | {"hold": "0s"}))
    gone = rule("stores", **STORES, enabled=False)
    dog = WatchdogProcess(settings, center, Stop(), Policy((asked,), ()), lambda: Policy((gone,), ()))
    dog._leads_until = float("inf")
    try:
        with monkeypatch.context() as patched:
            patched.setattr(dog.probe, "now", fails)
            dog.look_at_sql()
            assert not dog._works()
            with monkeypatch.context() as book:
                book.setattr(center.alerts, "open", fails)
                dog._read_policy()
            dog.look_at_sql()
        dog.look_at_sql()
        assert dog._works()
    finally:
        for beside in (dog.heart, dog.probe, dog.patrol, dog.mark):
            beside.close()


def test_alerts_of_a_rule_that_went_while_sql_was_away_end_when_it_is_back(
    center: TaskCenter, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(home=tmp_path, database_url=center.database.url.render_as_string())
    lost = rule("lost", hold="0s")
    Engine(center, Post([])).apply(lost, CheckOutcome((breach(""),)))
    dog = WatchdogProcess(settings, center, Stop(), Policy((lost,), ()), lambda: Policy((), ()))
    try:
        with monkeypatch.context() as patched:
            patched.setattr(center.alerts, "open", fails)
            dog._read_policy()
        dog.look_at_sql()
        assert len(center.alerts.open()) == 1, "another one works"
        dog._leads_until = float("inf")
        dog.look_at_sql()
        assert center.alerts.open() == []
    finally:
        for beside in (dog.heart, dog.probe, dog.patrol, dog.mark):
            beside.close()
