"""``taskkit watchdog``: rules and receivers before they are needed. The watchdog itself is ``python -m taskkit.watchdog``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from taskkit.cli import watchdog_check
from taskkit.cli.front import Front, pass_front
from taskkit.cli.options import json_option
from taskkit.errors import InputError

if TYPE_CHECKING:
    from taskkit.watchdog.signals import Rule

EXAMPLE = "receivers.example.toml"


@click.group(name="watchdog")
def command() -> None:
    """Check rules and receivers, look what fires now, lay out both files. The watchdog is `python -m taskkit.watchdog`.

    \b
      taskkit watchdog init                 alerting/rules.toml and receivers.example.toml, for editing
      taskkit watchdog check                are they right, and what fires now?
      taskkit watchdog check --dry-run      what would each receiver be told?
      python -m taskkit.watchdog            watch; `taskkit up` does it too, once there is a receivers.toml
    """


@command.command()
@click.option(
    "--dir",
    "folder",
    metavar="DIR",
    default="alerting",
    show_default=True,
    help="The folder they are laid into.",
)
@json_option
def init(folder: str, as_json: bool) -> None:
    """Lay out rules.toml and receivers.example.toml for editing. What is there already is left as it is.

    All rules stand in rules.toml as comments: take off the # where something is to be different.

    \b
      taskkit watchdog init
      cp alerting/receivers.example.toml alerting/receivers.toml
    """
    from taskkit.render import show, to_json

    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    texts = {"rules.toml": _commented(_shipped("rules.toml")), EXAMPLE: _shipped(EXAMPLE)}
    made = {name: _lay(place / name, text) for name, text in texts.items()}
    if as_json:
        click.echo(to_json([{"file": str(place / name), "made": new} for name, new in made.items()]))
        return
    show(
        *(
            f"{place / name}{'' if new else ' was there already and is left as it is'}"
            for name, new in made.items()
        )
    )
    show("", f"copy {EXAMPLE} to receivers.toml, keep what you need, then: taskkit watchdog check")
    if place.absolute() != Path.cwd() / "alerting":
        show(f'and say where it is: alerting = "{place}" in the table [watchdog] of taskkit.toml')


def _shipped(name: str) -> str:
    """A file of the folder alerting as it comes with taskkit."""
    import taskkit

    package = Path(taskkit.__file__).parent
    for there in (package / "alerting" / name, package.parent / "alerting" / name):
        if there.is_file():
            return there.read_text(encoding="utf-8")
    raise InputError("--dir", f"this installation of taskkit came without alerting/{name}; install it again")


def _commented(text: str) -> str:
    """The rules as comments, so that a newer taskkit may better what nobody has changed."""
    lines = [line if not line or line.startswith("#") else f"# {line}" for line in text.splitlines()]
    return "\n".join([*lines, ""])


def _lay(path: Path, text: str) -> bool:
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        return False
    return True


@command.command()
@json_option
@pass_front
def rules(front: Front, as_json: bool) -> None:
    """Show the rules as they hold here: what each looks at, how often, when it fires, and whom it tells.

    \b
      taskkit watchdog rules
    """
    from taskkit.render import duration, show, table, to_json
    from taskkit.settings.alerting import alerting_folder
    from taskkit.watchdog.rules import load_rules

    watchdog_check.refuse_problems(front, receivers=False)
    found = load_rules(alerting_folder(front.settings))
    if as_json:
        click.echo(to_json([rule_shape(rule) for rule in found]))
        return
    rows = [
        (
            rule.id,
            rule.severity if rule.enabled else "off",
            duration(rule.every),
            duration(rule.hold) if rule.hold else "-",
            thresholds(rule),
            ", ".join(rule.receivers) or "all",
        )
        for rule in found
    ]
    columns = ("rule", "severity", "every", "for", "thresholds", "receivers")
    show(table(columns, rows, keep=("rule", "severity", "every", "for"), excerpts=("thresholds",)))


def rule_shape(rule: Rule) -> dict[str, Any]:
    """A rule for scripts: its keys as in the file, lengths of time in seconds."""
    import msgspec

    found: dict[str, Any] = msgspec.to_builtins(rule, enc_hook=float)
    return found


def thresholds(rule: Rule) -> str:
    """What a rule has beyond what all have, in words: ``above 10000, drain_above 1h``."""
    from msgspec.structs import fields

    from taskkit.watchdog.signals import Rule

    common = {one.name for one in fields(Rule)}
    told = [
        (one.encode_name, getattr(rule, one.name)) for one in fields(type(rule)) if one.name not in common
    ]
    return ", ".join(f"{name} {_in_words(value)}" for name, value in told if value not in (None, ()))


def _in_words(value: object) -> str:
    from taskkit.render import duration
    from taskkit.watchdog.signals import Length, Size

    if isinstance(value, Length):
        return duration(value)
    if isinstance(value, Size):
        return f"{value / (1 << 30):g} GiB" if value >= 1 << 30 else f"{value / (1 << 20):g} MiB"
    if isinstance(value, bool):
        return "on" if value else "off"
    return (
        "/".join(map(str, value))
        if isinstance(value, tuple)
        else f"{value:g}"
        if isinstance(value, float)
        else str(value)
    )


command.add_command(watchdog_check.command)
