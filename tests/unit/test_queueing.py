"""The replay's queue against theory and against a plain simulation: M/M/c, M/G/1, priorities, limits, changing slots."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from taskkit.analytics import measures as m
from taskkit.analytics.whatif import queueing as q


def poisson(rate: float, n: int, seed: int = 1) -> q.Floats:
    return np.cumsum(np.random.default_rng(seed).exponential(1 / rate, n))


def quantiles(waits: q.Floats) -> list[float]:
    return [float(np.quantile(waits, one)) for one in (0.5, 0.95, 0.99)]


@pytest.mark.parametrize(("slots", "load"), [(1, 0.7), (5, 0.8), (20, 0.85)])
def test_waits_are_those_of_erlang_c(slots: int, load: float) -> None:
    service, found = 0.3, []
    for seed in range(4):
        arrive = poisson(slots * load / service, 200_000, seed)
        lengths = np.random.default_rng(seed + 100).exponential(service, len(arrive))
        found.append(q.starts(arrive, lengths, q.Slots([0.0] * slots)) - arrive)
    waits = np.concatenate(found)
    assert float((waits > 0).mean()) == pytest.approx(m.erlang_c(slots * load, slots), rel=0.05)
    wanted = [m.erlang_wait_s(slots * load, slots, service, one) for one in (0.95, 0.99)]
    assert quantiles(waits)[1:] == pytest.approx(wanted, rel=0.1)


@pytest.mark.parametrize("spread", [0.0, 1.0, 2.0])
def test_the_mean_wait_of_one_slot_is_that_of_pollaczek_and_khinchine(spread: float) -> None:
    service, load, n = 0.1, 0.7, 800_000
    arrive, rng = poisson(load / service, n), np.random.default_rng(3)
    lengths = np.full(n, service) if not spread else rng.gamma(1 / spread, service * spread, n)
    waits = q.starts(arrive, lengths, q.Slots([0.0])) - arrive
    wanted = load / (1 - load) * (1 + spread) / 2 * service
    assert float(waits.mean()) == pytest.approx(wanted, rel=0.06)


def plainly(
    arrive: list[float],
    service: list[float],
    rank: list[int],
    group: list[int],
    slots: int,
    limits: dict[int, int],
) -> list[float]:
    """The same by looking at everything at every instant at which anything happens."""
    begun = [math.inf] * len(arrive)
    instants = set(arrive)
    while instants:
        now = min(instants)
        instants.remove(now)
        while True:
            running = [i for i, at in enumerate(begun) if at <= now < at + service[i]]
            able = [
                (rank[i], i)
                for i, at in enumerate(arrive)
                if at <= now
                and begun[i] == math.inf
                and sum(group[j] == group[i] for j in running) < limits.get(group[i], len(arrive))
            ]
            if len(running) >= slots or not able:
                break
            one = min(able)[1]
            begun[one] = now
            instants.add(now + service[one])
    return begun


@pytest.mark.parametrize("seed", range(20))
def test_priorities_and_limits_are_kept_as_a_plain_simulation_keeps_them(seed: int) -> None:
    rng = random.Random(seed)
    n, slots = 60, rng.randint(1, 4)
    arrive = sorted(rng.uniform(0, 20) for _ in range(n))
    service = [rng.uniform(0.2, 2) for _ in range(n)]
    rank = [rng.randint(0, 2) for _ in range(n)]
    group = [rng.randint(0, 2) for _ in range(n)]
    limits = {0: 1, 1: 2}
    a, s, r, g = np.array(arrive), np.array(service), np.array(rank), np.array(group)
    same = [0] * n
    free = [0.0] * slots
    assert q.starts(a, s, q.Slots(free)).tolist() == plainly(arrive, service, same, same, slots, {})
    ranked = plainly(arrive, service, rank, same, slots, {})
    assert q.starts_by_rank(a, s, r, q.Slots(free)).tolist() == ranked
    assert q.starts_limited(a, s, r, np.array(same), q.Slots(free), {}).tolist() == ranked
    limited = plainly(arrive, service, rank, group, slots, limits)
    assert q.starts_limited(a, s, r, g, q.Slots(free), limits).tolist() == limited


def test_slots_open_and_close_while_tasks_wait() -> None:
    arrive, service = np.zeros(6), np.full(6, 10.0)
    for begin in (
        q.starts(arrive, service, q.Slots([0.0, 0.0, 25.0], [5.0])),
        q.starts_by_rank(arrive, service, np.zeros(6, dtype=np.int64), q.Slots([0.0, 0.0, 25.0], [5.0])),
        q.starts_limited(
            arrive, service, *[np.zeros(6, dtype=np.int64)] * 2, q.Slots([0.0, 0.0, 25.0], [5.0]), {}
        ),
    ):
        assert begin.tolist() == [0, 0, 10, 20, 25, 30]


def test_what_no_slot_ever_takes_waits_for_ever() -> None:
    arrive, service, zero = np.array([0.0, 1.0, 2.0]), np.ones(3), np.zeros(3, dtype=np.int64)
    for begin in (
        q.starts(arrive, service, q.Slots([0.0], [1.0])),
        q.starts_by_rank(arrive, service, zero, q.Slots([0.0], [1.0])),
        q.starts_limited(arrive, service, zero, zero, q.Slots([0.0], [1.0]), {0: 1}),
    ):
        assert begin.tolist() == [0, math.inf, math.inf]
        assert q.empty_after(arrive, begin, 2.0) is None
    assert q.starts(arrive, service, q.Slots([])).tolist() == [math.inf] * 3


def test_the_largest_backlog_and_when_it_is_gone() -> None:
    arrive = np.array([0.0, 0.0, 0.0, 1.0, 50.0])
    begin = q.starts(arrive, np.full(5, 2.0), q.Slots([0.0]))
    assert q.largest_backlog(arrive, begin) == (3, 1.0)
    assert q.empty_after(arrive, begin, 1.0) == 6.0
    assert q.largest_backlog(arrive[:0], begin[:0]) == (0, 0.0)
