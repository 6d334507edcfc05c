"""``taskkit diagnose``: the cause of what is wrong, with the figures that show it and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from taskkit.cli.conduct import Failed
from taskkit.cli.front import Front, pass_front
from taskkit.cli.options import json_option, window_options

if TYPE_CHECKING:
    from taskkit.analytics import Source


@click.command()
@click.argument("rule")
@window_options("Diagnose")
@click.option(
    "--workers", type=click.IntRange(1), metavar="N", help="backlog, capacity: forecast with so many slots."
)
@click.option(
    "--lang", "language", type=click.Choice(["en", "zh"]), default="en", show_default=True, help="Language."
)
@click.option("--strict", is_flag=True, help="Exit code 1 when the verdict is a warning or worse.")
@json_option
@pass_front
def command(front: Front, /, rule: str, language: str, strict: bool, as_json: bool, **options: Any) -> None:
    """Say what is wrong by RULE: the cause, the figures that show it, the forecast and what to do.

    Rules: backlog, duplicates, zombies, lost, success_rate, missed, slow, retry_storm, capacity. Nothing is changed.

    \b
      taskkit diagnose backlog
      taskkit diagnose backlog --since 2h --workers 50
      taskkit diagnose duplicates --bundle incident.zip --json
    """
    from taskkit.analytics import diagnose
    from taskkit.render import show, to_json

    more = {"workers": options["workers"]} if options["workers"] else {}
    found = diagnose(rule, source_of(front, options), **more)
    if as_json:
        click.echo(to_json(found.as_dict(language)))
    else:
        show(*found.text(language).splitlines())
    if strict and not found.healthy:
        raise Failed


def source_of(front: Front, options: dict[str, Any]) -> Source:
    """The bundle that was named, or the live database."""
    from taskkit.analytics import Bundle, LiveSource, Window, settings_facts

    if options.get("bundle"):
        return Bundle(options["bundle"])
    center = front.center
    center.check_schema()
    now = center.now()
    window = Window.last(options["since"], options["until"] or now, front.settings.timezone)
    return LiveSource(center, window, now=now, facts=settings_facts(front.settings))
