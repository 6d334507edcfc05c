"""Acceptance 6: no key, token or secret of a receiver stands in anything that a run has written, however receivers answer."""

from __future__ import annotations

import io
import logging
import secrets
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from taskkit.alerts import Notice
from taskkit.errors import SettingsError
from taskkit.settings import Settings
from taskkit.watchdog.policy import load_policy
from tests.alarms import SCALED
from tests.processes import Installation
from tests.robots import FakeServer, Trouble, dingtalk_robot, feishu_robot, webhook, wecom_robot
from tests.traces import found_in, secrets_of
from tests.waiting import wait_until
from tests.watched import file_of, leader, watch, watchdog

RULES = """
[[rule]]
id = "backlog"
above = 3
for = "0.5s"
every = "0.5s"
per = "queue"
drain_above = "off"
evidence = false

[[rule]]
id = "watchdog"
"""
TOKEN, PING, PASTED = (secrets.token_hex(20) for _ in range(3))


@contextmanager
def written_down() -> Iterator[io.StringIO]:
    """Whatever is logged in this process, by anybody and at every level, with its tracebacks."""
    kept = io.StringIO()
    handler, root = logging.StreamHandler(kept), logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        yield kept
    finally:
        root.removeHandler(handler)
        root.setLevel(level)


def hostile(robots: Mapping[str, FakeServer]) -> None:
    """Answers that hold what must not be kept: the vendors' own refusals, and pages that repeat the address."""
    robots["wecom"].answers([40058, (502, f"no route to {robots['wecom'].url}"), 93000])
    robots["dingtalk"].answers([{"errcode": 40035, "errmsg": f"bad: {robots['dingtalk'].url}"}])
    robots["feishu"].answers([{"code": 9499, "msg": f"bad sign, secret {robots['feishu'].secret}"}])
    robots["hook"].answers(
        [(500, f"who is Bearer {TOKEN}?"), Trouble.REDIRECT, (401, {"error": f"token {TOKEN}"})]
    )


@pytest.mark.timeout(180)
def test_acceptance_6_no_secret_is_written_anywhere(tmp_path: Path) -> None:
    with (
        Installation(tmp_path, **SCALED) as home,
        wecom_robot() as wecom,
        dingtalk_robot() as dingtalk,
        feishu_robot(secret=secrets.token_hex(16)) as feishu,
        webhook() as hook,
        webhook() as pinged,
    ):
        robots = {"wecom": wecom, "dingtalk": dingtalk, "feishu": feishu, "hook": hook}
        watch(home, robots, RULES, hook='token_env = "HOOK_TOKEN"\nfallback = true')
        home.environment |= {"HOOK_TOKEN": TOKEN, "TASKKIT_WATCHDOG_PING_URL": f"{pinged.url}/{PING}"}
        hostile(robots)
        pinged.answers([(500, PING), Trouble.CLOSE])
        home.scheduler()
        dog = watchdog(home)
        leader(home, [dog])
        home.enqueue_many("echo", [{}] * 5, queue="one")
        wait_until(
            lambda: len(wecom.calls) >= 3 and len(hook.calls) >= 2 and dingtalk.calls and feishu.calls, 60
        )
        _pasted(home)
        dog.signal(signal.SIGHUP)
        wait_until(lambda: any("stay as they were" in line["message"] for line in dog.lines()), 20)
        dog.kill()
        wait_until(
            lambda: any("no watchdog is alive" in line["message"] for line in home.processes[0].lines()), 30
        )
        wanted = secrets_of(*robots.values()) | {TOKEN, PING, PASTED}
        assert _said_here(home, robots) & wanted == set()
        assert [place for place in found_in(home, wanted) if place != "alerting/receivers.toml"] == []
        heard = [call.raw for robot in robots.values() for call in robot.calls]
        assert not any(one.encode() in raw for one in wanted for raw in heard), "in a message"
        assert not pinged.calls or any(PING in call.path for call in pinged.calls)


def _pasted(home: Installation) -> None:
    """Somebody writes the address itself where its variable's name belongs."""
    path = file_of(home, "receivers.toml")
    url = f"https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key={PASTED}"
    path.write_text(
        path.read_text() + f'\n\n[[receiver]]\nname = "pasted"\nkind = "wecom"\nurl_env = "{url}"\n'
    )


def _said_here(home: Installation, robots: Mapping[str, FakeServer]) -> set[str]:
    """The secrets in what receivers, settings and errors show of themselves, while each is called in vain."""
    settings = Settings.load(env=home.environment)
    with written_down() as kept:
        try:
            load_policy(settings, home.environment)
        except SettingsError as error:
            kept.write(f"{error!r} {error}")
        path = file_of(home, "receivers.toml")
        path.write_text(path.read_text().partition('[[receiver]]\nname = "pasted"')[0])
        policy = load_policy(settings, home.environment)
        for one, robot in zip(policy.receivers, robots.values(), strict=True):
            notice = Notice(uuid="u" * 32, receiver=one.name, subject="a test", text="of what is shown")
            (payload, *_) = one.payloads(notice, language="en", zone=UTC)
            with robot.refusing():
                reply = one.send(payload, uuid=notice.uuid, now=datetime.now(UTC))
            kept.write(
                f"{one!r} {one} {reply!r} {payload!r} {vars(one.options) if hasattr(one.options, '__dict__') else one.options}"
            )
        kept.write(f"{policy!r} {settings!r} {settings.shown()}")
    text = kept.getvalue()
    return {one for one in secrets_of(*robots.values()) | {TOKEN, PING, PASTED} if one in text}
