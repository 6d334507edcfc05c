"""How long runs take and how long tasks wait: percentiles over time."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes

from taskkit.analytics.measures import percentile
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
from taskkit.analytics.pictures.series import percentiles
from taskkit.analytics.source import Source
from taskkit.analytics.wording import catalogue, span

TITLE = "How long runs take, and how long tasks wait"
LINES = ((0.5, "half", BLUE, "-", "o"), (0.95, "95 %", ORANGE, "--", "s"), (0.99, "99 %", RED, ":", "^"))
WIDE = 20.0
ROUND_MS = (0.1, 1, 10, 100, 1000, 10_000, 60_000, 600_000, 3_600_000, 36_000_000, 864_000_000)
STEPS_MS = tuple(
    size * n
    for size, counts in (
        (1, (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500)),
        (1000, (1, 2, 5, 10, 30)),
        (60_000, (1, 2, 5, 10, 30)),
        (3_600_000, (1, 2, 5, 10, 24, 48)),
    )
    for n in counts
)
MOST_MARKS = 6
"""Times that differ so many times are drawn on a logarithmic axis."""


def latency(source: Source, code: str | None = None) -> Picture:
    """Of one code (else of the one that takes most of the time): so many of its runs take so long at most."""
    times, waits = source.frame("service_times"), source.frame("waits")
    if times.empty and waits.empty:
        return nothing(TITLE)
    spent = times.groupby("task_code")["sum_ms"].sum()
    code = code or (str(spent.idxmax()) if len(spent) else None)
    mine = times[times["task_code"] == code]
    queues = set(mine["queue"]) or set(waits["queue"])
    waits = waits[waits["queue"].isin(queues)]
    drawing, (over, under) = canvas(f"{TITLE}: {cut_short(code or 'n/a')}", (2.2, 2.2))
    normal = source.frame("service_normal")
    usual = percentile(normal[normal["task_code"] == code], 0.5)
    _lines(over, mine, "runs take", usual)
    _lines(under, waits, "tasks wait", None)
    window = source.window
    time_axis.mark(under, window.since, window.until, window.zone)
    return Picture(drawing, TITLE, f"{code}: runs {_told(mine)}; waits {_told(waits)}.")


def _lines(axes: Axes, bins: pd.DataFrame, label: str, usual: float | None) -> None:
    axes.set_ylabel(label)
    if bins.empty:
        axes.text(0.5, 0.5, "no data", transform=axes.transAxes, ha="center", color=GREY)
        return
    seen: list[float] = []
    for q, text, colour, dashes, point in LINES:
        times, values = percentiles(bins, q)
        seen += values
        places = [time_axis.place(at) for at in times]
        axes.plot(
            places,
            values,
            dashes,
            color=colour,
            marker=point,
            markersize=2.5,
            linewidth=1.4,
            label=f"{text}: {shown_ms(percentile(bins, q))}",
        )
    if usual:
        axes.axhline(usual, color=GREY, linewidth=1, label=f"usual half: {shown_ms(usual)}")
    _fit(axes, min(seen), max(*seen, usual or 0.0))
    legend(axes)


def _fit(axes: Axes, least: float, most: float) -> None:
    """A scale on which all can be read, with marks that are round in the units of time."""
    if most > WIDE * max(least, 0.1):
        axes.set_yscale("log")
        axes.minorticks_off()
        low, high = max(least, 0.1) / 1.5, most * 1.5
        marks = [mark for mark in ROUND_MS if low <= mark <= high]
    else:
        step = next((s for s in STEPS_MS if most / s <= MOST_MARKS), STEPS_MS[-1])
        low, high = 0.0, max(most * 1.1, step)
        marks = [n * step for n in range(int(high / step) + 1)]
    axes.set_ylim(low, high)
    axes.set_yticks(marks, [shown_ms(mark) for mark in marks])


def _told(bins: pd.DataFrame) -> str:
    return ", ".join(f"{text} up to {shown_ms(percentile(bins, q))}" for q, text, *_ in LINES)


def shown_ms(value: float | None) -> str:
    """A time as the diagnoses write it."""
    return "n/a" if value is None else "0" if value == 0 else span(value / 1000, catalogue("en")["units"])
