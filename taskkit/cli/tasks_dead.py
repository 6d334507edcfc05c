"""``taskkit tasks dead``: the dead letters by cause; given up tasks, and given up occurrences of periodic tasks."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from typing import Any

import click

from taskkit.cli.complete import codes, queues
from taskkit.cli.front import Front, pass_front
from taskkit.cli.options import SPAN, json_option
from taskkit.cli.select import instant_of
from taskkit.model import DeadGroup

DAY_S = 86_400.0
NAMED = 3


@click.command(name="dead")
@click.option("--code", metavar="CODE", shell_complete=codes, help="Only of this code.")
@click.option("--queue", metavar="Q", shell_complete=queues, help="Only of this queue.")
@click.option(
    "--since",
    type=SPAN,
    metavar="AGE",
    help="Only those that gave up in the last 30m, 1h, 2d (for periodic tasks always a span: 1d).",
)
@click.option("--newest", is_flag=True, help="The cause that struck last comes first, not the most frequent.")
@click.option(
    "--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="At most so many causes."
)
@json_option
@pass_front
def command(
    front: Front,
    code: str | None,
    queue: str | None,
    since: float | None,
    newest: bool,
    limit: int,
    as_json: bool,
) -> None:
    """Show what gave up, by cause: tasks whose last errors have the same fingerprint stand together.

    A periodic task never stays given up, since its schedule goes on: the second part shows its occurrences that
    were given up.

    \b
      taskkit tasks dead --since 1d
      taskkit tasks retry --fingerprint 3f9ac1d27b04 --rate 5    once the cause is mended
    """
    from taskkit.center import DeadFilter

    desk = front.center.dead
    wanted = DeadFilter(code, queue, instant_of(front.center, since))
    tasks = desk.groups(wanted, limit, newest=newest)
    window = instant_of(front.center, DAY_S if since is None else since)
    assert window is not None  # noqa: S101 - an age was given
    occurrences = desk.occurrence_groups(window, wanted, limit, newest=newest)
    if as_json:
        from taskkit.render import to_json

        shapes = {"tasks": [group_shape(one) for one in tasks]}
        click.echo(to_json(shapes | {"occurrences": [group_shape(one) for one in occurrences]}))
    else:
        _show(tasks, occurrences, since, _chosen(code, queue, since))


def group_shape(group: DeadGroup) -> dict[str, Any]:
    """For ``--json``."""
    return {
        "fingerprint": group.fingerprint,
        "count": group.count,
        "codes": list(group.codes),
        "queues": list(group.queues),
        "first_at": group.first_at,
        "last_at": group.last_at,
        "message": group.message,
        "sample_id": group.sample_id,
    }


def _chosen(code: str | None, queue: str | None, since: float | None) -> str:
    """The same choice for a retry."""
    given = {"--code": code, "--queue": queue, "--since": None if since is None else f"{math.ceil(since)}s"}
    return "".join(f" {name} {shlex.quote(value)}" for name, value in given.items() if value is not None)


def _show(
    tasks: Sequence[DeadGroup], occurrences: Sequence[DeadGroup], since: float | None, chosen: str
) -> None:
    from taskkit.render import duration, show

    span = duration(DAY_S if since is None else since)
    if tasks:
        show(groups_table(tasks))
    else:
        show("no task is given up" if since is None else f"no task gave up in the last {span}")
    if occurrences:
        show("", groups_table(occurrences, f"occurrences of periodic tasks, given up in the last {span}"))
    if first := next((group for group in tasks if group.fingerprint), None):
        show(
            "",
            f"one in full: taskkit tasks show {first.sample_id}",
            f"all of that cause again, at a pace: taskkit tasks retry --fingerprint {first.fingerprint}{chosen}",
        )


def groups_table(groups: Sequence[DeadGroup], title: str = "") -> object:
    """A table of causes."""
    from taskkit.render import local, one_line, table

    rows = [
        (
            group.count,
            group.fingerprint,
            _named(group.codes),
            _named(group.queues),
            local(group.first_at),
            local(group.last_at),
            group.sample_id,
            one_line(group.message, 120),
        )
        for group in groups
    ]
    columns = (">count", "fingerprint", "code", "queue", "first", "last", ">task", "what went wrong")
    return table(
        columns, rows, title=title, keep=("count", "fingerprint"), excerpts=("code", "what went wrong")
    )


def _named(names: Sequence[str]) -> str:
    shown = ", ".join(names[:NAMED])
    return f"{shown} and {len(names) - NAMED} more" if len(names) > NAMED else shown
