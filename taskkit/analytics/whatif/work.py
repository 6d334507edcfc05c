"""The tasks of a replay, from the frame ``load``: when each arrives, how long it takes, and what it belongs to. Pure.

Instants within a slot of time are drawn, lengths too, but for a group of one task, whose length is known; of larger
groups the sum is kept. The same seed gives the same tasks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from taskkit.analytics.whatif.queueing import Floats, Ints

LEAST_S = 1e-9
NEAR = 50
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Work:
    """All arrays by task, in the order of arrival; seconds are counted from the beginning of the window."""

    arrive: Floats
    service: Floats
    rank: Ints
    queue: Ints
    code: Ints
    judged: Flags
    """Whether its wait counts: those whose wait was measured in the past."""
    carried: Flags
    batch: Flags
    """Whether it came with more others than chance explains."""
    queues: list[str]

    def taken(self, index: Ints, arrive: Floats, service: Floats) -> Work:
        """The tasks of these numbers with new instants and lengths, in order again."""
        order = np.argsort(arrive, kind="stable")
        index = index[order]
        return Work(
            arrive=arrive[order],
            service=service[order],
            rank=self.rank[index],
            queue=self.queue[index],
            code=self.code[index],
            judged=self.judged[index],
            carried=self.carried[index],
            batch=self.batch[index],
            queues=self.queues,
        )


def expand(load: pd.DataFrame, bins: pd.DataFrame, *, span_s: float = 60.0, seed: int = 1) -> Work:
    """The single tasks of the groups in ``load``; ``bins`` say how the lengths of a code spread.

    What came with more others than chance explains, at the rate of the ``span_s`` around, is a batch.
    """
    rng = np.random.default_rng(seed)
    load = load[load["tasks"] > 0].reset_index(drop=True)
    tasks = load["tasks"].to_numpy(dtype="int64")
    group = np.repeat(np.arange(len(load)), tasks)
    carried = (load["kind"] == "carried").to_numpy()
    width = load["slot_ms"].to_numpy(dtype="float64")[group] / 1000
    arrive = load["arrive_ms"].to_numpy(dtype="float64")[group] / 1000 + rng.random(len(group)) * width
    queues, queue = np.unique(load["queue"].astype(str).to_numpy(), return_inverse=True)
    _, code = np.unique(load["task_code"].astype(str).to_numpy(), return_inverse=True)
    rank = np.where(carried, 0, load["priority"].to_numpy(dtype="int64") + 1)
    made = Work(
        arrive=arrive,
        service=_lengths(load, bins, group, rng),
        rank=rank[group],
        queue=queue.astype("int64")[group],
        code=code.astype("int64")[group],
        judged=(load["kind"] == "first").to_numpy()[group],
        carried=carried[group],
        batch=_batches(load, span_s)[group],
        queues=[str(name) for name in queues],
    )
    return made.taken(np.arange(len(group)), np.where(carried[group], 0.0, arrive), made.service)


def multiplied(work: Work, times: float, apart_s: float, seed: int = 2) -> Work:
    """So many times as many tasks, but for those that ran before the window.

    A further copy comes within ``apart_s`` of the task, since two users do not act as one, and takes as long as a task
    of its code around that time; the copies of a batch come with it.
    """
    rng = np.random.default_rng(seed)
    total = len(work.arrive)
    exact = np.where(work.carried, 1.0, times)
    copies = np.floor(exact).astype("int64") + (rng.random(total) < exact % 1)
    index = np.repeat(np.arange(total), copies)
    further = np.arange(len(index)) - (np.cumsum(copies) - copies)[index] > 0
    moved = further & ~work.batch[index]
    arrive = work.arrive[index] + moved * (rng.random(len(index)) - 0.5) * apart_s
    return work.taken(
        index, arrive, np.where(further, work.service[_others(work, rng)[index]], work.service[index])
    )


def _others(work: Work, rng: np.random.Generator) -> Ints:
    """For each task the number of one of its code that came a little before or after it."""
    found = np.arange(len(work.arrive))
    for code in np.unique(work.code):
        mine = np.flatnonzero(work.code == code)
        near = np.arange(len(mine)) + rng.integers(-NEAR, NEAR + 1, len(mine))
        found[mine] = mine[np.abs(near) % len(mine)]
    return found


def _batches(load: pd.DataFrame, span_s: float) -> Flags:
    """Which groups are larger than chance would make them, at the rate of the time around them."""
    tasks = load["tasks"].to_numpy(dtype="float64")
    part = np.floor(load["arrive_ms"].to_numpy(dtype="float64") / 1000 / span_s).astype("int64")
    _, place = np.unique(part, return_inverse=True)
    usual = np.bincount(place, tasks)[place] * load["slot_ms"].to_numpy(dtype="float64") / 1000 / span_s
    return np.asarray(tasks > usual + 4 * np.sqrt(usual) + 3)


def _lengths(load: pd.DataFrame, bins: pd.DataFrame, group: Ints, rng: np.random.Generator) -> Floats:
    """Seconds of each task: drawn by code, then stretched so that each group takes as long as it did."""
    drawn = np.empty(len(group))
    codes = load["task_code"].astype(str).to_numpy()
    for code in np.unique(codes):
        mine = (codes == code)[group]
        drawn[mine] = _draw(bins[bins["task_code"] == code], int(mine.sum()), rng)
    sum_s = load["service_ms"].to_numpy(dtype="float64") / 1000
    mean = sum_s / load["tasks"].to_numpy(dtype="float64")
    unknown = np.isnan(drawn)
    drawn[unknown] = np.where(np.isnan(mean), _overall(load), mean)[group][unknown]
    sums = np.bincount(group, weights=drawn, minlength=len(load))
    stretch = np.where(np.isnan(sum_s), 1.0, sum_s / np.maximum(sums, LEAST_S))
    return drawn * stretch[group]


def _draw(bins: pd.DataFrame, n: int, rng: np.random.Generator) -> Floats:
    """Lengths as the bins have them, in seconds; not a number where there are none."""
    runs = bins["runs"].to_numpy(dtype="float64")
    if not runs.sum():
        return np.full(n, np.nan)
    middle = bins["sum_ms"].to_numpy(dtype="float64") / np.maximum(runs, 1) / 1000
    return np.asarray(middle[rng.choice(len(runs), n, p=runs / runs.sum())])


def _overall(load: pd.DataFrame) -> float:
    """The mean of all that ended."""
    known = load[load["service_ms"].notna()]
    tasks = float(known["tasks"].sum())
    return float(known["service_ms"].sum()) / tasks / 1000 if tasks else 0.0
