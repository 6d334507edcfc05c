"""The figures from which a backlog is judged, about the queue in which most waits."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pandas as pd

from taskkit.analytics import measures as m
from taskkit.analytics.rules.base import patience
from taskkit.analytics.source import Source
from taskkit.states import Status

FRICTION = 0.9
"""What is left of the ideal rate in the field: 150 of 167 a second were reported with 50 workers."""
CRAWL_MS = 5000.0
MANY_SLOTS = 20
ENOUGH_RUNS = 20
NO_INSTANT = pd.NaT


@dataclass(frozen=True, slots=True, kw_only=True)
class BacklogFacts:
    """Counts are of one queue; rates are of the recent part of the window; None is not known."""

    queue: str
    code: str
    patience: float
    due: int
    queued: int
    limited: int
    oldest_age_s: float | None
    arrived: int
    finished: int
    finished_lately: int
    arrival_per_s: float
    service_per_s: float | None
    workers: int
    serving: int
    slots: int
    busy: int
    idle_elsewhere: int
    progress_age_s: float | None
    schedulers: int
    scan_age_s: float | None
    mean_ms: float | None
    normal_ms: float | None
    normal_is_old: bool
    slow_ms: float | None
    slow_since: str | None
    again_share: float | None
    failed_share: float | None
    hottest: float | None
    scheduler_per_s: float | None
    limit_per_s: float | None

    @property
    def waiting(self) -> int:
        """Due in SQL, queued in the broker, and held by a limit."""
        return self.due + self.queued + self.limited

    @property
    def busy_share(self) -> float | None:
        """How many of the slots run something, in percent."""
        return m.share(self.busy, self.slots)

    @property
    def capacity_per_s(self) -> float | None:
        """What the slots can do at best, at the present time of a task."""
        return self.rate_with(self.slots) if self.slots else None

    @property
    def drain_now_s(self) -> float | None:
        """Until nothing waits, as things are; None when it never comes to that."""
        measured = self.service_per_s if self.finished_lately else None
        return m.drain_s(self.waiting, measured or self.capacity_per_s, self.arrival_per_s)

    @property
    def slower(self) -> float | None:
        """How many times its normal the code takes now."""
        return m.ratio(self.slow_ms, self.normal_ms)

    @property
    def crawls(self) -> bool:
        """Many slots, all busy, and yet hardly anything comes out, with no normal to compare with."""
        slow = self.mean_ms is not None and self.mean_ms >= CRAWL_MS
        return not self.normal_is_old and slow and self.slots >= MANY_SLOTS

    @property
    def next_bound_per_s(self) -> float | None:
        """The lowest of the known bounds that are not the workers."""
        return min((r for r in (self.scheduler_per_s, self.limit_per_s) if r is not None), default=None)

    def settles(self, limit_s: float, grace_s: float) -> bool:
        """Whether what waits is young, and will be done in time; without a worker or scheduler only very young."""
        if not self.waiting:
            return True
        if self.waited(limit_s):
            return False
        if not self.serving or not self.schedulers:
            return not self.waited(grace_s)
        rate = max(self.service_per_s or 0, self.capacity_per_s or 0)
        return rate > 0 and self.waiting / rate <= limit_s * self.patience

    def waited(self, limit_s: float) -> bool:
        """Whether the oldest has waited longer than so many seconds at the usual pace."""
        return (self.oldest_age_s or 0) > limit_s * self.patience

    def idle(self, percent: float) -> bool:
        """Whether fewer than so many percent of the slots are busy."""
        return self.busy_share is not None and self.busy_share < percent

    def rate_with(self, slots: int | None) -> float | None:
        """What so many slots can do at best."""
        return None if slots is None or not self.mean_ms else 1000.0 * slots / self.mean_ms

    def likely_with(self, slots: int | None) -> float | None:
        """What so many slots will do in the field."""
        best = self.rate_with(slots)
        return None if best is None else best * FRICTION

    def drain_with(self, slots: int | None, *, bounded: bool = False) -> float | None:
        """Until nothing waits with so many slots; ``bounded`` by the next bound as it is now."""
        rate = self.likely_with(slots)
        if bounded:
            rates = [r for r in (rate, self.next_bound_per_s) if r is not None]
            rate = min(rates, default=None)
        return m.drain_s(self.waiting, rate, self.arrival_per_s)

    def slots_for(self, seconds: float) -> int | None:
        """How many slots drain what waits in so many seconds, beside what arrives; never fewer than there are."""
        if not self.mean_ms:
            return None
        wanted = self.waiting / seconds + self.arrival_per_s
        return max(self.slots, math.ceil(wanted * self.mean_ms / 1000.0 / FRICTION))


def look(source: Source) -> BacklogFacts:
    """Measure the queue in which most waits."""
    waiting = waiting_by_queue(source)
    queue = (
        str(waiting["waiting"].idxmax())
        if len(waiting) and waiting["waiting"].max() > 0
        else _busiest(source)
    )
    row = waiting.loc[queue].to_dict() if queue in waiting.index else {}
    window, now = source.window, source.now
    lately = m.recent(window.since, window.until, window.bucket_s)
    return BacklogFacts(
        queue=queue,
        patience=patience(source),
        due=int(row.get("due", 0)),
        queued=int(row.get("queued", 0)),
        limited=int(row.get("limited", 0)),
        oldest_age_s=m.age_s(row.get("oldest", NO_INSTANT), now),
        **_flow(source, queue, lately),
        **_people_at_work(source, queue),
        **_times(source, queue, lately),
        hottest=_hottest(source, queue),
        scheduler_per_s=_scheduler_rate(source),
        limit_per_s=_limit_rate(source, queue),
    )


def waiting_by_queue(source: Source) -> pd.DataFrame:
    """due, queued, limited, waiting and oldest of each queue, by name."""
    tasks, lines = source.frame("tasks"), source.frame("limit_lines")
    due = tasks[tasks["status"].isin([int(Status.PENDING), int(Status.FAILED)])]
    queued = tasks[tasks["status"] == int(Status.DISPATCHED)]
    held = lines[lines["state"].isin([0, 1])]
    both = pd.concat([due, queued])
    found = pd.DataFrame({
        "due": due.groupby("queue")["due"].sum(),
        "queued": queued.groupby("queue")["tasks"].sum(),
        "limited": held.groupby("queue")["tasks"].sum(),
    }).fillna(0)  # fmt: skip
    found["waiting"] = found["due"] + found["queued"] + found["limited"]
    found["oldest"] = pd.concat([
        both[["queue", "oldest_due_at"]].rename(columns={"oldest_due_at": "at"}),
        held[["queue", "oldest_at"]].rename(columns={"oldest_at": "at"}),
    ]).groupby("queue")["at"].min()  # fmt: skip
    return found.sort_index()


def _busiest(source: Source) -> str:
    done = source.frame("finishes").groupby("queue")["finished"].sum()
    return str(done.idxmax()) if len(done) else ""


def _flow(source: Source, queue: str, lately: datetime) -> dict[str, Any]:
    arrivals, finishes = (_of(source.frame(name), queue) for name in ("arrivals", "finishes"))
    until = source.window.until
    ended = m.between(finishes, lately, until)
    failed = int(ended[["failed", "timed_out", "lost_running"]].sum().sum())
    finished = int(ended["finished"].sum())
    return {
        "arrived": int(arrivals["arrived"].sum()),
        "finished": int(finishes["finished"].sum()),
        "finished_lately": finished,
        "arrival_per_s": m.per_s(arrivals, "arrived", lately, until) or 0.0,
        "service_per_s": m.per_s(finishes, "finished", lately, until),
        "again_share": m.share(int(ended["again"].sum()), finished),
        "failed_share": m.share(failed, finished),
    }


def _people_at_work(source: Source, queue: str) -> dict[str, Any]:
    """Workers and schedulers."""
    alive = m.alive(source.frame("workers"), source.now, patience(source))
    serving = m.serving(alive, queue)
    others = alive[~alive["worker_id"].isin(serving["worker_id"])]
    schedulers = source.frame("schedulers")
    return {
        "workers": len(alive),
        "serving": len(serving),
        "slots": int(serving["processes"].sum()),
        "busy": int(serving["busy"].sum()),
        "idle_elsewhere": int((others["processes"] - others["busy"]).clip(lower=0).sum()),
        "progress_age_s": m.age_s(serving["last_progress_at"].max(), source.now),
        "schedulers": schedulers_alive(source),
        "scan_age_s": m.age_s(schedulers["last_scan_at"].max(), source.now),
    }


def schedulers_alive(source: Source) -> int:
    """How many schedulers have a fresh heartbeat."""
    schedulers = source.frame("schedulers")
    beating = m.beating(schedulers, source.now, patience(source))
    return int((beating & schedulers["stopped_at"].isna()).sum())


def _times(source: Source, queue: str, lately: datetime) -> dict[str, Any]:
    """How long tasks of the queue take, and whether the code that takes most of the time has become slower."""
    bins = _of(source.frame("service_times"), queue)
    now = m.between(bins, lately, source.window.until)
    now = now if int(now["runs"].sum()) else bins
    spent = now.groupby("task_code")["sum_ms"].sum()
    code = str(spent.idxmax()) if len(spent) else queue
    mine, normal = bins[bins["task_code"] == code], source.frame("service_normal")
    normal = normal[normal["task_code"] == code]
    old = int(normal["runs"].sum()) >= ENOUGH_RUNS
    if not old:
        third = source.window.since + (lately - source.window.since) / 3
        normal = mine[mine["bucket_at"] < pd.Timestamp(third)]
    normal_ms = m.percentile(normal, 0.5) if int(normal["runs"].sum()) >= ENOUGH_RUNS else None
    slow_ms = m.percentile(now[now["task_code"] == code], 0.5)
    slow = slow_ms is not None and normal_ms is not None and slow_ms >= 2 * normal_ms
    since = slow_since(mine, normal_ms) if slow else None
    return {
        "code": code,
        "mean_ms": m.mean_ms(now),
        "normal_ms": normal_ms,
        "normal_is_old": old,
        "slow_ms": slow_ms,
        "slow_since": since,
    }


def slow_since(bins: pd.DataFrame, normal_ms: float | None) -> str | None:
    """The first bucket from which on the median stays over one and a half times the normal."""
    if normal_ms is None or bins.empty:
        return None
    medians = [(at, m.percentile(part, 0.5) or 0.0) for at, part in bins.groupby("bucket_at")]
    start = None
    for at, median in medians:
        start = (start or at) if median > 1.5 * normal_ms else None
    return None if start is None else pd.Timestamp(start).isoformat()


def _hottest(source: Source, queue: str) -> float | None:
    """How many times the average of the others waits in the fullest list of a split queue."""
    shards, lists = _of(source.frame("shards"), queue), _of(source.frame("lists"), queue)
    count = int(shards["shards"].max()) if len(shards) else 1
    if count < 2 or lists.empty:
        return None
    most = int(lists["queued"].max())
    others = (int(lists["queued"].sum()) - most) / (count - 1)
    return most / max(others, 1.0)


def _scheduler_rate(source: Source) -> float | None:
    """Rows a scan by scans a second, where both are known."""
    facts = dict(source.frame("facts").itertuples(index=False, name=None))
    try:
        return float(facts["scheduler_batch"]) / float(facts["scheduler_pause_s"])
    except (KeyError, ValueError, ZeroDivisionError):
        return None


def _limit_rate(source: Source, queue: str) -> float | None:
    limits = source.frame("limits")
    mine = limits[(limits["scope"] == "queue") & (limits["name"] == queue) & limits["rate"].notna()]
    return float((mine["rate"] / mine["period_s"]).min()) if len(mine) else None


def _of(frame: pd.DataFrame, queue: str) -> pd.DataFrame:
    return frame[frame["queue"] == queue]
