"""What is normal of each code: how long its runs took in the week before a window, for the frame ``service_normal``."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from datetime import datetime
from itertools import pairwise
from typing import Any

from taskkit.center.statements import frames as sql
from taskkit.clock import seconds

Rows = list[dict[str, Any]]
Ask = Callable[[str, Mapping[str, Any]], Rows]
Bind = Callable[[datetime], Any]
WEEK_S = 7 * 86_400.0
MOST = 1_000_000
LATELY_S = (3600.0, 1800.0, 600.0, 0.0)
ENOUGH = 50
"""A code with fewer runs before the last hour is judged by the oldest parts of that hour that have enough."""
PIECES = 1008
"""A week with more runs is read in so many pieces of ten minutes, of each an equal share of that many runs."""
GOLDEN = 0.618034


def service_normal(ask: Ask, bind: Bind, since: datetime) -> Rows:
    """Without the hour before the window, so that what has changed just now does not become its own normal.

    What is not older than that has its oldest runs for a normal: half an hour, then all but the last ten minutes.
    """
    rows = _older(ask, bind, since - seconds(LATELY_S[0]))
    for starts_s, ends_s in pairwise(LATELY_S):
        known: Counter[str] = Counter()
        for row in rows:
            known[row["task_code"]] += int(row["runs"])
        span = {"from": bind(since - seconds(starts_s)), "to": bind(since - seconds(ends_s))}
        lately = ask(sql.SERVICE_NORMAL_LATELY, span | {"each": MOST // len(LATELY_S)})
        rows = _merged([*rows, *(row for row in lately if known[row["task_code"]] < ENOUGH)])
    return rows


def _older(ask: Ask, bind: Bind, until: datetime) -> Rows:
    """Of a whole week; where that is too much, of runs from everywhere in it, never of its last minutes alone."""
    week = {"from": bind(until - seconds(WEEK_S)), "to": bind(until), "most": MOST + 1}
    if ask(sql.MANY_NORMAL, week)[0]["n"] <= MOST:
        return ask(sql.SERVICE_NORMAL, week)
    rows: Rows = []
    for first in range(0, PIECES, sql.NORMAL_PARTS):
        pieces = _pieces(bind, until, first) | {"each": max(1, MOST // PIECES)}
        rows += ask(sql.SERVICE_NORMAL_PARTS, pieces)
    return _merged(rows)


def _pieces(bind: Bind, until: datetime, first: int) -> dict[str, Any]:
    """From where to where; each begins elsewhere in its first half, so that no beat of the clock is read alone."""
    width, found = WEEK_S / PIECES, {}
    for n in range(sql.NORMAL_PARTS):
        starts_s = (first + n - PIECES) * width
        late_s = (first + n) * GOLDEN % 1 * width / 2
        found[f"from_{n}"] = bind(until + seconds(starts_s + late_s))
        found[f"to_{n}"] = bind(until + seconds(starts_s + width))
    return found


def _merged(rows: Rows) -> Rows:
    """Bins of several pieces as one: the rows of one code and bin become one row."""
    same: dict[tuple[str, int], Rows] = defaultdict(list)
    for row in rows:
        same[row["task_code"], int(row["bin"])].append(row)
    return [
        {
            "task_code": code, "bin": number, "runs": sum(row["runs"] for row in group),
            "min_ms": min(row["min_ms"] for row in group), "max_ms": max(row["max_ms"] for row in group),
            "sum_ms": sum(row["sum_ms"] for row in group),
        }
        for (code, number), group in sorted(same.items())
    ]  # fmt: skip
