"""``taskkit alerts preview``: how an alert will look in the chat, before there is one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from taskkit.cli.front import Front, pass_front
from taskkit.cli.options import json_option
from taskkit.errors import InputError
from taskkit.receivers.keys import KINDS

if TYPE_CHECKING:
    from taskkit.alerts import Alert, Notice
    from taskkit.receivers.protocol import CallPayload, Receiver

URLS = {
    "wecom": "https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=preview-preview-preview",
    "dingtalk": "https://oapi.dingtalk.com/robot/send?access_token=preview-preview-preview",
    "feishu": "https://open.feishu.cn/open-apis/bot/v2/hook/preview-preview-preview",
    "webhook": "https://example.com/preview",
}
USUAL = ("wecom", "dingtalk")
"""What is shown where no receiver is configured and no kind is named."""


@click.command(name="preview")
@click.argument("rule", metavar="RULE")
@click.option(
    "--lang", "language", type=click.Choice(["en", "zh"]), help="Language (default: the receiver's)."
)
@click.option(
    "--kind", type=click.Choice(list(KINDS)), help="As this kind of receiver shows it (default: yours)."
)
@click.option("--out", metavar="FILE", help="Write a page of HTML that looks about as in the chat.")
@json_option
@pass_front
def command(
    front: Front, rule: str, language: str | None, kind: str | None, out: str | None, as_json: bool
) -> None:
    """Show how an alert of RULE looks where it arrives: the open one, or an example with the figures of a real incident.

    Nothing is sent.

    \b
      taskkit alerts preview backlog
      taskkit alerts preview backlog --lang zh --kind wecom
      taskkit alerts preview backlog --out backlog.html
    """
    from taskkit.cli.messages import calls_of, text_of
    from taskkit.render import show, to_json

    notice, about = _notice(front, rule)
    shown = _receivers(front, kind)
    calls = [(one, calls_of(one, notice, front.settings, language)) for one in shown]
    if out is not None:
        _write(Path(out), about, calls, language or front.settings.watchdog.language)
    if as_json:
        told = [
            {"receiver": one.name, "kind": one.kind, "calls": [text_of(call, one.kind) for call in some]}
            for one, some in calls
        ]
        click.echo(to_json({"rule": rule, "about": about, "messages": told, "file": out}))
    elif out is not None:
        show(out)
    else:
        show(about)
        for one, some in calls:
            for call in some:
                show(
                    "",
                    f"── {one.name} ({one.kind} {call.kind}, {len(call.body):,} B)",
                    *text_of(call, one.kind).splitlines(),
                )


def _notice(front: Front, name: str) -> tuple[Notice, str]:
    """The open alert of the rule as a notice, or an example; and which of both it is."""
    from taskkit.alerts import Event, Notice
    from taskkit.hints import suggest
    from taskkit.settings.alerting import alerting_folder
    from taskkit.watchdog.examples import example
    from taskkit.watchdog.post import Post
    from taskkit.watchdog.rules import load_rules

    rules = {rule.id: rule for rule in load_rules(alerting_folder(front.settings))}
    if name not in rules:
        raise InputError("RULE", f"there is no rule {name!r}{suggest(name, rules)}")
    rule = rules[name]
    alert, about = _open(front, name), "an alert that is open"
    if alert is None:
        alert, about = example(rule, front.settings), "an example"
    item = Post((), front.settings.watchdog.console_url).item(alert, Event.FIRING, rule, alert.breach_at)
    return Notice(uuid="preview", receiver="preview", items=(item,)), f"{name}: {about}"


def _open(front: Front, rule: str) -> Alert | None:
    """The alert of this rule that fires, if there is an installation and one in it."""
    from taskkit.errors import NotFound

    try:
        found = front.center.alerts.newest(("firing",), rule=rule, most=1)
    except NotFound:
        return None
    return found[0] if found else None


def _receivers(front: Front, kind: str | None) -> Sequence[Receiver]:
    """The configured ones (of a kind), else one made up for it."""
    from taskkit.receivers.loading import load_receivers

    own = [one for one in load_receivers(front.settings) if kind in {None, one.kind}]
    return own or [made_up(one) for one in ([kind] if kind else USUAL)]


def made_up(kind: str) -> Receiver:
    """A receiver of this kind that leads nowhere."""
    from taskkit.receivers.config import read

    place = {
        "mail": 'server = "smtp.example.com"\nfrom = "taskkit@example.com"\nto = ["ops@example.com"]'
    }.get(kind, 'url_env = "PREVIEW_URL"')
    text = f'[[receiver]]\nname = "preview"\nkind = "{kind}"\n{place}\n'
    return read(text, {"PREVIEW_URL": URLS.get(kind, "")})["preview"]


def _write(
    path: Path, about: str, calls: Sequence[tuple[Receiver, Sequence[CallPayload]]], language: str
) -> None:
    from taskkit.receivers.preview import CLIENTS, bubbles, page

    parts = [(f"{CLIENTS[one.kind]} · {about}", bubbles(some, one.kind)) for one, some in calls]
    path.write_text(page(parts, language), encoding="utf-8")
