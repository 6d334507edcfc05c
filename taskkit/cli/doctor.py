"""``taskkit doctor``: what will hurt, and what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from taskkit.cli.conduct import Failed
from taskkit.cli.front import Front, pass_front
from taskkit.cli.options import json_option

if TYPE_CHECKING:
    from taskkit.health import Finding


@click.command()
@click.option("--strict", is_flag=True, help="Exit code 1 for warnings, too.")
@json_option
@pass_front
def command(front: Front, strict: bool, as_json: bool) -> None:
    """Look at the settings of SQL and Redis, at schedulers, workers and this node, for what will hurt.

    Each finding says what is so, why it hurts and what to do. No row and no setting is changed: to see whether Redis lets a queue
    work, a few letters are pushed to a key of its own and taken off again. Exit code 1 when there is an error.

    \b
      taskkit doctor
      taskkit doctor --strict --json
    """
    from taskkit.health import Level, judge, look, worst

    front.must_exist()
    findings = judge(look(front.settings))
    if as_json:
        _print(findings)
    else:
        _show(findings)
    if worst(findings) in ({Level.ERROR, Level.WARNING} if strict else {Level.ERROR}):
        raise Failed


def _print(findings: list[Finding]) -> None:
    from taskkit.health import worst
    from taskkit.render import to_json

    shapes = [
        {"id": one.id, "level": one.level, "what": one.what, "why": one.why, "advice": one.advice}
        for one in findings
    ]
    click.echo(to_json({"worst": worst(findings), "findings": shapes}))


def _show(findings: list[Finding]) -> None:
    from taskkit.health import Level
    from taskkit.render import show, table

    for level in (Level.ERROR, Level.WARNING, Level.NOTE):
        found = [one for one in findings if one.level is level]
        if found:
            show(_title(level, len(found)), "")
        for one in found:
            show(*_block(one), "")
    fine = [(one.id, one.what) for one in findings if one.level is Level.OK]
    if fine:
        show(table(("ok", "what"), fine, title=f"{len(fine)} looked at and fine"))


def _block(one: Finding) -> tuple[object, object]:
    """A finding below its name, so that sentences and commands have the width of the page."""
    from taskkit.render import facts

    return facts([(one.id, one.what)]), facts([("  why", one.why), ("  do", one.advice)])


def _title(level: str, count: int) -> str:
    return f"{count} {level}{'s' if count > 1 else ''}"
