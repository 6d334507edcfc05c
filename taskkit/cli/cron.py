"""``taskkit cron``: what a cron expression means."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from taskkit.cli.complete import zones
from taskkit.cli.front import Front, pass_front
from taskkit.cli.options import INSTANT, json_option


@click.group(name="cron")
def command() -> None:
    """Explain cron expressions before a task depends on them.

    \b
      taskkit cron explain '0 2 * * *' --tz America/New_York
    """


@command.command(name="explain")
@click.argument("expression", metavar="EXPR")
@click.option(
    "--tz",
    "timezone",
    metavar="ZONE",
    shell_complete=zones,
    help="Time zone (default: the setting timezone, which is UTC).",
)
@click.option("--after", type=INSTANT, metavar="ISO", help="Fire times after this instant (default: now).")
@click.option(
    "--count", type=click.IntRange(1, 1000), default=10, show_default=True, metavar="N", help="How many."
)
@click.option(
    "--gap",
    type=click.Choice(["after", "skip"]),
    default="after",
    help="A local time that does not exist: at the end of the gap, or not at all.",
)
@click.option(
    "--overlap",
    type=click.Choice(["first", "second", "both"]),
    default="first",
    help="A local time that exists twice: which one fires.",
)
@json_option
@pass_front
def explain_expression(
    front: Front,
    expression: str,
    timezone: str | None,
    after: datetime | None,
    count: int,
    gap: str,
    overlap: str,
    as_json: bool,
) -> None:
    """Show the next fire times of EXPR in UTC and local time, with the days of clock changes marked.

    Five fields (minute hour day month weekday), or six with seconds first; @daily and friends; L, #, ranges.

    \b
      taskkit cron explain '0 2 * * *' --tz America/New_York --after 2026-03-06T00:00:00Z
      taskkit cron explain '*/10 * * * * *' --count 3 --json
    """
    from taskkit.cron import explain
    from taskkit.render import show, table, to_json

    zone = timezone or front.settings.timezone
    found = explain(expression, zone, after or datetime.now(UTC), count, gap=gap, overlap=overlap)
    if as_json:
        shapes = [{"utc": zulu(one.utc), "local": one.local.isoformat(), "note": one.note} for one in found]
        click.echo(to_json(shapes))
        return
    rows = [(zulu(one.utc), f"{one.local:%a %Y-%m-%d %H:%M:%S %z}", one.note) for one in found]
    show(table(("UTC", f"local time in {zone}", "note"), rows, keep=("UTC", f"local time in {zone}")))


def zulu(instant: datetime) -> str:
    """A fire time, which has whole seconds: ``2026-03-01T01:00:00Z``."""
    return instant.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
