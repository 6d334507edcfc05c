"""A check has its own time: one that hangs or fails is an outcome, and holds up nothing."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from taskkit.alerts import Reading, ReadLevel
from taskkit.center import TaskCenter
from taskkit.errors import DatabaseUnavailable
from taskkit.settings import Settings
from taskkit.watchdog.evidence import Evidence
from taskkit.watchdog.looking import Looker
from taskkit.watchdog.patrol import Patrol
from taskkit.watchdog.place import CheckPlace
from taskkit.watchdog.policy import Policy
from taskkit.watchdog.rules import shipped
from taskkit.watchdog.signals import Rule
from tests.schemas import build
from tests.waiting import wait_until
from tests.watchdogs import rule


def test_a_check_that_hangs_fails_after_its_limit_and_is_not_begun_again_meanwhile() -> None:
    gate, begun = threading.Event(), []

    def check(one: Rule) -> list[Reading]:
        begun.append(one.id)
        gate.wait()
        return []

    looker = Looker(check)
    hanging = rule("backlog", limit=0.05)
    assert "did not end within 0.05 s" in str(looker.look(hanging).error)
    assert "did not end" in str(looker.look(hanging).error)
    assert begun == ["backlog"]
    gate.set()
    wait_until(lambda: looker.look(hanging).error is None)


def test_one_that_hangs_stops_no_other() -> None:
    gate = threading.Event()

    def check(one: Rule) -> list[Reading]:
        if one.id == "backlog":
            gate.wait()
        return [Reading("", ReadLevel.CLEAR)]

    looker = Looker(check)
    assert looker.look(rule("backlog", limit=0.05)).error is not None
    assert looker.look(rule("lost", limit=5)).readings == (Reading("", ReadLevel.CLEAR),)
    gate.set()


def test_checks_that_hang_in_sql_leave_connections_to_all_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path / 'looks.db'}"
    build(url)
    center, settings = TaskCenter(url), Settings(home=tmp_path, database_url=url)
    gate, begun = threading.Event(), []

    def hangs_or_looks(asked: Rule, place: CheckPlace) -> list[Reading]:
        def work(_connection: object) -> list[Reading]:
            begun.append(asked.id)
            if asked.id != "watchdog":
                gate.wait()
            return [Reading("", ReadLevel.CLEAR)]

        return place.center.database.read(work)

    monkeypatch.setattr("taskkit.watchdog.patrol.run_check", hangs_or_looks)
    rules = [rule(one.id, limit=0.2 if one.id != "watchdog" else 20) for one in shipped()]
    patrol = Patrol(settings, center, "me", Evidence(settings, center), lambda: Policy((), ()), lambda: True)
    try:
        for one in rules[:-1]:
            assert patrol._looker.look(one).error is not None
        wait_until(lambda: len(begun) == len(rules) - 1, 20)
        assert patrol._looker.look(rules[-1]).readings == (Reading("", ReadLevel.CLEAR),)
        assert sorted(begun) == sorted(one.id for one in rules)
    finally:
        gate.set()
        patrol.close()
        center.close()


def test_what_a_check_raises_is_its_outcome_without_a_password() -> None:
    def check(one: Rule) -> list[Reading]:
        if one.id == "lost":
            raise DatabaseUnavailable("the database does not answer")
        raise ValueError("mysql://root:hunter2@host/db is odd")

    looker = Looker(check)
    assert looker.look(rule("lost")).error == "the database does not answer"
    said = looker.look(rule("backlog")).error
    assert said == "ValueError: mysql://root:***@host/db is odd"
