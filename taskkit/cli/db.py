"""``taskkit db``: the schema of the database."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from taskkit.cli.conduct import Failed
from taskkit.cli.front import Front, pass_front
from taskkit.cli.options import json_option

if TYPE_CHECKING:
    from taskkit.center import TaskCenter


@click.group(name="db")
def command() -> None:
    """Look at the database's schema, and bring it up to date.

    \b
      TASKKIT_DATABASE_URL=mysql://user:password@host/taskkit taskkit db upgrade
    """


@command.command()
@json_option
@pass_front
def upgrade(front: Front, as_json: bool) -> None:
    """Create the tables, or bring those of an older taskkit up to date.

    Safe to run again, and from several machines at once. Running processes of the release before go on working.

    \b
      taskkit db upgrade
    """
    from taskkit.render import show, to_json

    before, after = front.raw_center().upgrade_schema()
    if as_json:
        click.echo(to_json({"database": front.database_shown(), "before": before, "after": after}))
    elif before == after:
        show(f"{front.database_shown()}: the schema is up to date ({after})")
    else:
        show(f"{front.database_shown()}: the schema went from {before or 'nothing'} to {after}")


@command.command()
@json_option
@pass_front
def status(front: Front, as_json: bool) -> None:
    """Say which schema the database has and which one this program needs. Exit code 1 when they do not fit.

    \b
      taskkit db status
    """
    from taskkit.render import facts, show, to_json

    front.must_exist()
    found = schema_state(front.raw_center())
    if as_json:
        click.echo(to_json({"database": front.database_shown(), **found}))
    else:
        verdict = "fits" if found["ok"] else found["problem"]
        show(
            facts(
                [
                    ("database", front.database_shown()),
                    ("schema", found["schema"] or "none"),
                    ("verdict", verdict),
                ]
            )
        )
    if not found["ok"]:
        raise Failed


def schema_state(center: TaskCenter) -> dict[str, object]:
    """The schema a database has, the one needed, and whether they fit."""
    from taskkit.center.schema import HEAD
    from taskkit.errors import SchemaError

    problem = None
    try:
        center.check_schema()
    except SchemaError as error:
        problem = str(error)
    return {"schema": center.schema_revision(), "needed": HEAD, "ok": problem is None, "problem": problem}
