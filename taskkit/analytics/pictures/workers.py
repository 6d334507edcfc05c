"""What each slot did: a line for each child of a worker, dark where it was busy; when a worker was heard of last."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_rgba

from taskkit.analytics.measures import alive, pace
from taskkit.analytics.pictures import time_axis
from taskkit.analytics.pictures.picture import (
    BLUE,
    GREY,
    ORANGE,
    RED,
    Picture,
    canvas,
    cut_short,
    legend,
    nothing,
)
from taskkit.analytics.source import Source

TITLE = "What each slot did"
MOST_LINES = 40
FAINT = 0.2


def workers(source: Source) -> Picture:
    """The slots that ended runs in the window, the runs under way, and workers that did nothing."""
    lines = _lines(source)
    if not lines:
        return nothing(TITLE)
    shown = lines[:MOST_LINES]
    drawing, (axes,) = canvas(TITLE, (0.9 + 0.2 * len(shown),))
    _busy(axes, source.frame("slots"), shown)
    _running(axes, source, shown)
    _last_heard(axes, source, shown)
    axes.set_yticks(range(len(shown)), [_name(line, shown, n) for n, line in enumerate(shown)], fontsize=7)
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")
    legend(axes)
    window = source.window
    time_axis.mark(axes, window.since, max(window.until, source.now), window.zone)
    return Picture(drawing, TITLE, _told(source, len(lines)))


Bar = tuple[list[tuple[float, float]], float]
Line = tuple[str, object]
"""A worker, and the process of a slot, or the id of a task that runs, or an empty text."""


def _lines(source: Source) -> list[Line]:
    """By worker: the slots that ended something, then one line for each run under way."""
    slots, running, seen = source.frame("slots"), source.frame("running"), source.frame("workers")
    found: list[Line] = [
        (str(w), int(p))
        for w, p in slots[["worker_id", "pid"]].dropna().drop_duplicates().itertuples(index=False)
    ]
    found += [
        (str(w), f"task {t}") for w, t in running[["worker_id", "task_id"]].dropna().itertuples(index=False)
    ]
    known = {worker for worker, _ in found}
    found += [(str(w), "") for w in seen["worker_id"] if str(w) not in known]
    return sorted(found, key=lambda line: (line[0], isinstance(line[1], str), str(line[1])))


def _name(line: Line, shown: list[Line], number: int) -> str:
    worker = cut_short(line[0]) if number == 0 or shown[number - 1][0] != line[0] else ""
    return f"{worker}  {line[1]}".rstrip()


def _busy(axes: Axes, slots: pd.DataFrame, shown: list[Line]) -> None:
    """A bar from the first start to the last end in a bucket, as dark as it was busy there."""
    places = {line: n for n, line in enumerate(shown)}
    bars: dict[bool, list[Bar]] = {False: [], True: []}
    for row in slots.dropna(subset=["pid"]).itertuples():
        at = places.get((str(row.worker_id), int(row.pid)))
        if at is not None:
            bars[row.failed > 0].append(_bar(row, at))
    for failed, text, colour, hatch in ((False, "busy", BLUE, ""), (True, "some failed", ORANGE, "////")):
        if bars[failed]:
            corners, shades = zip(*bars[failed], strict=True)
            colours = [to_rgba(colour, shade) for shade in shades]
            axes.add_collection(
                PolyCollection(corners, facecolors=colours, hatch=hatch, edgecolors="white", linewidths=0)
            )
            axes.barh([0], [0], color=colour, hatch=hatch, edgecolor="white", linewidth=0, label=text)


def _bar(row: Any, n: int) -> Bar:
    """The corners of a bar on line ``n``, and its shade."""
    busy = 0.0 if pd.isna(row.busy_s) else float(row.busy_s)
    end = row.last_at
    start = end - pd.Timedelta(seconds=busy) if pd.isna(row.first_at) else min(row.first_at, end)
    width = max((end - start).total_seconds(), 0.001)
    left, right, low, high = time_axis.place(start), time_axis.place(end), n - 0.35, n + 0.35
    return [(left, low), (right, low), (right, high), (left, high)], FAINT + (1 - FAINT) * min(
        1.0, busy / width
    )


def _running(axes: Axes, source: Source, shown: list[Line]) -> None:
    text: str | None = "runs now"
    for row in source.frame("running").itertuples():
        line = (str(row.worker_id), f"task {row.task_id}")
        if line in shown and not pd.isna(row.claimed_at):
            left, right = time_axis.place(row.claimed_at), time_axis.place(source.now)
            axes.barh(shown.index(line), right - left, left=left, height=0.6, color="white", edgecolor=BLUE,
                      hatch="...", linewidth=1, label=text)  # fmt: skip
            text = None


def _last_heard(axes: Axes, source: Source, shown: list[Line]) -> None:
    """Where the heartbeat of a worker stopped, and where it was declared dead."""
    seen = source.frame("workers")
    silent = seen[~seen["worker_id"].isin(_alive(source)["worker_id"])]
    for column, point, colour, text in (
        ("heartbeat_at", "|", GREY, "last heartbeat"),
        ("lost_at", "X", RED, "declared dead"),
    ):
        marks = [
            (time_axis.place(at), n)
            for worker, at in silent[["worker_id", column]].dropna().itertuples(index=False)
            for n, line in enumerate(shown)
            if line[0] == str(worker)
        ]
        if marks:
            x, y = zip(*marks, strict=True)
            axes.scatter(x, y, marker=point, color=colour, s=42, label=text, zorder=4)


def _alive(source: Source) -> pd.DataFrame:
    return alive(source.frame("workers"), source.now, pace(source.frame("facts")))


def _told(source: Source, lines: int) -> str:
    slots, running, seen = source.frame("slots"), source.frame("running"), source.frame("workers")
    more = f" The first {MOST_LINES} of {lines} lines are shown." if lines > MOST_LINES else ""
    return (
        f"{len(_alive(source))} of {len(seen)} workers alive, {len(running)} runs under way, "
        f"{int(slots['runs'].sum()):,} ended, {int(slots['failed'].sum()):,} of them not well.{more}"
    )
