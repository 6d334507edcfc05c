"""The runs of tasks that ran more than once, on one time line: who ran it, how long, and how that ended."""

from __future__ import annotations

from datetime import timedelta

import pandas as pd
from matplotlib.axes import Axes

from taskkit.analytics.pictures import time_axis
from taskkit.analytics.pictures.picture import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    RED,
    Picture,
    canvas,
    cut_short,
    legend,
    nothing,
)
from taskkit.analytics.rules.duplicates import diagnose
from taskkit.analytics.source import Source

TITLE = "Tasks that ran more than once"
MOST_TASKS = 6
MOST_RUNS = 30
ENDS = {
    "success": ("ended well", GREEN, ""),
    "superseded": ("ended after its worker had been declared dead", BLUE, "\\\\"),
    "lost": ("lost", RED, ".."),
    "failed": ("failed", ORANGE, "//"),
    "timeout": ("timed out", "#8b5cc0", "xx"),
}
OTHER = ("ended otherwise", "#bbbbbb", "")


def repeats(source: Source, task_id: int | None = None) -> Picture:
    """Of one task, else of those of which the diagnosis speaks: from dispatch (thin) to start and end (bar)."""
    runs = source.frame("runs").drop_duplicates(["task_id", "attempt"])
    chosen = _chosen(runs, source, task_id)
    if chosen.empty:
        return nothing(TITLE)
    drawing, (axes,) = canvas(TITLE, (1.0 + 0.3 * len(chosen),))
    told: set[str] = set()
    for n, row in enumerate(chosen.itertuples()):
        text, colour, hatch = ENDS.get(str(row.outcome), OTHER)
        _run(axes, n, row, (colour, hatch), None if text in told else text)
        told.add(text)
    names = [_name(row) for row in chosen.itertuples()]
    axes.set_yticks(range(len(chosen)), names, fontsize=8)
    axes.set_ylim(len(chosen) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")
    legend(axes)
    time_axis.mark(axes, *_span(chosen), source.window.zone)
    several = chosen["task_id"].nunique()
    return Picture(drawing, TITLE, f"{len(chosen)} runs of {several} {'task' if several == 1 else 'tasks'}.")


def _chosen(runs: pd.DataFrame, source: Source, task_id: int | None) -> pd.DataFrame:
    if task_id is not None:
        ids = [task_id]
    else:
        found = [one.subject for one in diagnose(source).found]
        ids = [int(word) for subject in found if (word := subject.split()[0]).isdecimal()]
        keys = {subject.split(" ", 1)[-1] for subject in found}
        ids += list(runs[runs["unique_key"].isin(keys)]["task_id"])
        ids += list(runs["task_id"].value_counts().index)
    first = list(dict.fromkeys(ids))[:MOST_TASKS]
    mine = runs[runs["task_id"].isin(first)]
    order = {task: n for n, task in enumerate(first)}
    return mine.assign(order=mine["task_id"].map(order)).sort_values(["order", "attempt"]).head(MOST_RUNS)


def _run(axes: Axes, n: int, row: object, look: tuple[str, str], text: str | None) -> None:
    sent, start, end = row.dispatched_at, row.started_at, row.finished_at  # type: ignore[attr-defined]
    colour, hatch = look
    if pd.notna(sent) and pd.notna(end):
        ends = [time_axis.place(sent), time_axis.place(start if pd.notna(start) else end)]
        axes.plot(ends, [n, n], color=GREY, linewidth=1.2, linestyle=":")
        axes.scatter(ends[:1], [n], marker="|", color=GREY, s=30)
    if pd.notna(start) and pd.notna(end):
        left, width = time_axis.place(start), max(time_axis.place(end) - time_axis.place(start), 1e-9)
        axes.barh(
            n,
            width,
            left=left,
            height=0.62,
            color=colour,
            hatch=hatch,
            edgecolor="white",
            linewidth=0,
            label=text,
        )
        axes.plot([left, left], [n - 0.31, n + 0.31], color=colour, linewidth=1.5)
    elif pd.notna(end):
        axes.scatter([time_axis.place(end)], [n], marker="X", color=colour, s=36, label=text, zorder=3)


def _name(row: object) -> str:
    worker = cut_short(str(row.worker_id or "never claimed"), 22)  # type: ignore[attr-defined]
    return f"{row.task_id} · attempt {row.attempt} · {worker}"  # type: ignore[attr-defined]


def _span(chosen: pd.DataFrame) -> tuple[pd.Timestamp, pd.Timestamp]:
    at = pd.concat([chosen[name].dropna() for name in ("dispatched_at", "started_at", "finished_at")])
    since, until = at.min(), at.max()
    edge = max(timedelta(seconds=1), (until - since) * 0.04)
    return since - edge, until + edge
