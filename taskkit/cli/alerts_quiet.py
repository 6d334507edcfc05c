"""``taskkit alerts silence|silences|unsilence``: promises not to tell, with an end, an author and a reason."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from taskkit.cli.front import Front, pass_front
from taskkit.cli.options import LARGEST_ID, SPAN, json_option
from taskkit.errors import InputError, SettingsError

if TYPE_CHECKING:
    from taskkit.alerts import Alert


@click.command()
@click.option("--rule", metavar="RULE", help="Of this rule (default: of all).")
@click.option(
    "--object",
    "name",
    metavar="PATTERN",
    help="Of objects that match: mail, mail*, 'host-?:*' (default: all).",
)
@click.option("--everything", is_flag=True, help="Of all rules and objects; say so, for it is much.")
@click.option("--for", "lasts_s", type=SPAN, required=True, metavar="TIME", help="It ends after 30m, 2h, 1d.")
@click.option("--reason", required=True, metavar="TEXT", help="Why; others will read it.")
@click.option("--author", metavar="WHO", help="Who promises it (default: you, as user@host).")
@json_option
@pass_front
def silence(
    front: Front,
    rule: str | None,
    name: str | None,
    everything: bool,
    lasts_s: float,
    reason: str,
    author: str | None,
    as_json: bool,
) -> None:
    """Tell nobody of some alerts for a while. They go on to fire and end; what still fires afterwards is told.

    \b
      taskkit alerts silence --rule backlog --for 2h --reason 'import of the year'
      taskkit alerts silence --object 'mail*' --for 1d --reason 'the provider is down'
    """
    from taskkit.render import duration, show, to_json

    if rule is None and name is None and not everything:
        raise click.UsageError("say what: --rule, --object, or --everything")
    center = front.center
    if rule is not None:
        check_rule(front, rule)
    silence_id = front.kit.operations.silence(lasts_s, reason, rule=rule, object=name, actor=author)
    covered = _covered(center.alerts.open(), rule, name)
    if as_json:
        click.echo(to_json({"id": silence_id, "covers": [alert.id for alert in covered]}))
        return
    show(f"silence {silence_id} holds for {duration(lasts_s)}; taskkit alerts unsilence {silence_id} ends it")
    ids = ", ".join(
        f"{alert.id} ({alert.rule}{' ' + alert.object if alert.object else ''})" for alert in covered
    )
    show(f"it covers what is open now: {ids}" if covered else "it covers nothing that is open now")


def check_rule(front: Front, rule: str) -> None:
    """Refuse a rule that nobody knows: neither the files here, nor a watchdog, nor an alert."""
    from taskkit.hints import suggest

    known = {
        *front.center.watchdogs.rules(),
        *(alert.rule for alert in front.center.alerts.newest(rule=rule, most=1)),
    }
    if rule not in known:
        known |= set(_in_files(front))
    if rule not in known:
        raise InputError("--rule", f"there is no rule {rule!r}{suggest(rule, known)}")


def _in_files(front: Front) -> Iterable[str]:
    from taskkit.settings.alerting import alerting_folder
    from taskkit.watchdog.rules import load_rules, shipped

    try:
        return [rule.id for rule in load_rules(alerting_folder(front.settings))]
    except SettingsError:
        return [rule.id for rule in shipped()]


def _covered(alerts: Iterable[Alert], rule: str | None, name: str | None) -> list[Alert]:
    from fnmatch import fnmatchcase

    return [
        one for one in alerts if rule in {None, one.rule} and (name is None or fnmatchcase(one.object, name))
    ]


@click.command()
@json_option
@pass_front
def silences(front: Front, as_json: bool) -> None:
    """Show the silences that hold, until when, whose they are and why.

    \b
      taskkit alerts silences
    """
    from taskkit.cli.alerts_shown import silence_shape, silences_table
    from taskkit.render import show, to_json

    found = front.center.alerts.silences(coming=True)
    if as_json:
        click.echo(to_json([silence_shape(one) for one in found]))
    elif not found:
        show("there is no silence; `taskkit alerts silence --help` says how")
    else:
        show(silences_table(found, front.center.now()))


@click.command()
@click.argument("silence_id", type=click.IntRange(1, LARGEST_ID), metavar="ID")
@json_option
@pass_front
def unsilence(front: Front, silence_id: int, as_json: bool) -> None:
    """End a silence now: what it covers and still fires is told.

    \b
      taskkit alerts unsilence 3
    """
    from taskkit.render import show, to_json

    front.must_exist()
    front.kit.operations.unsilence(silence_id)
    if as_json:
        click.echo(to_json({"id": silence_id, "ended": True}))
    else:
        show(f"silence {silence_id} has ended")


COMMANDS = (silence, silences, unsilence)
