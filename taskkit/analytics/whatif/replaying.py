"""The past replayed, and then what would have been: waits, slots used, the largest backlog and its drain. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from taskkit.analytics import measures as m
from taskkit.analytics.source import Source
from taskkit.analytics.whatif import past, queueing
from taskkit.analytics.whatif.past import QUANTILES, SlotsOverTime
from taskkit.analytics.whatif.work import Work, expand, multiplied
from taskkit.errors import InputError

MOST_TASKS = 20_000_000
"""More than so many are not replayed: they would need more than 4 GB."""
SMALL_S = 0.05
"""An error of a wait that is smaller than this is none that anybody would notice."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """One line of the table. Seconds, percent and counts; None is n/a. ``never`` waited without end."""

    name: str
    slots: int | None = None
    load: float = 1.0
    wait_p50_s: float | None = None
    wait_p95_s: float | None = None
    wait_p99_s: float | None = None
    busy_percent: float | None = None
    backlog: int | None = None
    drain_s: float | None = None
    tasks: int | None = None
    never: int = 0


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The past measured and replayed, with the error of the replay; variants, each with Erlang C beside it."""

    measured: Outlook
    replayed: Outlook
    variants: tuple[tuple[Outlook, Outlook], ...] = ()
    queue: str | None = None
    sharing: tuple[str, ...] | None = None
    slots_known_by: str = "workers"
    way_s: float = 0.0
    turn_s: float = 0.0
    limits: Mapping[str, int] = field(default_factory=dict)
    too_many: int = 0
    """So many tasks, where that is too many and nothing was replayed."""

    @property
    def error_p50(self) -> float | None:
        """By how many percent the replay missed the median wait; None where there is none to compare with."""
        return error(self.replayed.wait_p50_s, self.measured.wait_p50_s)

    @property
    def error_p95(self) -> float | None:
        """The same of the wait that 95 of 100 did not exceed."""
        return error(self.replayed.wait_p95_s, self.measured.wait_p95_s)

    def _repr_html_(self) -> str:
        from taskkit.analytics.whatif.showing import as_html

        return as_html(self)

    def __str__(self) -> str:
        from taskkit.analytics.whatif.showing import as_text

        return as_text(self)


def error(predicted: float | None, real: float | None) -> float | None:
    """The difference in percent of what was measured; 0 where both are too short for it to matter."""
    if predicted is None or real is None:
        return None
    if abs(predicted - real) < SMALL_S and real < SMALL_S:
        return 0.0
    return m.share(predicted - real, real)


@dataclass(frozen=True, slots=True)
class Replay:
    """What does not change between the lines of a table."""

    source: Source
    queue: str | None
    queues: tuple[str, ...] | None
    way_s: float
    turn_s: float

    def work(self, *, times: float = 1.0) -> Work:
        """The tasks of the queues that share the slots; none, where there are too many of them."""
        load = self._frame("load")
        load = load.head(0) if self.too_many(times) else load
        return expand(load, self._frame("service_times"), span_s=self.source.window.bucket_s)

    def too_many(self, times: float) -> int:
        """How many tasks there are, so many times, if that is more than can be replayed; else 0."""
        total = round(int(self._frame("load")["tasks"].sum()) * max(1.0, times))
        return total if total > MOST_TASKS else 0

    def _frame(self, name: str) -> pd.DataFrame:
        found = self.source.frame(name)
        return found if self.queues is None else found[found["queue"].isin(self.queues)]

    def line(
        self, name: str, work: Work, crew: SlotsOverTime, limits: Mapping[str, int], times: float
    ) -> Outlook:
        """Serve these tasks and say how that went."""
        begun = serve(work, crew, limits, self.turn_s)
        mine = work.judged if self.queue is None else work.judged & _of(work, self.queue)
        mine = mine if mine.any() else _of(work, self.queue)
        waits = (begun - work.arrive)[mine]
        there = np.sort(waits) + self.way_s
        p50, p95, p99 = (_quantile(there, q) for q in QUANTILES)
        most, at = queueing.largest_backlog(work.arrive, begun)
        empty = queueing.empty_after(work.arrive, begun, at)
        length = self.source.window.length_s
        return Outlook(
            name, crew.most, times, p50, p95, p99,
            busy_percent=m.share(_spent(work, begun, length), crew.seconds(length)),
            backlog=most,
            drain_s=None if empty is None else empty - at,
            tasks=len(work.arrive),
            never=int(np.isinf(begun).sum()),
        )  # fmt: skip


def whatif(
    source: Source,
    *,
    slots: Sequence[int] = (),
    load: float = 1.0,
    limits: Mapping[str, int | None] | None = None,
    queue: str | None = None,
    past_slots: int | None = None,
) -> WhatIf:
    """Replay a window: as it was, and with each of ``slots`` (else as many as there were), ``load`` times the tasks.

    ``limits`` says how many of a queue may run at once in place of the limits in force, None without one.
    ``queue`` judges the waits of that queue; those that share its slots are replayed with it.
    """
    _check(slots, load, limits or {})
    queues = past.sharing(source, queue)
    of = None if queue is None else [queue]
    one = Replay(source, queue, queues, past.way_s(source, of), past.turn_s(source, queues))
    work, old = one.work(times=load), past.limits(source)
    crew = past.steady(past_slots) if past_slots else past.crew(source, queues)
    new = {name: n for name, n in (old | dict(limits or {})).items() if n is not None}
    replayed = (
        one.line("past, replayed", work, crew, old, 1.0)
        if len(work.arrive)
        else Outlook("past, replayed", crew.most)
    )
    changed = work if load == 1 else multiplied(work, load, source.window.bucket_s)
    crews = [past.steady(number) for number in slots] or ([crew] if load != 1 or limits else [])
    variants = [
        (
            one.line(f"{c.most} slots, {load:g} × the load", changed, c, new, load),
            quick(changed, c.most, one, load),
        )
        for c in crews
        if len(changed.arrive)
    ]
    return WhatIf(
        _measured(one, of, crew),
        replayed,
        tuple(variants),
        queue,
        queues,
        crew.known_by,
        one.way_s,
        one.turn_s,
        new,
        one.too_many(load),
    )


def _check(slots: Sequence[int], load: float, limits: Mapping[str, int | None]) -> None:
    if any(number < 1 for number in slots):
        raise InputError("slots", "must be 1 or more")
    if not 0 < load <= 1000:
        raise InputError("load", f"{load:g} is not between 0 and 1000; 2 is twice the load")
    wrong = [name for name, number in limits.items() if number is not None and number < 1]
    if wrong:
        raise InputError("limit", f"that of {wrong[0]} must be 1 or more")


def serve(work: Work, crew: SlotsOverTime, limits: Mapping[str, int], turn_s: float = 0.0) -> queueing.Floats:
    """When each of these tasks begins; the plainest of the ways that are exact."""
    held, slots = work.service + turn_s, crew.slots()
    known = {work.queues.index(name): number for name, number in limits.items() if name in work.queues}
    if known:
        return queueing.starts_limited(work.arrive, held, work.rank, work.queue, slots, known)
    if len(work.rank) and (work.rank != work.rank[0]).any():
        return queueing.starts_by_rank(work.arrive, held, work.rank, slots)
    return queueing.starts(work.arrive, held, slots)


def quick(work: Work, slots: int, one: Replay, times: float) -> Outlook:
    """What Erlang C says of so many slots: a steady load of random arrivals, whatever really came when."""
    length, mean = one.source.window.length_s, float((work.service + one.turn_s).mean())
    erlangs = mean * len(work.service) / length
    p50, p95, p99 = (m.erlang_wait_s(erlangs, slots, mean, q) for q in QUANTILES)
    busy = m.share(erlangs, slots)
    return Outlook("Erlang C", slots, times, p50, p95, p99, None if busy is None else min(busy, 100.0))


def _measured(one: Replay, of: list[str] | None, crew: SlotsOverTime) -> Outlook:
    """What the tables say."""
    source, length = one.source, one.source.window.length_s
    done = source.frame("finishes")
    done = done if one.queues is None else done[done["queue"].isin(one.queues)]
    most, drain = past.backlog(source, one.queues)
    busy = m.share(float(done["busy_s"].sum()), crew.seconds(length)) if len(done) else None
    tasks = int(done["finished"].sum()) if len(done) else None
    p50, p95, p99 = past.measured(source, of)
    return Outlook("past, measured", crew.most, 1.0, p50, p95, p99, busy, most, drain, tasks)


def _of(work: Work, queue: str | None) -> np.ndarray:
    if queue is None:
        return np.ones(len(work.arrive), dtype=bool)
    number = work.queues.index(queue) if queue in work.queues else -1
    return np.asarray(work.queue == number)


def _quantile(ordered: queueing.Floats, q: float) -> float | None:
    """The ``q``-th part waited so long at most; None where there is none, or that wait has no end."""
    if not len(ordered):
        return None
    found = float(ordered[min(len(ordered) - 1, int(np.ceil(q * len(ordered))) - 1)])
    return found if np.isfinite(found) else None


def _spent(work: Work, begun: queueing.Floats, length: float) -> float:
    """Seconds within the window that slots were busy."""
    ended = np.minimum(begun + work.service, length)
    return float(np.maximum(0.0, ended - np.clip(begun, 0.0, length))[np.isfinite(begun)].sum())
