"""A check has its own time: one that hangs or fails is an outcome, and holds up nothing."""

from __future__ import annotations

import threading

from taskkit.alerts import Reading, ReadLevel
from taskkit.errors import DatabaseUnavailable
from taskkit.watchdog.looking import Looker
from taskkit.watchdog.signals import Rule
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


def test_what_a_check_raises_is_its_outcome_without_a_password() -> None:
    def check(one: Rule) -> list[Reading]:
        if one.id == "lost":
            raise DatabaseUnavailable("the database does not answer")
        raise ValueError("mysql://root:hunter2@host/db is odd")

    looker = Looker(check)
    assert looker.look(rule("lost")).error == "the database does not answer"
    said = looker.look(rule("backlog")).error
    assert said == "ValueError: mysql://root:***@host/db is odd"
