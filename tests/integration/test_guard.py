"""The schedulers' guard: what it tells of dead watchdogs, to whom, and what it leaves alone. By a clock that is moved."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from taskkit.alerts import Alert
from taskkit.center import TaskCenter
from taskkit.scheduler import guard as guards
from taskkit.scheduler.guard import WatchdogGuard
from taskkit.settings import Settings
from tests.alert_rows import written
from tests.centers import Clock, instant
from tests.robots import WebhookServer, webhook
from tests.schemas import on_sqlite
from tests.watched import told

FIRING = ("firing", "watchdog", "")
OPS = '[[receiver]]\nname = "ops"\nkind = "webhook"\nurl_env = "OPS_URL"\n'


class Yard:
    """An installation whose only watchdog was killed, its files, and the guard of a scheduler."""

    def __init__(self, folder: Path, center: TaskCenter, clock: Clock, robot: WebhookServer) -> None:
        self.folder, self.center, self.clock, self.robot = folder, center, clock, robot
        (folder / "receivers.toml").write_text(OPS)
        self.guard = WatchdogGuard(center, settings(folder), "h:1:scheduler")

    def rules(self, text: str) -> None:
        (self.folder / "rules.toml").write_text(text)

    def passes(self, seconds: float = 60.0) -> list[tuple[str, str, str]]:
        """Let time pass in which the guard looks twice; what was heard so far."""
        for _ in range(2):
            self.clock.move(seconds=seconds / 2)
            self.guard.tick()
        return told(self.robot.calls)

    @property
    def alert(self) -> Alert | None:
        return next(iter(self.center.alerts.open()), None)


def settings(folder: Path) -> Settings:
    return Settings.load(
        env={
            "TASKKIT_HOME": str(folder / "home"),
            "TASKKIT_WATCHDOG_ALERTING": str(folder),
            "TASKKIT_WATCHDOG_LANGUAGE": "en",
        }
    )


@pytest.fixture
def yard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Yard]:
    monkeypatch.setattr(guards, "BEATS", 0)
    monkeypatch.setattr(guards, "LONGEST_PAUSE", 0)
    monkeypatch.setattr(guards, "READ_S", 0.0)
    clock = Clock(instant(2026, 1, 1))
    with webhook() as robot, on_sqlite(tmp_path, clock) as center:
        monkeypatch.setenv("OPS_URL", robot.url)
        center.watchdogs.enter("h:9:dead", "h", 9)
        yield Yard(tmp_path, center, clock, robot)


def test_dead_watchdogs_are_told_once(yard: Yard) -> None:
    assert yard.passes() == []
    assert yard.passes(120) == [FIRING]
    assert yard.passes(120) == [FIRING]
    assert yard.alert is not None
    assert yard.alert.told_at is not None


def test_a_rule_that_is_switched_off_is_not_told_and_what_waits_goes_out_all_the_same(yard: Yard) -> None:
    yard.rules('[[rule]]\nid = "watchdog"\nenabled = false\n')
    assert yard.passes(300) == []
    assert yard.alert is None
    waiting = written(yard.center, "ops")
    assert yard.passes() == [("firing", waiting.rule, waiting.object)]
    yard.rules('[[rule]]\nid = "watchdog"\nenabled = true\n')
    assert yard.passes(300)[1:] == [FIRING]


def test_only_the_receivers_that_the_rule_names_are_told(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    with webhook() as other:
        monkeypatch.setenv("OTHER_URL", other.url)
        (yard.folder / "receivers.toml").write_text(
            OPS + "\n" + OPS.replace("ops", "other").replace("OPS", "OTHER")
        )
        yard.rules('[[rule]]\nid = "watchdog"\nreceivers = ["other"]\n')
        assert yard.passes(300) == []
        assert told(other.calls) == [FIRING]


def test_when_a_silence_ends_and_they_are_still_dead_it_is_told_then_and_once(yard: Yard) -> None:
    until = yard.center.now() + timedelta(minutes=30)
    yard.center.alerts.silence(until, "ada", "maintenance", rule="watchdog")
    assert yard.passes(600) == []
    assert yard.alert is not None
    assert yard.alert.silence_id is not None
    assert yard.alert.told_at is None
    began = yard.alert.since
    assert yard.passes(1800) == [FIRING]
    assert yard.passes(1800) == [FIRING]
    assert yard.alert.silence_id is None
    assert yard.alert.since == began, "not since the silence ended"


def test_receivers_that_cannot_be_read_stand_in_the_alert_and_it_is_told_when_they_are_mended(
    yard: Yard, caplog: pytest.LogCaptureFixture
) -> None:
    (yard.folder / "receivers.toml").write_text(OPS.replace("url_env", "url_evn"))
    yard.guard.tick()
    assert "url_evn" in caplog.text, "a scheduler says it at its start"
    assert yard.passes(300) == []
    assert yard.alert is not None
    assert yard.alert.told_at is None
    assert "receivers.toml line 4" in yard.alert.said["en"].text
    assert "url_evn" in yard.alert.said["zh"].text
    (yard.folder / "receivers.toml").write_text(OPS)
    assert yard.passes() == [FIRING]
    assert "receivers.toml" not in yard.alert.said["en"].text


class Slow:
    """A courier that always has more to send."""

    def __init__(self) -> None:
        self.sent = 0

    def tick(self) -> float:
        self.sent += 1
        assert self.sent < 100, "the guard goes on without looking up"
        return 0.0


def slow_couriers(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> tuple[Slow, Slow]:
    """Two of them in the guard of dead watchdogs, which reads no others meanwhile."""
    yard.passes(300)
    one, two = Slow(), Slow()
    monkeypatch.setattr(guards, "READ_S", 3600.0)
    yard.guard._couriers = [one, two]
    return one, two


def test_between_two_messages_the_guard_can_be_stopped_and_sees_that_a_watchdog_is_back(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = slow_couriers(yard, monkeypatch)
    yard.clock.move(seconds=60)
    assert yard.guard.tick() == 0.0, "there is more"
    assert (one.sent, two.sent) == (1, 1)
    yard.center.watchdogs.beat("h:9:dead", 1, None)
    yard.guard.tick()
    assert (one.sent, two.sent) == (1, 1)


def test_a_guard_whose_lease_is_half_over_looks_again_before_it_goes_on(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = slow_couriers(yard, monkeypatch)
    monkeypatch.setattr(guards, "LEASE_S", 0.0)
    assert yard.guard._deliver() == 0.0
    assert (one.sent, two.sent) == (0, 0)
