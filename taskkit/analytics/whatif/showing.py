"""A what-if as a table for a terminal, as HTML, and as plain values."""

from __future__ import annotations

import html
from dataclasses import asdict
from typing import Any

from taskkit.analytics.diagnosis import Figure
from taskkit.analytics.whatif.replaying import Outlook, WhatIf
from taskkit.analytics.wording import shown

HEAD = ("", ">slots", ">wait p50", ">p95", ">p99", ">busy", ">largest backlog", ">drained in", ">tasks")


def row(line: Outlook) -> tuple[str, ...]:
    """The cells of a line."""
    figures = (
        Figure("slots", line.slots, "slots"),
        Figure("p50", line.wait_p50_s, "s"),
        Figure("p95", line.wait_p95_s, "s"),
        Figure("p99", line.wait_p99_s, "s"),
        Figure("busy", line.busy_percent, "%"),
        Figure("backlog", line.backlog, "tasks"),
        Figure("drain", line.drain_s, "s"),
        Figure("tasks", line.tasks, "tasks"),
    )
    return (line.name, *(shown(one, "en") for one in figures))


def rows(found: WhatIf) -> list[tuple[str, ...]]:
    """All lines, the error of the replay among them."""
    nothing = shown(Figure("", None), "en")
    errors = ["" if e is None else f"{e:+.0f} %" for e in (found.error_p50, found.error_p95)]
    told = [row(found.measured), row(found.replayed)]
    told.append(("  error", "", *(e or nothing for e in errors), *[""] * 5))
    for variant, erlang in found.variants:
        told += [
            row(variant),
            tuple("" if cell == nothing and n > 5 else cell for n, cell in enumerate(row(erlang))),
        ]
    return told


def notes(found: WhatIf) -> list[str]:
    """What has to be known to read the table."""
    told = []
    if found.too_many:
        return [f"{found.too_many:,} tasks are more than can be replayed at once: give a shorter window."]
    if found.replayed.tasks is None:
        return ["Nothing arrived in this window: there is nothing to replay."]
    if found.sharing:
        others = [name for name in found.sharing if name != found.queue]
        told.append(f"waits of {found.queue}" + (f"; {', '.join(others)} share its slots" if others else ""))
    told.append(
        {
            "workers": "slots of the past: the processes of the workers that were seen",
            "runs": "slots of the past: as many as ran at once; what the workers say of themselves does not suffice",
            "given": "slots of the past: as given",
        }[found.slots_known_by]
    )
    told.append(
        f"a task needs {_span(found.way_s)} to an idle slot, and a slot {_span(found.turn_s)} from one run to the next"
    )
    if found.limits:
        told.append("limits: " + ", ".join(f"{name} {n}" for name, n in sorted(found.limits.items())))
    told += [f"{line.name}: {line.never:,} tasks wait without end" for line in _replays(found) if line.never]
    return told


def _span(seconds: float) -> str:
    return shown(Figure("", seconds, "s"), "en")


def _replays(found: WhatIf) -> list[Outlook]:
    return [found.replayed, *(variant for variant, _ in found.variants)]


def as_text(found: WhatIf) -> str:
    """Lines for a terminal."""
    cells = [tuple(cell.lstrip(">") for cell in HEAD), *rows(found)]
    widths = [max(len(line[n]) for line in cells) for n in range(len(HEAD))]
    lines = [
        "  ".join([one[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(one[1:], widths[1:], strict=True))])
        for one in cells
    ]
    return "\n".join([*(line.rstrip() for line in lines), "", *notes(found)])


def as_html(found: WhatIf) -> str:
    """A table that needs nothing from outside."""

    def line(cells: tuple[str, ...], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(cell.lstrip('>'))}</{tag}>" for cell in cells) + "</tr>"

    body = "".join(line(cells, "td") for cells in rows(found))
    told = "<br>".join(html.escape(note) for note in notes(found))
    return f"<table><thead>{line(HEAD, 'th')}</thead><tbody>{body}</tbody></table><small>{told}</small>"


def as_dict(found: WhatIf) -> dict[str, Any]:
    """Names and values for programs."""
    return {
        "queue": found.queue,
        "sharing": None if found.sharing is None else list(found.sharing),
        "slots_known_by": found.slots_known_by,
        "way_s": found.way_s,
        "turn_s": found.turn_s,
        "limits": dict(found.limits),
        "measured": asdict(found.measured),
        "replayed": asdict(found.replayed),
        "error_p50_percent": found.error_p50,
        "error_p95_percent": found.error_p95,
        "variants": [{**asdict(variant), "erlang_c": asdict(erlang)} for variant, erlang in found.variants],
    }
