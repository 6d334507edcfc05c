"""Tables for people: columns of a frame with their units, instants in the window's zone, n/a where there is nothing."""

from __future__ import annotations

import html
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pandas as pd

from taskkit.analytics.diagnosis import Figure
from taskkit.analytics.frames import FRAMES
from taskkit.analytics.measures import percentile
from taskkit.analytics.source import Source, declared
from taskkit.analytics.wording import shown
from taskkit.errors import InputError
from taskkit.states import Status
from taskkit.texts import cut, harmless

MOST_ROWS = 20
STATUS = "status"
MOST_BYTES = 400


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table that shows itself: as HTML in Jupyter, as lines elsewhere."""

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""

    def _repr_html_(self) -> str:
        if not self.rows:
            return f"<p><i>{html.escape(self.note or 'no data')}</i></p>"
        head = "".join(f"<th style='text-align:left'>{html.escape(one)}</th>" for one in self.heads)
        body = "".join(
            "<tr>"
            + "".join(f"<td style='text-align:left'>{html.escape(cell)}</td>" for cell in row)
            + "</tr>"
            for row in self.rows
        )
        note = f"<small>{html.escape(self.note)}</small>" if self.note else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{note}"

    def __str__(self) -> str:
        if not self.rows:
            return self.note or "no data"
        widths = [max(map(len, column)) for column in zip(self.heads, *self.rows, strict=True)]
        lines = [
            "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip()
            for row in (self.heads, *self.rows)
        ]
        return "\n".join([*lines, self.note] if self.note else lines)


def table(source: Source, name: str, columns: str = "", *, limit: int = MOST_ROWS, **only: Any) -> Sheet:
    """Columns of a frame (all when none are named), those rows in which each of ``only`` holds, at most ``limit``."""
    frame, units = source.frame(declared(name)), {c.name: c.unit for c in FRAMES[name].columns}
    wanted = columns.split() or FRAMES[name].names
    for column in (*wanted, *only):
        if column not in units:
            raise InputError("columns", f"the frame {name} has no {column!r}; it has {', '.join(units)}")
    for column, value in only.items():
        frame = frame[frame[column].isin(value if isinstance(value, list | tuple | set) else [value])]
    clock = ZoneInfo(source.window.zone)
    if "status" in wanted:
        units["status"] = STATUS
    rows = [tuple(_cell(value, units[c], clock) for c, value in zip(wanted, row, strict=True))
            for row in frame[wanted].head(limit).itertuples(index=False, name=None)]  # fmt: skip
    more = f"{len(rows)} of {len(frame):,} rows" if len(frame) > len(rows) else ""
    return Sheet(tuple(map(_head, wanted)), tuple(rows), more)


def latencies(source: Source) -> Sheet:
    """By code: how many runs, how long half, 95 % and 99 % of them took at most, and what half usually takes."""
    times, normal = source.frame("service_times"), source.frame("service_normal")
    usual = {str(code): percentile(part, 0.5) for code, part in normal.groupby("task_code")}
    rows = []
    for code, part in times.groupby("task_code"):
        values = [percentile(part, q) for q in (0.5, 0.95, 0.99)]
        spans = [_told(value, "ms") for value in (*values, usual.get(str(code)))]
        rows.append((int(part["runs"].sum()), (harmless(str(code)), f"{int(part['runs'].sum()):,}", *spans)))
    ordered = tuple(row for _, row in sorted(rows, key=lambda one: (-one[0], one[1])))[:MOST_ROWS]
    return Sheet(("code", "runs", "half up to", "95 % up to", "99 % up to", "usual half"), ordered)


def days(source: Source) -> Sheet:
    """By day of the window's zone, with the instants at which it begins and ends: what arrived, ended, and ended well."""
    window = source.window
    clock = ZoneInfo(window.zone)
    days_there = _days(window.since, window.until, clock)
    arrived, ended = (_day_of(source.frame(name), clock) for name in ("arrivals", "finishes"))
    rows = []
    for since, until in days_there:
        day = since.astimezone(clock).date()
        come, gone = arrived[arrived["day"] == day], ended[ended["day"] == day]
        counts = (come["arrived"].sum(), gone["finished"].sum(), gone["succeeded"].sum())
        instants = (at.astimezone(clock).isoformat(" ", "seconds") for at in (since, until))
        rows.append((day.isoformat(), *instants, *(f"{int(n):,}" for n in counts)))
    torn = any(since.timestamp() % window.bucket_s for since, _ in days_there[1:])
    note = (
        f"counted by {_told(window.bucket_s, 's')}: what lies across a midnight counts where it begins"
        if torn
        else ""
    )
    return Sheet(("day", "from", "until", "arrived", "ended", "ended well"), tuple(rows), note)


def _day_of(frame: pd.DataFrame, clock: ZoneInfo) -> pd.DataFrame:
    """With the day of the zone in which each bucket begins."""
    return frame.assign(day=frame["bucket_at"].dt.tz_convert(clock).dt.date)


def _days(since: datetime, until: datetime, clock: ZoneInfo) -> list[tuple[datetime, datetime]]:
    """The days of the zone, from midnight to midnight; the first and the last as far as the window goes."""
    marks, day = [since], since.astimezone(clock).date()
    while True:
        day += timedelta(days=1)
        midnight = datetime(day.year, day.month, day.day, tzinfo=clock).astimezone(UTC)
        if midnight >= until:
            return list(pairwise([*marks, until]))
        marks.append(midnight)


def _head(column: str) -> str:
    for ending in ("_ms", "_s", "_at"):
        column = column.removesuffix(ending)
    return column.replace("_", " ")


def _cell(value: Any, unit: str, clock: ZoneInfo) -> str:
    if value is None or value is pd.NaT or value is pd.NA or (isinstance(value, float) and pd.isna(value)):
        return "n/a"
    if isinstance(value, pd.Timestamp):
        return str(value.tz_convert(clock).isoformat(" ", "seconds"))
    if unit == STATUS:
        return Status(int(value)).label
    if isinstance(value, str):
        return cut(harmless(value), MOST_BYTES)
    return _told(value, unit) if unit else f"{value:.15g}"


def _told(value: float | None, unit: str) -> str:
    timed = unit in {"s", "ms", "%"}
    return shown(
        Figure(
            "",
            None if value is None else float(value) if timed else value,
            unit if timed or value is None else "",
        ),
        "en",
    )
