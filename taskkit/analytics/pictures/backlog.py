"""What waits in the fullest queue, what arrives and what is done, and when it will be over."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import accumulate

import pandas as pd
from matplotlib.axes import Axes

from taskkit.analytics.diagnosis import Diagnosis, Figure
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
from taskkit.analytics.pictures.series import buckets, counts, rates
from taskkit.analytics.rules.backlog import diagnose
from taskkit.analytics.source import Source
from taskkit.analytics.wording import shown

TITLE = "What waits, and when it is over"
PEAK = 6.0
LOOK_AHEAD = 3.0
"""The picture looks ahead so many windows at most."""


def backlog(source: Source, *, workers: int | None = None) -> Picture:
    """The queue in which most waits, with the forecast as things are and with ``workers`` slots."""
    found = diagnose(source, workers=workers)
    if found.verdict == "no_data":
        return nothing(TITLE)
    queue = str(found.details["queue"])
    drawing, (over, under) = canvas(f"{TITLE}: queue {cut_short(queue)}", (2.6, 2.0))
    until = _waiting(over, source, queue, found)
    _rates(under, source, queue)
    for axes in (over, under):
        axes.axvline(time_axis.place(source.now), color=GREY, linewidth=1)
        axes.set_ylim(bottom=0)
    over.annotate("now", (time_axis.place(source.now), 0.03), xycoords=("data", "axes fraction"), xytext=(3, 0),
                  textcoords="offset points", fontsize=8, color=GREY)  # fmt: skip
    time_axis.mark(under, source.window.since, until, source.window.zone)
    return Picture(drawing, TITLE, _told(found, queue))


def _told(found: Diagnosis, queue: str) -> str:
    named = {figure.name: shown(figure, "en") for figure in (*found.evidence, *found.forecast)}
    return (
        f"Queue {queue}: {named['waiting']} wait, {named['arrival_per_s']} arrive and {named['service_per_s']} are done; "
        f"empty in {named['drain_now']} as things are, in {named['drain_n']} with {named['slots_n']} slots."
    )


def _waiting(axes: Axes, source: Source, queue: str, found: Diagnosis) -> datetime:
    """Draw what waited and what will; returns where the picture ends."""
    now, waits = source.now, float(found.figure("waiting") or 0)
    times, values = history(source, queue, waits)
    axes.fill_between([time_axis.place(at) for at in times], values, color=BLUE, alpha=0.25, linewidth=0)
    axes.plot([time_axis.place(at) for at in times], values, color=BLUE, linewidth=1.6, label="waiting")
    axes.set_ylabel("tasks")
    until = now
    if waits:
        until = _ahead(axes, now, source.window.length_s * LOOK_AHEAD, found)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    legend(axes)
    return max(until, source.window.until)


def _ahead(axes: Axes, now: datetime, most_s: float, found: Diagnosis) -> datetime:
    waits = float(found.figure("waiting") or 0)
    drains = [("drain_now", "as things are", RED, "--")]
    if found.figure("slots_n") not in {None, found.figure("slots")}:
        drains.append(("drain_n", f"with {found.figure('slots_n')} slots", GREEN, ":"))
    spans = {name: _seconds(found.figure(name)) for name, *_ in drains}
    horizon = min(most_s, max((s for s in spans.values() if s), default=most_s / LOOK_AHEAD / 4) * 1.05)
    for name, text, colour, dashes in drains:
        lasts = spans[name]
        end = min(lasts, horizon) if lasts else horizon
        left = waits * (1 - end / lasts) if lasts else waits + max(0.0, _growth(found)) * end
        ends = "never empty" if lasts is None else f"empty in {shown(Figure(name, lasts, 's'), 'en')}"
        x = [time_axis.place(now), time_axis.place(now + timedelta(seconds=end))]
        axes.plot(x, [waits, left], color=colour, linestyle=dashes, linewidth=1.8, label=f"{text}: {ends}")
    return now + timedelta(seconds=horizon)


def _seconds(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _growth(found: Diagnosis) -> float:
    return (_seconds(found.figure("arrival_per_s")) or 0.0) - (_seconds(found.figure("service_per_s")) or 0.0)


def history(source: Source, queue: str, waits: float) -> tuple[list[datetime], list[float]]:
    """What waited at each instant: as sampled, or reckoned back from now where no scheduler wrote samples."""
    samples = source.frame("samples")
    mine = samples[samples["queue"] == queue].sort_values("bucket_at")
    if len(mine):
        depth = mine["due_mean"] + mine["queued_mean"]
        middle = pd.Timedelta(seconds=source.window.bucket_s / 2)
        times = [min((at + middle).to_pydatetime(), source.now) for at in mine["bucket_at"]]
        return [*times, source.now], [*depth.astype(float), waits]
    arrivals, finishes = (_of(source, name, queue) for name in ("arrivals", "finishes"))
    moves = zip(
        counts(arrivals, "arrived", source.window), counts(finishes, "finished", source.window), strict=True
    )
    back = list(accumulate((done - come for come, done in reversed(list(moves))), initial=waits))
    return [*buckets(source.window), source.window.until], [max(0.0, value) for value in reversed(back)]


def _rates(axes: Axes, source: Source, queue: str) -> None:
    starts = [time_axis.place(at) for at in (*buckets(source.window), source.window.until)]
    peaks = []
    for name, column, text, colour, dashes in (
        ("arrivals", "arrived", "arrive", ORANGE, "-"),
        ("finishes", "finished", "are done", BLUE, "--"),
    ):
        values = rates(_of(source, name, queue), column, source.window)
        peaks.append(values)
        axes.step(
            starts,
            [*values, values[-1]],
            where="post",
            color=colour,
            linestyle=dashes,
            linewidth=1.6,
            label=text,
        )
    axes.set_ylabel("tasks per s")
    _fit(axes, peaks)
    legend(axes)


def _fit(axes: Axes, values: list[list[float]]) -> None:
    """A short peak is written down instead of flattening all the rest."""
    peak = max(map(max, values))
    usual = max(sorted(one)[int(0.95 * (len(one) - 1))] for one in values)
    if usual and peak > PEAK * usual:
        axes.set_ylim(0, usual * PEAK / 2)
        axes.annotate(
            f"peak {peak:,.0f} per s", (0.995, 0.9), xycoords="axes fraction", ha="right", fontsize=8
        )
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")


def _of(source: Source, name: str, queue: str) -> pd.DataFrame:
    frame = source.frame(name)
    return frame[frame["queue"] == queue]
