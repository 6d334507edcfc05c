"""Measures: pure functions over frames. What cannot be said is None, never 0."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import datetime, timedelta

import pandas as pd

from taskkit.beats import FRESH_S

HEARTBEAT_S = 5.0


def share(part: float, whole: float) -> float | None:
    """``part`` of ``whole`` in percent; None of nothing."""
    return 100.0 * part / whole if whole else None


def ratio(one: float | None, other: float | None) -> float | None:
    """How many times ``other`` goes into ``one``; None where that means nothing."""
    return one / other if one is not None and other else None


def percentile(bins: pd.DataFrame, q: float) -> float | None:
    """The ``q``-th part (0 to 1) of the runs in ``bins`` took so many milliseconds at most; right to 2.5 %."""
    if bins.empty:
        return None
    ordered = bins.sort_values("bin")
    wanted = max(1, math.ceil(q * int(ordered["runs"].sum())))
    reached = ordered["bin"].iloc[int((ordered["runs"].cumsum() < wanted).sum())]
    there = ordered[ordered["bin"] == reached]
    low, high = float(there["min_ms"].min()), float(there["max_ms"].max())
    return math.sqrt(low * high) if low > 0 else high / 2


def mean_ms(bins: pd.DataFrame) -> float | None:
    """The exact mean of the runs in ``bins``, in milliseconds."""
    runs = int(bins["runs"].sum())
    return float(bins["sum_ms"].sum()) / runs if runs else None


def per_s(frame: pd.DataFrame, column: str, since: datetime, until: datetime) -> float | None:
    """The mean rate of ``column`` in [since, until); 0 when nothing happened there, None when it has no length."""
    seconds = (until - since).total_seconds()
    return float(between(frame, since, until)[column].sum()) / seconds if seconds > 0 else None


def between(frame: pd.DataFrame, since: datetime, until: datetime) -> pd.DataFrame:
    """The buckets that begin in [since, until)."""
    at = frame["bucket_at"]
    return frame[(at >= pd.Timestamp(since)) & (at < pd.Timestamp(until))]


def recent(since: datetime, until: datetime, bucket_s: int) -> datetime:
    """Where the recent part of a window begins, on a bucket: a tenth of it, and five buckets at least."""
    length = (until - since).total_seconds()
    wanted = min(length, max(length / 10, 5 * bucket_s))
    start = math.floor((until.timestamp() - wanted) / bucket_s) * bucket_s
    return max(since, datetime.fromtimestamp(start, until.tzinfo))


def pace(facts: pd.DataFrame) -> float:
    """By how much the patience of diagnoses is longer or shorter here: it is counted in heartbeats, of 5 s by default."""
    told = dict(facts.itertuples(index=False, name=None)).get("worker_heartbeat_s")
    try:
        beat = float(told or HEARTBEAT_S)
    except ValueError:
        return 1.0
    return beat / HEARTBEAT_S if 0 < beat < math.inf else 1.0


def beating(nodes: pd.DataFrame, now: datetime, patience: float) -> pd.Series[bool]:
    """Whose heartbeat is fresh."""
    return nodes["heartbeat_at"] >= pd.Timestamp(now - timedelta(seconds=FRESH_S * patience))


def fresh_s(facts: pd.DataFrame) -> float:
    """So old a heartbeat may be here, at the pace of these facts."""
    return FRESH_S * pace(facts)


def alive(workers: pd.DataFrame, now: datetime, patience: float) -> pd.DataFrame:
    """Workers with a fresh heartbeat that have not signed off and were not declared dead; each once."""
    workers = workers.drop_duplicates("worker_id")
    fresh = beating(workers, now, patience)
    return workers[fresh & workers["stopped_at"].isna() & workers["lost_at"].isna()]


def serving(workers: pd.DataFrame, queue: str) -> pd.DataFrame:
    """Those that serve the queue."""
    wanted = [serves(str(queues or ""), [queue]) for queues in workers["queues"]]
    return workers[pd.Series(wanted, index=workers.index, dtype=bool)]


def serves(served: str, queues: Iterable[str]) -> bool:
    """Whether a worker that serves these takes from one of those queues."""
    return any(name.strip() in {*queues, "*"} for name in served.split(","))


def age_s(at: object, now: datetime) -> float | None:
    """Seconds from an instant to now, 0 from one that was written since then; None from nothing."""
    return None if pd.isna(at) else max(0.0, (pd.Timestamp(now) - pd.Timestamp(at)).total_seconds())


def age_of_first(instants: Iterable[object], now: datetime) -> float | None:
    """The age of the oldest of these instants."""
    ages = [age for at in instants if (age := age_s(at, now)) is not None]
    return max(ages, default=None)


def drain_s(waiting: float, service: float | None, arrival: float | None) -> float | None:
    """Seconds until nothing waits, at these rates; None when it never comes to that."""
    net = None if service is None else service - (arrival or 0.0)
    if waiting <= 0:
        return 0.0
    return waiting / net if net is not None and net > 0 else None


def erlang_c(erlangs: float, slots: int) -> float | None:
    """The part of arrivals (0 to 1) that must wait with so many slots; None when the queue grows without end."""
    if slots <= 0 or erlangs >= slots:
        return None
    blocked = 1.0
    for n in range(1, slots + 1):
        blocked = erlangs * blocked / (n + erlangs * blocked)
    return blocked / (1 - erlangs / slots * (1 - blocked))


def erlang_wait_s(erlangs: float, slots: int, service_s: float, q: float) -> float | None:
    """The ``q``-th part of arrivals wait so many seconds at most, by Erlang C."""
    waits = erlang_c(erlangs, slots)
    if waits is None:
        return None
    return 0.0 if waits <= 1 - q else math.log(waits / (1 - q)) * service_s / (slots - erlangs)


def slots_for(erlangs: float, service_s: float, q: float, limit_s: float) -> int:
    """The fewest slots with which the ``q``-th part of arrivals waits so many seconds at most."""
    slots = max(1, math.floor(erlangs) + 1)
    while (erlang_wait_s(erlangs, slots, service_s, q) or 0.0) > limit_s:
        slots += 1
    return slots
