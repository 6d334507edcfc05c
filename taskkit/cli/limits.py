"""``taskkit limits``: how many tasks of a queue or a key may run at once, how many may start, and who waits for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from taskkit.cli.complete import queues
from taskkit.cli.front import Front, pass_front
from taskkit.cli.options import json_option

if TYPE_CHECKING:
    from datetime import datetime

    from taskkit.center import TaskCenter

SHOWN = 50
_queue = click.option("--queue", metavar="Q", shell_complete=queues, help="Of the tasks in this queue.")
_key = click.option(
    "--key", metavar="K", help="Of the tasks with this limit_key; customer:* is each of them."
)


@click.group(name="limits", invoke_without_command=True)
@json_option
@click.pass_context
def command(context: click.Context, as_json: bool) -> None:
    """Show what limits are set, what is in use, and what waits; set and remove them.

    Limits stand in SQL and hold for all schedulers and workers together, from a second after they are set.

    \b
      taskkit limits
      taskkit limits set --queue mail --concurrency 5 --rate 100/s
      taskkit limits set --key 'customer:*' --concurrency 2
      taskkit limits remove --queue mail
    """
    if context.invoked_subcommand is not None:
        return
    from taskkit.render import show, to_json

    center = context.ensure_object(Front).center
    found = limits_of(center)
    if as_json:
        click.echo(to_json(found))
    elif not found:
        show("no limit is set; `taskkit limits set --help` says how")
    else:
        show(limits_table(found[:SHOWN], center.now()))
        if found[SHOWN:]:
            show(f"and {len(found) - SHOWN} more: --json shows them all")


@command.command(name="set")
@_queue
@_key
@click.option("--concurrency", type=click.IntRange(1), metavar="N", help="At most so many at once.")
@click.option("--rate", metavar="N/TIME", help="At most so many starts: 100/s, 600/min, 5000/h, 30/10s.")
@json_option
@pass_front
def set_limit(
    front: Front, queue: str | None, key: str | None, concurrency: int | None, rate: str | None, as_json: bool
) -> None:
    """Set a limit, or replace the numbers of one; what waits goes by the new ones at once.

    A name that ends with * gives each queue or key that begins so a limit of its own. A task may have two limits, of
    its key and of its queue; it starts when both have room.

    \b
      taskkit limits set --queue mail --concurrency 5
      taskkit limits set --key stripe --rate 100/s
    """
    from taskkit.render import show, to_json

    limit = front.kit.operations.set_limit(queue=queue, key=key, concurrency=concurrency, rate=rate)
    if as_json:
        click.echo(to_json({"scope": limit.scope.value, "name": limit.name, "terms": limit.terms}))
    else:
        show(f"{limit}: {limit.terms}")


@command.command()
@_queue
@_key
@json_option
@pass_front
def remove(front: Front, queue: str | None, key: str | None, as_json: bool) -> None:
    """Remove a limit; what waited for it goes on.

    \b
      taskkit limits remove --key stripe
    """
    from taskkit.render import show, to_json

    front.kit.operations.remove_limit(queue=queue, key=key)
    if as_json:
        click.echo(
            to_json({"scope": "queue" if key is None else "key", "name": queue or key, "removed": True})
        )
    else:
        show(f"there is no limit of {f'queue {queue}' if key is None else f'key {key}'} any more")


def limits_of(center: TaskCenter) -> list[dict[str, Any]]:
    """Each queue and key under a limit, those that most tasks wait for first."""
    from taskkit.limits import shown_rate

    uses = sorted(center.limits.uses(), key=lambda use: (-use.waiting, use.limit.scope, use.name))
    return [
        {
            "scope": use.limit.scope.value,
            "name": use.name,
            "limit": use.limit.name,
            "terms": use.limit.terms,
            "concurrency": use.limit.concurrency,
            "rate": None if use.limit.rate is None else shown_rate(use.limit.rate, use.limit.period),
            "in_use": use.in_use,
            "waiting": use.waiting,
            "oldest_due_at": use.oldest,
        }
        for use in uses
    ]


def limits_table(found: list[dict[str, Any]], now: datetime) -> object:
    """The same for people."""
    from taskkit.render import duration, table

    rows = [
        (
            f"{one['scope']} {one['name']}",
            _shown(one["concurrency"]),
            _shown(one["rate"]),
            one["in_use"],
            one["waiting"],
            duration(None if one["oldest_due_at"] is None else (now - one["oldest_due_at"]).total_seconds()),
        )
        for one in found
    ]
    return table(("limit", ">at once", ">starts", ">in use", ">waiting", ">oldest waits"), rows)


def _shown(value: object) -> object:
    return "-" if value is None else value
