"""The end of the demonstration: a rule of the watchdog finds what gave up, and the alert is shown as it would arrive."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from taskkit.errors import AnalyticsMissing

if TYPE_CHECKING:
    from taskkit.alerts import Alert
    from taskkit.kit import Taskkit
    from taskkit.watchdog.signals import Rule

RULE, CODE = "given_up", "slow"


def ending(kit: Taskkit, own: bool) -> Sequence[str]:
    """Look with a shipped rule and show its alert; what is not as it should be. On stores of others nothing is written."""
    from taskkit.render import show
    from taskkit.watchdog.__main__ import need_parts

    try:
        need_parts()
    except AnalyticsMissing as error:
        show("", f"No alert is shown: {error}.")
        return ()
    from taskkit.watchdog.rules import shipped

    rule = next(one for one in shipped() if one.id == RULE)
    alert = next((one for one in _alerts(kit, rule, own) if one.object == CODE), None)
    if alert is None:
        return ("the watchdog did not find the task that gave up",)
    _show(kit, rule, alert)
    return ()


def _alerts(kit: Taskkit, rule: Rule, own: bool) -> Iterator[Alert]:
    """What fires: written into the book like any other on the demonstration's own stores."""
    from taskkit.watchdog.checking import look
    from taskkit.watchdog.engine import Engine
    from taskkit.watchdog.post import Post

    logging.getLogger("taskkit.watchdog").addHandler(
        logging.NullHandler()
    )  # what it would log is shown below
    (found,) = look(kit.settings, kit.center, [rule])
    if own:
        yield from Engine(kit.center, Post(())).apply(rule, found.outcome).fired
    else:
        yield from (turn.after for turn in found.wrong if turn.after is not None)


def _show(kit: Taskkit, rule: Rule, alert: Alert) -> None:
    from rich.panel import Panel
    from rich.text import Text

    from taskkit.alerts import Event, Notice
    from taskkit.cli.messages import plain_text
    from taskkit.render import plain, show
    from taskkit.watchdog.post import Post

    item = Post(()).item(alert, Event.FIRING, rule, alert.breach_at)
    text = plain_text(Notice(uuid="demo", receiver="demo", items=(item,)), kit.settings)
    page = Panel(
        Text(plain(text, lines=True)), title="what arrives in the group", title_align="left", expand=False
    )
    show(
        "",
        f"The watchdog's rule {RULE} has found the task over its limit; a chat group would read:",
        "",
        page,
    )
