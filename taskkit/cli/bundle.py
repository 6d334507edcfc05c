"""``taskkit bundle``: an incident window as one file that opens anywhere, without a database."""

from __future__ import annotations

from typing import Any

import click

from taskkit.cli.diagnose import source_of
from taskkit.cli.front import Front, pass_front
from taskkit.cli.options import json_option, window_options


@click.group(name="bundle")
def command() -> None:
    """Keep an incident window as one file, and look into such a file on any machine.

    It holds no payload and no result; it does hold names, error texts, stacks and unique keys.

    \b
      taskkit bundle create incident.zip --since 2h
      taskkit bundle open incident.zip
      taskkit diagnose backlog --bundle incident.zip
    """


@command.command()
@click.argument("file")
@window_options()
@json_option
@pass_front
def create(front: Front, /, file: str, as_json: bool, **options: Any) -> None:
    """Write the window to FILE: all frames as Parquet, and a manifest.

    \b
      taskkit bundle create incident.zip --since 2h
    """
    from taskkit.analytics import Bundle
    from taskkit.analytics import bundle as bundles
    from taskkit.render import counted, show, to_json

    source = source_of(front, options)
    path = bundles.create(source, file, schema=front.center.schema_revision())
    manifest = Bundle(path).manifest
    if as_json:
        click.echo(to_json({"file": str(path), **manifest}))
    else:
        show(
            f"{path}: {manifest['since']} … {manifest['until']}, {counted(sum(manifest['rows'].values()), 'row')}"
        )


@command.command(name="open")
@click.argument("file")
@json_option
@pass_front
def open_(_front: Front, file: str, as_json: bool) -> None:
    """Show what FILE holds: its window, where it is from, and how many rows each frame has.

    \b
      taskkit bundle open incident.zip
    """
    from taskkit.analytics import Bundle
    from taskkit.render import facts, show, table, to_json

    manifest = Bundle(file).manifest
    if as_json:
        click.echo(to_json(manifest))
        return
    told = [(name, manifest[name]) for name in ("since", "until", "now", "zone", "taskkit", "schema")]
    database = manifest["database"]
    show(facts([*told, ("database", f"{database['kind']} {database['version']}")]), "")
    show(table(("frame", ">rows"), sorted(manifest["rows"].items())))
