"""What tests of alerts read in the messages of the robots."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from taskkit.alerts import Event
from tests.alarms import Heard
from tests.notices import bodies, item, notice, receiver, text
from tests.robot_server import Call


def heard(kind: str, language: str, *events: Event) -> Heard:
    url = (
        {"url": "https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=k"}
        if kind == "wecom"
        else {"url": "https://oapi.dingtalk.com/robot/send?access_token=k"}
    )
    items = [item(number, event, object=f"q{number}") for number, event in enumerate(events, 1)]
    return Heard(
        cast(
            Call,
            SimpleNamespace(text=text(bodies(receiver(kind, **url), notice(*items), language=language)[0])),
        )
    )


@pytest.mark.parametrize("kind", ["wecom", "dingtalk"])
@pytest.mark.parametrize("language", ["zh", "en"])
def test_a_digest_tells_of_each_of_its_alerts(kind: str, language: str) -> None:
    one = heard(kind, language, Event.FIRING, Event.RESOLVED)
    assert one.event == "other"
    assert one.tells("firing", "backlog", "q1")
    assert one.tells("resolved", "backlog", "q2")
    assert not one.tells("resolved", "backlog", "q1")
    assert not one.tells("firing", "backlog", "q2")
    assert heard(kind, language, Event.RESOLVED).tells("resolved", "backlog", "q1")
