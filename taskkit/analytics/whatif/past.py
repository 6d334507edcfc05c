"""What there really was: slots over time, limits, waits and backlog, from the frames of a window. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import pandas as pd

from taskkit.analytics import measures as m
from taskkit.analytics.source import Source
from taskkit.analytics.whatif.queueing import NEVER, Slots

FULL = 0.98
WAY_Q, WAY_MOST_S = 0.05, 0.5
QUANTILES = (0.5, 0.95, 0.99)


@dataclass(frozen=True, slots=True)
class Life:
    """From when to when a slot was there, in seconds from the beginning of the window."""

    opened: float
    closed: float = NEVER


@dataclass(frozen=True, slots=True)
class SlotsOverTime:
    """The slots of the past; ``known_by`` is workers (their rows), runs (from how busy they were), or given."""

    lives: tuple[Life, ...]
    known_by: str

    @property
    def most(self) -> int:
        """How many there were at once at most."""
        marks = sorted([(one.opened, 1) for one in self.lives] + [(one.closed, -1) for one in self.lives])
        most = now = 0
        for _, step in marks:
            now += step
            most = max(most, now)
        return most

    def slots(self) -> Slots:
        """Fresh ones for a replay."""
        return Slots(
            [one.opened for one in self.lives], [one.closed for one in self.lives if one.closed < NEVER]
        )

    def seconds(self, length_s: float) -> float:
        """How long they were there together within the window."""
        return sum(max(0.0, min(one.closed, length_s) - max(one.opened, 0.0)) for one in self.lives)


def steady(number: int) -> SlotsOverTime:
    """So many slots from first to last."""
    return SlotsOverTime((Life(-NEVER),) * number, "given")


def sharing(source: Source, queue: str | None) -> tuple[str, ...] | None:
    """The queues that share slots with this one, itself included; None is all there are."""
    if queue is None:
        return None
    found, workers = {queue}, source.frame("workers")
    served = [{name.strip() for name in str(names or "").split(",")} for names in workers["queues"]]
    while True:
        more = set().union(*(names for names in served if names & (found | {"*"})), found)
        if "*" in more:
            return None
        if more == found:
            return tuple(sorted(found))
        found = more


def crew(source: Source, queues: Sequence[str] | None) -> SlotsOverTime:
    """The slots there were: of workers that served these queues; where they are not known, as busy as the runs were."""
    workers = source.frame("workers").drop_duplicates("worker_id")
    if queues is not None and len(workers):
        serves = [m.serves(str(names or ""), queues) for names in workers["queues"]]
        workers = workers[pd.Series(serves, index=workers.index, dtype=bool)]
    since, length = source.window.since, source.window.length_s
    fresh_s = m.fresh_s(source.frame("facts"))
    lives = [
        life
        for one in workers.itertuples()
        for life in [_life(one, since, source.now, fresh_s)] * int(one.processes)
        if life.closed > 0 and life.opened < length
    ]
    found = SlotsOverTime(tuple(lives), "workers")
    busy, most = _busy(source, queues)
    if busy <= FULL * found.seconds(length) and lives:
        return found
    return SlotsOverTime(steady(max(most, found.most)).lives, "runs") if most else found


def _life(worker: object, since: datetime, now: datetime, fresh_s: float) -> Life:
    gone = [worker.stopped_at, worker.lost_at]  # type: ignore[attr-defined]
    silent = m.age_s(worker.heartbeat_at, now)  # type: ignore[attr-defined]
    if pd.notna(gone[1]) or silent is None or silent > fresh_s:
        gone.append(worker.heartbeat_at)  # type: ignore[attr-defined]
    ends = [(pd.Timestamp(at) - pd.Timestamp(since)).total_seconds() for at in gone if pd.notna(at)]
    opened = (pd.Timestamp(worker.started_at) - pd.Timestamp(since)).total_seconds()  # type: ignore[attr-defined]
    return Life(-NEVER if opened <= 0 else opened, min(ends, default=NEVER))


def _busy(source: Source, queues: Sequence[str] | None) -> tuple[float, int]:
    """Seconds of all runs, and how many ran at once in the busiest part, from three buckets at a time."""
    done = source.frame("finishes")
    done = done if queues is None else done[done["queue"].isin(queues)]
    width, length = source.window.bucket_s, source.window.length_s
    spent = done.groupby("bucket_at")["busy_s"].sum()
    if spent.empty:
        return 0.0, 0
    index = ((spent.index - pd.Timestamp(source.window.since)).total_seconds() // width).astype(int)
    by_number = pd.Series(spent.to_numpy(), index=index)
    smooth = by_number.reindex(range(int(index.min()), int(index.max()) + 1), fill_value=0.0)
    most = float(smooth.rolling(min(3, len(smooth))).mean().max()) / min(width, length)
    return float(spent.sum()), math.ceil(most - 0.05)


def limits(source: Source) -> dict[str, int]:
    """How many of a queue may run at once, where that is limited. Limits of keys are not known to a replay."""
    found = source.frame("limits")
    mine = found[(found["scope"] == "queue") & found["concurrency"].notna()]
    return {
        str(row.name_): int(row.concurrency) for row in mine.rename(columns={"name": "name_"}).itertuples()
    }


def measured(source: Source, queues: Sequence[str] | None) -> list[float | None]:
    """p50, p95 and p99 of the waits from due to begun, in seconds."""
    bins = _waits(source, queues)
    found = [m.percentile(bins, q) for q in QUANTILES]
    return [None if ms is None else ms / 1000 for ms in found]


def way_s(source: Source, queues: Sequence[str] | None) -> float:
    """What a task needs to a slot that is idle: a twentieth needed less; half a second at most."""
    ms = m.percentile(_waits(source, queues), WAY_Q)
    return min((ms or 0.0) / 1000, WAY_MOST_S)


def turn_s(source: Source, queues: Sequence[str] | None) -> float:
    """What a slot needs from one run to the next, on average; 0 where no task ever stood ready."""
    found = source.frame("turns")
    return (m.mean_ms(found if queues is None else found[found["queue"].isin(queues)]) or 0.0) / 1000


def _waits(source: Source, queues: Sequence[str] | None) -> pd.DataFrame:
    found = source.frame("waits")
    found = found[found["stage"] == "due_to_started"]
    return found if queues is None else found[found["queue"].isin(queues)]


def backlog(source: Source, queues: Sequence[str] | None) -> tuple[int | None, float | None]:
    """The largest backlog that a scheduler wrote down, and how long it took from there to none."""
    found = source.frame("samples")
    found = found if queues is None else found[found["queue"].isin(queues)]
    waiting = (found["due_max"] + found["queued_max"].fillna(0)).groupby(found["bucket_at"]).sum()
    if waiting.empty:
        return None, None
    peak = waiting.idxmax()
    after = waiting[(waiting.index > peak) & (waiting <= 0)]
    most = int(waiting.max())
    if most == 0:
        return 0, 0.0
    return most, (after.index[0] - peak).total_seconds() if len(after) else None
