"""Planned against actual: a line for each periodic code, a mark for each planned time."""

from __future__ import annotations

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
from taskkit.analytics.source import Source

TITLE = "Planned times, and what became of them"
MOST_CODES = 25
LATE_S = 60.0
KINDS = (
    ("fired in time", "o", GREEN, True),
    ("fired late", ">", ORANGE, True),
    ("failed", "s", RED, False),
    ("skipped", "v", GREY, False),
    ("missed", "X", RED, True),
    ("planned, not fired yet", "o", BLUE, False),
)


def calendar(source: Source) -> Picture:
    """All codes with a planned time in the window; a line leads from a planned time to the late one."""
    planned, troubled = source.frame("occurrences"), source.frame("troubled_occurrences")
    if planned.empty and troubled.empty:
        return nothing(TITLE)
    codes = _codes(planned, troubled)
    drawing, (axes,) = canvas(TITLE, (0.9 + 0.28 * len(codes),))
    marks = [*_in_time(planned, source), *_in_trouble(troubled)]
    for text, point, colour, filled in KINDS:
        _mark(
            axes, [m for m in marks if m[0] == text and m[1] in codes], codes, (text, point, colour, filled)
        )
    late = troubled[troubled["fired_at"].notna() & troubled["task_code"].isin(codes)]
    for row in late.itertuples():
        ends = [time_axis.place(row.planned_at), time_axis.place(row.fired_at)]
        axes.plot(ends, [codes.index(row.task_code)] * 2, color=ORANGE, linewidth=1.2, zorder=1)
    axes.set_yticks(range(len(codes)), [cut_short(code) for code in codes])
    axes.set_ylim(len(codes) - 0.4, -0.6)
    legend(axes)
    window = source.window
    time_axis.mark(axes, window.since, window.until, window.zone)
    return Picture(drawing, TITLE, _told(planned))


def _codes(planned: pd.DataFrame, troubled: pd.DataFrame) -> list[str]:
    """Those with trouble first."""
    ordered = [*troubled["task_code"].value_counts().index, *sorted(set(planned["task_code"]))]
    return list(dict.fromkeys(map(str, ordered)))[:MOST_CODES]


def _in_time(planned: pd.DataFrame, source: Source) -> list[tuple[str, str, object]]:
    """A mark for each bucket in which a code fired; trouble has marks of its own."""
    fired = planned[(planned["state"] == "fired") & (planned["occurrences"] > planned["failed"])]
    fired = fired[~(fired["late_max_s"] > LATE_S)]
    start = pd.Timestamp(source.window.since)
    return [("fired in time", str(row.task_code), max(row.bucket_at, start)) for row in fired.itertuples()]


def _in_trouble(troubled: pd.DataFrame) -> list[tuple[str, str, object]]:
    return [(_kind(row), str(row.task_code), row.planned_at) for row in troubled.itertuples()]


def _kind(row: object) -> str:
    state = str(row.state)  # type: ignore[attr-defined]
    if state == "planned":
        return "planned, not fired yet"
    if state != "fired":
        return state
    return "fired late" if (row.late_s or 0) > LATE_S else "failed"  # type: ignore[attr-defined]


def _mark(
    axes: Axes, marks: list[tuple[str, str, object]], codes: list[str], kind: tuple[str, str, str, bool]
) -> None:
    text, point, colour, filled = kind
    if marks:
        x, y = [time_axis.place(at) for *_, at in marks], [codes.index(code) for _, code, _ in marks]
        axes.scatter(x, y, s=34, marker=point, facecolor=colour if filled else "white", edgecolor=colour, linewidth=1.1,
                     label=text, zorder=3)  # fmt: skip


def _told(planned: pd.DataFrame) -> str:
    states = planned.groupby("state")["occurrences"].sum()
    found = [f"{int(states.get(name, 0)):,} {name}" for name in ("fired", "skipped", "missed", "planned")]
    return f"Planned times by what became of them: {', '.join(found)}."
