"""What persons do to alerts, and what they read of the ledger, on each kind of database."""

from __future__ import annotations

from datetime import timedelta

import pytest

from taskkit.alerts import Notice
from taskkit.center import TaskCenter
from taskkit.center.outbox import Robot
from taskkit.center.posting import new_uuid
from taskkit.errors import NotFound
from tests.alert_rows import ended, written
from tests.centers import sql

pytest_plugins = ["tests.center_fixtures"]


def actions(center: TaskCenter) -> list[tuple[str, str]]:
    return [
        (row.actor, row.action) for row in sql(center, "SELECT actor, action FROM task_action ORDER BY id")
    ]


def test_what_a_person_does_is_recorded_with_it_or_not_done_at_all(center: TaskCenter) -> None:
    one = written(center)
    until = center.now() + timedelta(hours=2)
    silence = center.alerts.silence(until, "ada", "import \N{PILE OF POO}", rule="zombies", object="h:*")
    assert [(s.id, s.reason) for s in center.alerts.silences()] == [(silence, "import \N{PILE OF POO}")]
    assert center.alerts.ack(one.id, "grace").acked_by == "grace"
    center.alerts.end_silence(silence, "lin")
    assert center.alerts.silences() == []
    ended(center, center.alerts.alert(one.id))
    for refused in (lambda: center.alerts.ack(one.id, "x"), lambda: center.alerts.end_silence(silence, "x")):
        with pytest.raises(NotFound):
            refused()
    assert actions(center) == [("ada", "silence"), ("grace", "ack"), ("lin", "unsilence")]


def test_a_coming_silence_is_shown_and_does_not_hold_yet(center: TaskCenter) -> None:
    later = center.now() + timedelta(hours=1)
    center.alerts.silence(later + timedelta(hours=1), "ada", "tonight", starts_at=later)
    assert center.alerts.silences() == []
    assert [one.reason for one in center.alerts.silences(coming=True)] == ["tonight"]


def test_a_notice_is_followed_by_its_key_and_taken_back_while_it_waits(center: TaskCenter) -> None:
    robot = Robot("r0b07", ("ops",), 18, calls=2)
    waits, goes = (Notice(uuid=new_uuid(), receiver="ops", subject=word) for word in ("waits", "goes"))
    for notice in (goes, waits):
        center.outbox.post_notice(notice)
    first = center.outbox.waiting(["ops"])[0]
    taken = center.outbox.take(robot, [first], first.notice, "h:1:a")
    assert taken is not None
    assert not center.ledger.take_back(goes.uuid), "it is on its way"
    assert center.ledger.take_back(waits.uuid)
    center.outbox.called(taken.calls[0], "text", "sent", "0", "ok", 12.0)
    center.outbox.sent(taken, robot, 1, "0", "ok", "2026-11")
    found, dropped = center.ledger.notice(goes.uuid), center.ledger.notice(waits.uuid)
    assert found is not None
    assert dropped is not None
    assert (found["state"], found["code"], [call["verdict"] for call in found["calls"]]) == (
        "sent",
        "0",
        ["sent"],
    )
    assert (dropped["state"], dropped["calls"]) == ("dropped", [])
    assert center.ledger.notice("nothing") is None
    assert center.ledger.recent_calls() == {"r0b07": 1}
    assert center.ledger.recent_calls(0.0) == {}
