"""``taskkit shards``: into how many lists a queue is split, and what waits in each."""

from __future__ import annotations

from typing import Any

import click

from taskkit.cli.complete import queues
from taskkit.cli.front import Front, pass_front
from taskkit.cli.options import json_option


@click.group(name="shards", invoke_without_command=True)
@json_option
@click.pass_context
def command(context: click.Context, as_json: bool) -> None:
    """Show which queues are split into shards and what waits in each; split them, or make them whole again.

    It stands in SQL and holds for all schedulers, producers and workers, from a second or two after it is set.

    \b
      taskkit shards
      taskkit shards set mail 4
      taskkit shards set mail 1
    """
    if context.invoked_subcommand is not None:
        return
    from taskkit.render import show, to_json

    found = shards_of(context.ensure_object(Front))
    if as_json:
        click.echo(to_json(found))
    elif not found:
        show("no queue is split; `taskkit shards set --help` says how")
    else:
        show(_table(found))


@command.command(name="set")
@click.argument("queue", shell_complete=queues)
@click.argument("shards", type=click.IntRange(1, 64))
@json_option
@pass_front
def set_shards(front: Front, queue: str, shards: int, as_json: bool) -> None:
    """Split QUEUE into SHARDS lists of each priority; 1 makes it whole again.

    Nothing need be stopped for it. What waits in the lists of before is taken from there.

    \b
      taskkit shards set mail 4
    """
    from taskkit.render import counted, show, to_json

    split = front.kit.operations.set_shards(queue, shards)
    if as_json:
        click.echo(to_json({"queue": queue, "shards": split.shards, "lists": split.lists}))
        return
    show(f"queue {queue}: {counted(shards, 'shard')}")
    if split.lists > split.shards:
        show(f"workers look into {split.lists} lists of each priority until those of before are empty")


def shards_of(front: Front) -> list[dict[str, Any]]:
    """Each queue that is split, with what waits in its shards; None while the broker does not run."""
    book, broker = front.center.shards.refresh(), front.kit.queue
    found = []
    for queue, split in book.items():
        waiting: list[int] | None = None if broker is None else [0] * split.lists
        if broker is not None and waiting is not None:
            for name, depth in broker.depth(book.all_lists([queue])).items():
                waiting[name.shard] += depth
        found.append(
            {"queue": queue, "shards": split.shards, "lists": split.lists, "waiting_by_shard": waiting}
        )
    return found


def _table(found: list[dict[str, Any]]) -> object:
    from taskkit.render import table

    rows = [
        (
            one["queue"],
            one["shards"],
            one["lists"],
            "-" if one["waiting_by_shard"] is None else " ".join(map(str, one["waiting_by_shard"])),
        )
        for one in found
    ]
    return table(("queue", ">shards", ">lists looked at", "waiting in each"), rows)
