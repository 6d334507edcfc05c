"""``taskkit import-crontab``: crontabs become periodic tasks, and every line is accounted for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from taskkit.cli.complete import queues, zones
from taskkit.cli.conduct import Failed, say
from taskkit.cli.crontab_lines import Accounted, Importer, TaskOptions, account_for
from taskkit.cli.front import Front, pass_front
from taskkit.cli.options import WHOLE_SPAN, json_option

if TYPE_CHECKING:
    from taskkit.cli.crontab_lines import Accounts

DAY = 86_400
SUMMED = {
    "imported": "imported",
    "would import": "would be imported",
    "exists": "already there (unchanged)",
    "refused": "refused",
    "env": "environment line(s)",
    "comment": "comment(s)",
    "blank": "blank",
}
"""How many lines came to what, in words."""


@click.command(name="import-crontab")
@click.argument("files", nargs=-1, required=True, metavar="FILE…")
@click.option(
    "--system",
    "system",
    flag_value=True,
    type=bool,
    default=None,
    help="The files have a user column, as in /etc/cron.d.",
)
@click.option(
    "--user",
    "system",
    flag_value=False,
    type=bool,
    help="They have none, as with `crontab -l`. (Default: found out.)",
)
@click.option(
    "--tz",
    "timezone",
    metavar="ZONE",
    shell_complete=zones,
    help="Time zone of the times (default: the setting timezone, which is UTC).",
)
@click.option("--queue", metavar="Q", shell_complete=queues, help="Queue of the tasks (default: shell).")
@click.option(
    "--timeout",
    type=WHOLE_SPAN,
    default=DAY,
    metavar="S",
    help="Time limit of each run (default 1d; cron has none).",
)
@click.option(
    "--max-retry",
    type=click.IntRange(0, 255),
    default=0,
    metavar="N",
    help="Tries again so often after a failure (default 0, as cron).",
)
@click.option(
    "--misfire",
    type=click.Choice(["once", "skip", "all"]),
    default="once",
    help="Times missed while nothing ran: one late run, none, all of them.",
)
@click.option("--dry-run", is_flag=True, help="Write nothing; only show what would become of each line.")
@json_option
@pass_front
def command(
    front: Front,
    files: tuple[str, ...],
    system: bool | None,
    timezone: str | None,
    dry_run: bool,
    as_json: bool,
    queue: str | None,
    timeout: int,
    max_retry: int,
    misfire: str,
) -> None:
    """Turn the job lines of crontab FILEs into periodic tasks of the built-in handler `shell`.

    Every line ends as imported or with a reason. Running it again adds nothing. FILE may be - for stdin. Remove
    the lines from cron once the tasks run, or both will run them.

    \b
      crontab -l | taskkit import-crontab - --tz Europe/Berlin --dry-run
      taskkit import-crontab /etc/crontab /etc/cron.d/* --system --tz Europe/Berlin
    """
    zone = _zone(front, timezone)
    options = TaskOptions(queue=queue, timeout=timeout, max_retry=max_retry, misfire=misfire)
    importer = Importer(front, options, dry_run=dry_run)
    accounts = [account_for(name, system, zone, importer) for name in _unique(files)]
    if as_json:
        _print_json(accounts)
    else:
        _show(accounts)
    if any(accounted.status == "refused" for account in accounts for accounted in account.lines):
        raise Failed


def _unique(files: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(files))


def _zone(front: Front, given: str | None) -> str:
    from taskkit.names import check_zone

    zone = check_zone(given or front.settings.timezone, "--tz")
    if given is None and (own := _machine_zone()) not in {None, zone}:
        say(
            f"note: times are read in {zone} (the setting timezone), but this machine's own zone is {own}; --tz {own} reads them as its cron did"
        )
    return zone


def _machine_zone() -> str | None:
    """The zone in which this machine's cron reads its crontabs, where it can be told."""
    from pathlib import Path
    from zoneinfo import available_timezones

    try:
        target = str(Path("/etc/localtime").resolve(strict=True))
    except OSError:
        return None
    name = target.partition("zoneinfo/")[2]
    if name in {"Etc/UTC", "UTC", "Etc/UCT", "Etc/Universal", "Etc/Zulu"}:
        return "UTC"
    return name if name in available_timezones() else None


def _print_json(accounts: Sequence[Accounts]) -> None:
    from taskkit.render import to_json

    click.echo(to_json([account.shape() for account in accounts]))


def _show(accounts: Sequence[Accounts]) -> None:
    from taskkit.render import show

    for account in accounts:
        kind = "system crontab, with a user column" if account.system else "user's crontab, no user column"
        show(f"{account.file}: {kind} ({account.reason})", "")
        rows = [line for line in account.lines if line.kind not in {"comment", "blank"}]
        if rows:
            show(_table(rows), "")
        for note in [*account.notes, *_notes(rows)]:
            show(f"- {note}")
        show("")
    show(_counts(accounts))


def _table(lines: Sequence[Accounted]) -> object:
    from taskkit.render import table

    rows = [
        (
            line.line,
            line.outcome(),
            line.expression or "-",
            line.command_shown(100),
            line.next_shown() or "-",
        )
        for line in lines
    ]
    return table(
        (">line", "what", "schedule", "command", "next five"), rows, keep=("line", "what", "next five")
    )


def _notes(lines: Sequence[Accounted]) -> list[str]:
    """Reasons and notes, each once with the lines it is about."""
    about: dict[str, list[int]] = {}
    for line in lines:
        zone = [f"times in {line.timezone}"] if line.expression else []
        for note in [*filter(None, [line.reason]), *zone, *line.notes]:
            about.setdefault(note, []).append(line.line)
    return [f"{_numbered(numbers)}: {note}" for note, numbers in about.items()]


def _numbered(numbers: list[int]) -> str:
    shown = ", ".join(map(str, numbers[:8])) + (", …" if len(numbers) > 8 else "")
    return f"line{'s' if len(numbers) > 1 else ''} {shown}"


def _counts(accounts: Sequence[Accounts]) -> str:
    from collections import Counter

    from taskkit.render import counted

    counts = Counter(line.status for account in accounts for line in account.lines)
    total = sum(counts.values())
    parts = [_counted(counts[status], words) for status, words in SUMMED.items() if counts[status]]
    return f"{counted(total, 'line')} in {counted(len(accounts), 'file')}: {', '.join(parts) or 'none'}"


def _counted(count: int, words: str) -> str:
    """``1 comment``, ``3 comments``."""
    return f"{count} {words.replace('(s)', '' if count == 1 else 's')}"
