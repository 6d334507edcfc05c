"""The executed notebook of an alert: what it looks at, and that none begins once the watchdog stops; and the daily line."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from taskkit.alerts import Alert, AlertState
from taskkit.analytics import Bundle
from taskkit.analytics.bundle import create
from taskkit.center import TaskCenter
from taskkit.cli.root import cli
from taskkit.notebook import running
from taskkit.notices import MemoryOutbox
from taskkit.settings import Settings
from taskkit.watchdog import evidence as made
from taskkit.watchdog.delivery import Delivery
from taskkit.watchdog.evidence import MOST_WAITING, Evidence, window_of
from taskkit.watchdog.post import Post
from tests.cases import broken
from tests.schemas import build
from tests.unit.test_notices import Clock, Robot
from tests.waiting import wait_until
from tests.watchdogs import START, rule

ALERT = Alert(7, "backlog", "mail", AlertState.FIRING, "critical", "burst", 1.0, "tasks", {}, START, START)


@pytest.fixture
def center(tmp_path: Path) -> Iterator[TaskCenter]:
    url = f"sqlite:///{tmp_path / 'evidence.db'}"
    build(url)
    found = TaskCenter(url)
    yield found
    found.close()


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        (rule("backlog"), ["--since", "3600s"]),
        (
            rule("backlog", queues=("mail", "push")),
            ["--since", "3600s", "--queue", "mail", "--queue", "push"],
        ),
        (rule("backlog", per="queue"), ["--since", "3600s", "--queue", "mail"]),
        (rule("lost", over="20m"), ["--since", "1200s"]),
    ],
)
def test_a_notebook_looks_at_what_the_rule_looked_at_when_it_fired(asked: Any, wanted: list[str]) -> None:
    found = window_of(replace(ALERT, breach_at=START.replace(hour=3)), asked)
    assert found[:2] + found[4:] == wanted
    assert found[2:4] == ["--until", "2026-01-01T03:00:00.000000Z"]


def test_the_notebooks_process_is_told_so(
    center: TaskCenter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[list[str]] = []

    class Ended:
        returncode = 0

        def __init__(self, command: list[str], **_: object) -> None:
            begun.append(command)

        def communicate(self, **_: object) -> tuple[None, bytes]:
            return None, b""

    monkeypatch.setattr(made.subprocess, "Popen", Ended)
    assert Evidence(Settings(home=tmp_path), center).page(ALERT, rule("lost", over="20m")) is not None
    assert begun[0][begun[0].index("lost") + 1 :][:4] == window_of(ALERT, rule("lost", over="20m"))


@pytest.mark.parametrize("waiting", [1, MOST_WAITING])
def test_no_notebook_begins_once_the_watchdog_stops(
    center: TaskCenter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, waiting: int
) -> None:
    begun: list[Any] = []

    class Hanging:
        pid, returncode = 2**22 + 1, -9

        def __init__(self, *_: object, **__: object) -> None:
            self.over = threading.Event()
            begun.append(self)

        def poll(self) -> int | None:
            return -9 if self.over.is_set() else None

        def wait(self) -> None:
            self.over.set()

        def communicate(self, **_: object) -> tuple[None, bytes]:
            self.over.wait()
            return None, b"killed"

    monkeypatch.setattr(made.subprocess, "Popen", Hanging)
    monkeypatch.setattr(made.os, "killpg", lambda *_: None)
    one = Evidence(Settings(home=tmp_path), center)
    post = Post([Robot(Clock())])
    one.ask(ALERT, rule("backlog"), post)
    wait_until(lambda: begun, 10)
    for number in range(waiting):
        one.ask(replace(ALERT, id=100 + number), rule("backlog"), post)
    one.stop()
    assert one._thread is not None
    one._thread.join(10)
    assert not one._thread.is_alive()
    assert len(begun) == 1
    assert one.page(ALERT, rule("backlog")) is None


def test_the_run_of_a_notebook_sees_the_named_queues_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Bundle] = []

    def run(_rule: str, out: str, parameters: dict[str, str], **_: object) -> Path:
        bundle = Bundle(parameters["bundle"])
        bundle.frame("workers")
        bundle.frame("arrivals")
        seen.append(bundle)
        return Path(out)

    whole = create(broken(), tmp_path / "whole.zip", schema="x")
    names = sorted(set(Bundle(whole).frame("arrivals")["queue"]))
    monkeypatch.setattr(running, "run", run)
    words = ["runbook", "run", "backlog", "--bundle", str(whole), "--queue", names[0], "--json"]
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == 0, result.output
    assert json.loads(result.output)["rule"] == "backlog"
    assert set(seen[0].frame("arrivals")["queue"]) == {names[0]}
    assert seen[0].window == Bundle(whole).window


def test_the_daily_line_comes_once_a_local_day_also_where_the_clocks_change(
    tmp_path: Path, center: TaskCenter, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(home=tmp_path, timezone="America/New_York")
    delivery = Delivery(settings, center, MemoryOutbox(), "me")
    delivery.couriers([Robot(Clock())])
    days = [datetime(2026, 3, 8, 0, 30, tzinfo=UTC), datetime(2026, 3, 8, 23, 30, tzinfo=UTC)]
    for now in [*days, days[1]]:
        monkeypatch.setattr(center, "now", lambda now=now: now)
        delivery.daily()
    assert len(center.outbox.waiting(["ops"])) == 2, "the seventh and the eighth of March, at 19:30 each"
