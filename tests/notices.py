"""Notices and receivers for tests: one alert, many, and receivers that tell a fake robot."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from taskkit.alerts import Event, Item, Notice, Said
from taskkit.receivers import Form, Payload, Receiver, Reply
from taskkit.receivers.config import read

SHANGHAI = ZoneInfo("Asia/Shanghai")
T0 = datetime(2026, 1, 1, tzinfo=UTC)
ENGLISH = Said(
    title="No worker is alive",
    text="12,345 tasks of mail wait, and no worker has a fresh heartbeat.",
    figures=(("waiting", "12,345"), ("oldest", "3.3 h"), ("workers alive", "0"), ("a fourth", "9")),
    forecast=(("drained", "never at the present rate"),),
    actions=(("start a worker", "taskkit worker --queues mail"), ("look", "taskkit status")),
)
CHINESE = Said(
    title="没有存活的 worker",
    text="mail 有 12,345 个任务等待，没有任何 worker 心跳新鲜。",
    figures=(("等待", "12,345"), ("最久", "3.3 小时"), ("存活 worker", "0"), ("第四个", "9")),
    forecast=(("积压做完", "按现在的速度永远不会"),),
    actions=(("启动一个 worker", "taskkit worker --queues mail"), ("查看", "taskkit status")),
)
SAID = {"en": ENGLISH, "zh": CHINESE}


def item(number: int = 12, event: Event = Event.FIRING, **changes: Any) -> Item:
    """One alert of rule backlog, ``at`` some time after it began."""
    values: dict[str, Any] = {
        "alert_id": number, "event": event, "rule": "backlog", "object": "mail", "severity": "critical",
        "since": T0, "at": T0 if event is Event.FIRING else T0 + timedelta(minutes=65), "said": SAID,
        "cause": "no_workers", "runbook": "runbooks/backlog.md", "link": f"https://console.example.com/alerts/{number}",
    }  # fmt: skip
    return Item(**values | changes)


def notice(*items: Item, uuid: str = "9f1c", **changes: Any) -> Notice:
    """A notice of these alerts, or a test message."""
    return Notice(uuid=uuid, receiver="ops", items=items, **changes)


def saying(text: str, *, title: str = "title", uuid: str = "9f1c", **changes: Any) -> Notice:
    """A notice whose alert says this in both languages, and has nothing else to say."""
    said = Said(title=title, text=text)
    bare = {"runbook": "", "link": "", **changes}
    return notice(item(said={"en": said, "zh": said}, **bare), uuid=uuid)


def receiver(kind: str, lines: str = "", **env: str) -> Receiver:
    """The receiver ``ops`` of a kind: ``url`` and ``secret`` are given, the rest is TOML."""
    given = "".join(f'{name}_env = "OPS_{name.upper()}"\n' for name in env)
    text = f'[[receiver]]\nname = "ops"\nkind = "{kind}"\n{given}{lines}\n'
    return read(text, {f"OPS_{name.upper()}": value for name, value in env.items()})["ops"]


def payloads(one: Receiver, told: Notice, form: Form | None = None, language: str = "zh") -> list[Payload]:
    """The calls of a notice."""
    return list(one.payloads(told, form or Form(), language=language, zone=SHANGHAI))


def bodies(
    one: Receiver, told: Notice, form: Form | None = None, language: str = "zh"
) -> list[dict[str, Any]]:
    """The JSON of these calls."""
    return [json.loads(payload.body) for payload in payloads(one, told, form, language)]


def text(body: dict[str, Any]) -> str:
    """The message in a robot's JSON."""
    content = body[body["msgtype"]]
    return str(content.get("text") or content["content"])


def sent(one: Receiver, told: Notice, *, now: datetime | None = None, language: str = "zh") -> list[Reply]:
    """The replies to all calls of a notice."""
    moment = now or datetime.now(UTC)
    return [one.send(call, uuid=told.uuid, now=moment) for call in payloads(one, told, language=language)]
