"""How things look: tables, ages, durations, instants in the local zone, JSON; safe to show whatever they hold."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import sys
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from enum import Enum
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, TextIO

from taskkit.clock import iso, utc_now
from taskkit.texts import harmless

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

WIDE = 100_000
"""Columns of a page that is not a terminal, unless COLUMNS says otherwise: programs want nothing wrapped."""
EXCERPT = 10
"""Columns that are left of an excerpt where the page is narrow."""
_UNITS = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))
_STYLES = {
    "success": "green",
    "fired": "green",
    "running": "cyan",
    "dispatched": "cyan",
    "failed": "yellow",
    "timeout": "yellow",
    "given_up": "red",
    "missed": "red",
    "lost": "red",
    "cancelled": "dim",
    "held": "magenta",
}


def plain(text: object, *, lines: bool = False) -> str:
    """Anything as text that a terminal can be given; line breaks stay only where ``lines`` says so."""
    return harmless(str(text), keep="\n\t" if lines else "")


def one_line(text: object, limit: int = 200) -> str:
    """The first line of a text, at most ``limit`` letters, with a mark when there is more."""
    first, _, rest = str(text).strip().partition("\n")
    cut = first if len(first) <= limit else first[: limit - 1]
    return plain(cut) + ("…" if rest or len(first) > limit else "")


def counted(count: int, noun: str) -> str:
    """``1 task``, ``3 tasks``."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def duration(seconds: float | None) -> str:
    """A length of time for people: ``320 ms``, ``4.2 s``, ``3m 20s``, ``2h 5m``, ``6d 1h``; ``-`` when unknown."""
    if seconds is None:
        return "-"
    sign, size = ("-", -seconds) if seconds < 0 else ("", seconds)
    if round(size * 1000) < 1000:
        return f"{sign}{round(size * 1000)} ms"
    if round(size, 1) < 60:
        return f"{sign}{size:.1f}".removesuffix(".0") + " s"
    return sign + _in_units(round(size))


def _in_units(left: int) -> str:
    largest = next(i for i, (_, size) in enumerate(_UNITS) if left >= size)
    parts: list[str] = []
    for unit, size in _UNITS[largest : largest + 2]:
        count, left = divmod(left, size)
        parts.append(f"{count}{unit}" if count or not parts else "")
    return " ".join(filter(None, parts))


def milliseconds(count: float | None) -> str:
    """A run time in milliseconds as :func:`duration` shows it."""
    return duration(None if count is None else count / 1000)


def local(instant: datetime | None, *, now: datetime | None = None) -> str:
    """An instant in the local zone: ``16:12:03`` today, ``2026-11-28 16:12:03`` on any other day."""
    if instant is None:
        return "-"
    shown, today = instant.astimezone(), (now or utc_now()).astimezone().date()
    return shown.strftime("%H:%M:%S" if shown.date() == today else "%Y-%m-%d %H:%M:%S")


def local_with_age(instant: datetime | None, *, now: datetime | None = None) -> str:
    """An instant in full with its zone, and how far away it is: ``2026-11-28 16:12:03 CET (3m ago)``."""
    if instant is None:
        return "-"
    return f"{instant.astimezone():%Y-%m-%d %H:%M:%S %Z} ({distance(instant, now=now)})"


def distance(instant: datetime, *, now: datetime | None = None) -> str:
    """How far an instant is from now: ``3m ago``, ``in 4.0 s``."""
    away = (instant - (now or utc_now())).total_seconds()
    if abs(away) < 0.05:
        return "now"
    return f"in {duration(away)}" if away > 0 else f"{duration(-away)} ago"


def to_json(value: Any) -> str:
    """Indented JSON for scripts and people; instants as ISO 8601 in UTC, no NaN."""
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False, default=_jsonable)


def _jsonable(value: Any) -> Any:
    if isinstance(value, datetime):
        return iso(value)
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, PurePath | bytes):
        return os.fsdecode(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {item.name: getattr(value, item.name) for item in dataclasses.fields(value)}
    raise TypeError(f"{type(value).__name__} is not JSON")


def console(stream: TextIO | None = None) -> Console:
    """A rich console for a stream (stdout by default): no colours, and as wide as need be, when it is not a terminal."""
    from rich.console import Console

    target = stream or sys.stdout
    width = None if target.isatty() else _columns()
    return Console(file=target, width=width, highlight=False, markup=False, emoji=False, soft_wrap=False)


def _columns() -> int:
    with contextlib.suppress(ValueError):
        return max(40, int(os.environ.get("COLUMNS", WIDE)))
    return WIDE


def table(
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    title: str = "",
    keep: Sequence[str] = (),
    excerpts: Sequence[str] = (),
) -> Table:
    """A table of plain cells; a column whose name starts with ``>`` is set right.

    Where the page is narrow, cells wrap between words, those of the columns named in ``keep`` last; a word is cut
    only where the words alone are too wide, in the columns named in ``excerpts`` first.
    """
    from rich import box
    from rich.table import Table

    made = Table(
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        show_edge=False,
        title=title or None,
        title_justify="left",
        title_style="bold",
        header_style="bold",
    )
    for name in columns:
        title_of = name.removeprefix(">")
        justify: Any = "right" if name.startswith(">") else "left"
        least = EXCERPT if title_of in excerpts else None
        made.add_column(title_of, justify=justify, no_wrap=title_of in keep, overflow="fold", min_width=least)
    for row in rows:
        made.add_row(*map(_cell, row))
    return made


def _fit(page: Console, thing: object) -> None:
    """Give the columns of a table that is too wide their longest word, and what is left to the neediest last."""
    from rich.table import Table

    if not isinstance(thing, Table) or thing.box is None or not thing.columns:
        return
    texts = [[str(column.header), *map(str, column.cells)] for column in thing.columns]
    whole, words = [[_longest(column, by) for column in texts] for by in ("\n", None)]
    few = [min(word, column.min_width or word) for column, word in zip(thing.columns, words, strict=True)]
    room = page.width - 2 * len(whole) + 1
    for column in thing.columns:
        column.min_width = None
    if sum(whole) <= room:
        return
    stiff = [column.no_wrap for column in thing.columns]
    kept = [[w if no else n for w, n, no in zip(whole, some, stiff, strict=True)] for some in (words, few)]
    least = next((widths for widths in (*kept, words) if sum(widths) <= room), few)
    for column, width in zip(thing.columns, _shared(whole, least, room), strict=True):
        column.width, column.no_wrap = width, False


def _longest(cells: Sequence[str], separator: str | None) -> int:
    from rich.cells import cell_len

    return max((cell_len(part) for cell in cells for part in cell.split(separator)), default=1) or 1


def _shared(whole: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """Widths that fill ``room``: at least ``least`` where that fits, the smallest wishes first; else the widest give way."""
    widths = list(least)
    while sum(widths) > room and max(widths) > 1:
        widest = sorted(set(widths))[-2:]
        index = widths.index(widest[-1])
        widths[index] -= max(1, min(sum(widths) - room, widest[-1] - widest[0]))
    for index in sorted(range(len(widths)), key=lambda i: whole[i] - widths[i]):
        widths[index] += max(0, min(whole[index] - widths[index], room - sum(widths)))
    return widths


def _cell(value: object) -> Any:
    from rich.text import Text

    shown = "-" if value is None else plain(value, lines=True)
    return Text(shown, style=_STYLES.get(shown, ""))


def facts(pairs: Sequence[tuple[str, object]]) -> Table:
    """Two columns: what it is, and its value; pairs without a value are left out."""
    from rich.table import Table
    from rich.text import Text

    made = Table.grid(padding=(0, 2))
    made.add_column(no_wrap=True)
    made.add_column(overflow="fold")
    for name, value in pairs:
        if value is not None and value != "":
            made.add_row(Text(name, style="bold"), _cell(value))
    return made


def show(*things: object, stream: TextIO | None = None) -> None:
    """Print tables and lines; lines are never cut, and wrap only where the terminal does it."""
    page = console(stream)
    with page.capture() as caught:
        for thing in things:
            _fit(page, thing)
            page.print(
                plain(thing, lines=True) if isinstance(thing, str) else thing,
                soft_wrap=isinstance(thing, str),
            )
    text = caught.get()
    if not page.is_terminal:
        text = "".join(f"{line.rstrip()}\n" for line in text.splitlines())
    page.file.write(text)


class ProgressBar:
    """Counts steps on a bar; does nothing where nobody watches."""

    def __init__(self, bar: Any = None, task: Any = None) -> None:
        self._bar, self._task = bar, task

    def step(self, text: str = "", count: int = 1) -> None:
        """One step further, with a word on what it was."""
        if self._bar is not None:
            self._bar.update(self._task, advance=count, description=plain(text) if text else None)


@contextlib.contextmanager
def progress(label: str, total: int | None) -> Iterator[ProgressBar]:
    """A progress bar on stderr while the block runs, if stderr is a terminal."""
    if not sys.stderr.isatty():
        yield ProgressBar()
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Bar(*columns, console=console(sys.stderr), transient=True) as bar:
        yield ProgressBar(bar, bar.add_task(label, total=total))
