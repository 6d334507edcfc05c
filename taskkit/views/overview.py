"""Queues, workers, running tasks with their progress, and how many tasks are in which status: one look."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from taskkit.beats import FRESH_S
from taskkit.model import Backlog, Task
from taskkit.render import duration, plain
from taskkit.states import Status

if TYPE_CHECKING:
    from taskkit.center import TaskCenter

MOST_RUNNING = 15
Rows = list[tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Overview:
    """An installation at one instant, by its database's clock; nodes are rows as the task center tells them."""

    at: datetime
    queues: Sequence[Backlog]
    workers: Sequence[dict[str, Any]]
    schedulers: Sequence[dict[str, Any]]
    running: Sequence[Task]
    counts: dict[Status, int]

    def tables(self) -> list[tuple[tuple[str, ...], Rows]]:
        """Heads and rows of each table."""
        return [
            (
                ("queue", "due", "queued", "running", "oldest", "retrying", "held"),
                [_queue(one) for one in self.queues],
            ),
            (
                ("worker", "heartbeat", "serves", "busy", "done", "failed"),
                [_worker(one) for one in self.workers],
            ),
            (("scheduler", "heartbeat", "dispatched"), [_scheduler(one) for one in self.schedulers]),
            (
                ("running task", "code", "since", "progress", ""),
                [_running(one, self.at) for one in self.running],
            ),
        ]

    @property
    def summary(self) -> str:
        """How many tasks are in which status."""
        told = [
            f"{count:,} {status.label.replace('_', ' ')}" for status, count in self.counts.items() if count
        ]
        return f"{self.at:%Y-%m-%d %H:%M:%S} UTC: {', '.join(told) or 'no tasks yet'}"

    def __str__(self) -> str:
        lines = [plain(self.summary)]
        for heads, rows in self.tables():
            cells = [heads, *(rows or [("none", *[""] * (len(heads) - 1))])]
            widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
            lines += [
                "",
                *("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in cells),
            ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(plain(self.summary))}</p>{''.join(_table(heads, rows) for heads, rows in self.tables())}"


def look(center: TaskCenter) -> Overview:
    """One look; a handful of short reads."""
    from taskkit.center import TaskFilter

    backlogs = center.read.backlogs()
    return Overview(
        center.now(),
        [backlogs[queue] for queue in sorted(backlogs)],
        center.nodes.workers(),
        center.nodes.schedulers(),
        center.read.find(TaskFilter(statuses=(int(Status.RUNNING),), limit=MOST_RUNNING)),
        center.read.counts(),
    )


def _queue(one: Backlog) -> tuple[str, ...]:
    counts = (f"{n:,}" for n in (one.due, one.queued, one.running))
    return (plain(one.queue), *counts, duration(one.oldest_age_s), f"{one.retrying:,}", f"{one.held:,}")


def _worker(one: dict[str, Any]) -> tuple[str, ...]:
    busy = f"{one['busy']} of {one['processes']}"
    return (
        _name(one),
        _pulse(one),
        plain(one["queues"]),
        busy,
        f"{one['processed']:,}",
        f"{one['failed']:,}",
    )


def _scheduler(one: dict[str, Any]) -> tuple[str, ...]:
    return _name(one), _pulse(one), f"{one['dispatched']:,}"


def _name(one: dict[str, Any]) -> str:
    return plain(f"{one['host']}:{one['pid']}")


def _pulse(one: dict[str, Any]) -> str:
    """How old its heartbeat is, or that it left or is silent."""
    if one.get("stopped_at") is not None:
        return "stopped"
    age = one["heartbeat_age_s"] or 0.0
    return f"{duration(age)} ago" if age <= FRESH_S else f"SILENT for {duration(age)}"


def _running(one: Task, at: datetime) -> tuple[str, ...]:
    since = None if one.claimed_at is None else max(0.0, (at - one.claimed_at).total_seconds())
    done = "" if one.progress is None else f"{100 * _part(one):.0f} %"
    return str(one.id), plain(one.task_code), duration(since), done, plain(one.progress_text or "")


def _part(one: Task) -> float:
    """Its progress as a part of 1."""
    return min(1.0, max(0.0, float(one.progress or 0.0)))


def _table(heads: tuple[str, ...], rows: Rows) -> str:
    if not rows:
        return f"<p><i>{html.escape(heads[0])}: none</i></p>"
    head = "".join(f'<th style="text-align:left">{html.escape(one)}</th>' for one in heads)
    body = "".join(
        f"<tr>{''.join(_cell(*pair) for pair in zip(heads, row, strict=True))}</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(head: str, text: str) -> str:
    bar = ""
    if head == "progress" and text:
        bar = f'<progress max="100" value="{text.split(maxsplit=1)[0]}"></progress> '
    return f'<td style="text-align:left">{bar}{html.escape(text)}</td>'
