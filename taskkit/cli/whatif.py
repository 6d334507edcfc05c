"""``taskkit whatif``: the window again with other slots, limits or load, after the past itself as a proof."""

from __future__ import annotations

from typing import Any

import click

from taskkit.cli.diagnose import source_of
from taskkit.cli.front import Front, pass_front
from taskkit.cli.options import Kind, json_option, window_options


class Most(Kind):
    """A queue with how many of it may run at once: ``mail=4``, or ``mail=none``."""

    name = "limit"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, tuple):
            return value
        queue, _, number = str(value).rpartition("=")
        if queue and number == "none":
            return queue, None
        if not queue or not number.isdecimal() or not int(number):
            self.fail(f"{value!r} is no limit; write QUEUE=N (mail=4), or QUEUE=none", param, ctx)
        return queue, int(number)


@click.command()
@click.option(
    "--slots", type=click.IntRange(1), multiple=True, metavar="N", help="With N slots; may be repeated."
)
@click.option("--load", type=float, default=1.0, show_default=True, metavar="K", help="K times the tasks.")
@click.option(
    "--limit",
    "limits",
    type=Most(),
    multiple=True,
    metavar="QUEUE=N",
    help="At most N of a queue at once; or none.",
)
@click.option("--queue", metavar="QUEUE", help="Judge the waits of this queue, by the workers that serve it.")
@click.option(
    "--past-slots",
    type=click.IntRange(1),
    metavar="N",
    help="How many slots there were, where the workers' rows do not tell.",
)
@window_options("Replay")
@json_option
@pass_front
def command(front: Front, /, as_json: bool, **options: Any) -> None:  # fmt: skip
    """Replay your own arrivals and service times, with other slots, limits or load.

    The past itself is replayed first: its error says how far to trust the rest. Erlang C stands beside each variant.

    \b
      taskkit whatif --slots 20
      taskkit whatif --since 1d --slots 8 --slots 16 --load 2
      taskkit whatif --bundle incident.zip --queue mail --limit mail=4
    """
    from taskkit.analytics.whatif import whatif
    from taskkit.analytics.whatif.showing import HEAD, as_dict, notes, rows
    from taskkit.render import show, table, to_json

    found = whatif(
        source_of(front, options),
        slots=options["slots"],
        load=options["load"],
        limits=dict(options["limits"]),
        queue=options["queue"],
        past_slots=options["past_slots"],
    )
    if as_json:
        click.echo(to_json(as_dict(found)))
        return
    if found.replayed.tasks is not None:
        show(table(HEAD, rows(found)), "")
    show(*notes(found))
