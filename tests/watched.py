"""Installations that are watched: rules and receivers in a folder, fake robots that hear, real watchdogs that tell."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.processes import Installation, Process
from tests.robot_server import Call
from tests.robots import FakeServer
from tests.waiting import wait_until

QUICK = """
[defaults]
every = "0.4s"
for = "0.5s"
keep_firing = "1s"
group_wait = "0s"
"""
"""Durations for tests; whatever a rule of a test does not say is as it is shipped."""
KINDS = {
    "WeComRobot": "wecom",
    "DingTalkRobot": "dingtalk",
    "FeishuRobot": "feishu",
    "WebhookServer": "webhook",
}


def watch(
    home: Installation,
    robots: Mapping[str, FakeServer],
    rules: str,
    *,
    only: bool = True,
    defaults: str = QUICK,
    **more: str,
) -> None:
    """Lay out the folder of alerting of an installation. ``only``: whatever rule is not named is switched off.

    ``more`` has further lines for a receiver by its name.
    """
    folder = home.folder / "alerting"
    folder.mkdir(exist_ok=True)
    (folder / "rules.toml").write_text(defaults + rules + (_others_off(rules) if only else ""))
    receivers = []
    for name, robot in robots.items():
        kind = KINDS[type(robot).__name__]
        url, secret = f"{name.upper()}_URL", f"{name.upper()}_SECRET"
        home.environment[url] = robot.url
        lines = ["[[receiver]]", f'name = "{name}"', f'kind = "{kind}"', f'url_env = "{url}"']
        if getattr(robot, "secret", ""):
            home.environment[secret] = robot.secret  # type: ignore[attr-defined]
            lines.append(f'secret_env = "{secret}"')
        receivers.append("\n".join([*lines, more.get(name, "")]))
    (folder / "receivers.toml").write_text("\n\n".join(receivers))
    home.environment |= {
        "TASKKIT_WATCHDOG_ALERTING": str(folder),
        "TASKKIT_WATCHDOG_HEARTBEAT_S": "0.3",
        "TASKKIT_WATCHDOG_LEASE_S": "2",
    }


def _others_off(rules: str) -> str:
    from taskkit.watchdog.signals import SIGNALS

    return "".join(
        f'\n[[rule]]\nid = "{name}"\nenabled = false\n' for name in SIGNALS if f'id = "{name}"' not in rules
    )


def watchdog(home: Installation, **environment: Any) -> Process:
    """A watchdog that is up."""
    return home.begin("watchdog", **environment).ready()


def leader(home: Installation, watchdogs: list[Process]) -> Process:
    """The one that works."""

    def works() -> Process | None:
        for one in watchdogs:
            if one.popen.poll() is None and one.lines(message="this watchdog looks and tells from now on"):
                return one
        return None

    return wait_until(works, 20)


def told(calls: list[Call]) -> list[tuple[str, str, str]]:
    """What a webhook heard, in order: status, rule and object of each alert."""
    return [
        (alert["status"], alert["labels"]["alertname"], alert["labels"].get("object", ""))
        for call in calls
        if call.answer is not None
        for alert in call.body.get("alerts", ())
    ]


def file_of(home: Installation, name: str) -> Path:
    """A file of the folder of alerting."""
    return home.folder / "alerting" / name
