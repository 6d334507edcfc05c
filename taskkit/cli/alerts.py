"""``taskkit alerts``: what is wrong and was, who was told of it, and who promised to be quiet."""

from __future__ import annotations

import click

from taskkit.cli import alerts_preview, alerts_quiet, alerts_receivers
from taskkit.cli.front import Front, pass_front
from taskkit.cli.options import LARGEST_ID, SPAN, json_option
from taskkit.cli.select import instant_of

LONGEST = 10_000
ALERT_ID = click.IntRange(1, LARGEST_ID)
language_option = click.option(
    "--lang", "language", type=click.Choice(["en", "zh"]), help="Language (default: watchdog.language)."
)


@click.group(name="alerts")
def command() -> None:
    """List and show alerts; silence them, say who looks after one; try and see what receivers get.

    \b
      taskkit alerts list                                              what is wrong now
      taskkit alerts show 17                                           its figures, what to do, who was told
      taskkit alerts silence --rule backlog --for 2h --reason 'import of the year'
      taskkit alerts test ops                                          does the robot take messages?
    """


@command.command(name="list")
@click.option("--all", "everything", is_flag=True, help="Also those that are over.")
@click.option("--rule", metavar="RULE", help="Only of this rule.")
@click.option(
    "--since",
    type=SPAN,
    metavar="AGE",
    help="All that were open in the last 30m, 1h, 2d, those that are over too.",
)
@click.option(
    "--limit", type=click.IntRange(1, LONGEST), default=50, show_default=True, help="At most so many."
)
@language_option
@json_option
@pass_front
def list_alerts(
    front: Front,
    everything: bool,
    rule: str | None,
    since: float | None,
    limit: int,
    language: str | None,
    as_json: bool,
) -> None:
    """List alerts, newest first: those that are pending or fire, or with --all every one there was.

    \b
      taskkit alerts list
      taskkit alerts list --all --rule backlog
      taskkit alerts list --since 1d
    """
    from taskkit.cli.alerts_shown import alert_shape, alerts_table
    from taskkit.render import show, to_json

    book = front.center.alerts
    states = ("pending", "firing", "resolved") if everything or since is not None else ("pending", "firing")
    found = book.newest(states, rule=rule, since=instant_of(front.center, since), most=limit)
    if as_json:
        click.echo(to_json([alert_shape(alert) for alert in found]))
    elif not found:
        show("no alert matches" if everything or since is not None or rule else _calm(front))
    else:
        show(alerts_table(found, language or front.settings.watchdog.language, front.center.now()))
        if len(found) == limit:
            show(f"there may be more: --limit {limit * 2}")


def _calm(front: Front) -> str:
    """That nothing is wrong is only said where somebody looks."""
    from taskkit.beats import FRESH_S

    rows = front.center.watchdogs.all()
    patience = max(FRESH_S, 3 * front.settings.watchdog.heartbeat_s)
    if any(row["stopped_at"] is None and (row["heartbeat_age_s"] or 0.0) <= patience for row in rows):
        return "no alert is open"
    return "no alert is open, but no watchdog is alive either: start one with `python -m taskkit.watchdog`"


@command.command(name="show")
@click.argument("alert_id", type=ALERT_ID, metavar="ID")
@language_option
@json_option
@pass_front
def show_alert(front: Front, alert_id: int, language: str | None, as_json: bool) -> None:
    """Show the whole life of an alert: figures, forecast, what to do, and each notice with its calls and reply codes.

    \b
      taskkit alerts show 17
      taskkit alerts show 17 --lang zh
    """
    from taskkit.cli.alerts_shown import alert_shape, show_life
    from taskkit.render import to_json

    book = front.center.alerts
    alert, told = book.alert(alert_id), book.told(alert_id)
    if as_json:
        click.echo(to_json(alert_shape(alert) | {"notices": told}))
    else:
        show_life(alert, told, book.silences(), language or front.settings.watchdog.language)


@command.command()
@click.argument("alert_id", type=ALERT_ID, metavar="ID")
@json_option
@pass_front
def ack(front: Front, alert_id: int, as_json: bool) -> None:
    """Say that you look after an alert: it is not repeated any more. Its end is told as ever.

    \b
      taskkit alerts ack 17
    """
    from taskkit.cli.alerts_shown import alert_shape
    from taskkit.render import show, to_json

    front.must_exist()
    alert = front.kit.operations.ack(alert_id)
    if as_json:
        click.echo(to_json(alert_shape(alert)))
    else:
        show(f"alert {alert_id} is looked after by {alert.acked_by}: it is not repeated any more")


for _command in (*alerts_quiet.COMMANDS, *alerts_receivers.COMMANDS, alerts_preview.command):
    command.add_command(_command)
