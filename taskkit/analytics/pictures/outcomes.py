"""How runs ended, over time: one bar a bucket, each ending with its own colour and hatch."""

from __future__ import annotations

from taskkit.analytics.pictures import time_axis
from taskkit.analytics.pictures.picture import GREEN, ORANGE, RED, Picture, canvas, legend, nothing
from taskkit.analytics.pictures.series import buckets, counts
from taskkit.analytics.source import Source

TITLE = "How runs ended"
ENDS = (
    ("ended well", ("succeeded",), GREEN, ""),
    ("failed", ("failed", "given_up"), ORANGE, "//"),
    ("timed out", ("timed_out",), "#8b5cc0", "xx"),
    ("lost with their worker", ("lost_running", "superseded"), RED, ".."),
    ("lost before a claim", ("lost_messages",), "#000000", ""),
    ("cancelled or handed back", ("cancelled", "handed_back"), "#cccccc", ""),
)


def outcomes(source: Source) -> Picture:
    """All runs of the window, by how they ended."""
    finishes, window = source.frame("finishes"), source.window
    total = int(finishes["finished"].sum())
    if not total:
        return nothing(TITLE)
    drawing, (axes,) = canvas(TITLE, (2.6,))
    starts = [time_axis.place(at) for at in buckets(window)]
    width, floor, told = window.bucket_s / time_axis.DAY_S, [0.0] * len(starts), []
    for text, columns, colour, hatch in ENDS:
        values = [
            sum(column) for column in zip(*(counts(finishes, name, window) for name in columns), strict=True)
        ]
        if not sum(values):
            continue
        x, low, high = zip(
            *((at, b, v) for at, b, v in zip(starts, floor, values, strict=True) if v), strict=True
        )
        axes.bar(x, high, width, bottom=low, align="edge", color=colour, hatch=hatch, edgecolor="white", linewidth=0.3,
                 label=f"{text}: {sum(values):,.0f}")  # fmt: skip
        floor = [low + value for low, value in zip(floor, values, strict=True)]
        told.append(f"{sum(values):,.0f} {text}")
    axes.set_ylabel(f"runs in {window.bucket_s:,} s")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.set_ylim(0, max(floor) * 1.05)
    legend(axes)
    time_axis.mark(axes, window.since, window.until, window.zone)
    return Picture(drawing, TITLE, f"{total:,} runs: {', '.join(told)}.")
