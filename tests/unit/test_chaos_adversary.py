"""The adversary's plan and the load of the chaos run: fixed by the seed, complete, and within the time of the run."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from bench.chaos.adversary import EDGE, SECONDS, SERVER_ONLY, WEIGHTS, plan
from bench.chaos.load import MIX, one_task


def test_a_seed_replays_the_same_faults() -> None:
    assert plan(7, 300, 150) == plan(7, 300, 150)
    assert plan(7, 300, 150) != plan(8, 300, 150)


@pytest.mark.parametrize("seed", range(20))
def test_every_kind_comes_and_none_outlasts_the_run(seed: int) -> None:
    faults = plan(seed, 300, 150)
    assert len(faults) == 150
    assert {fault.kind for fault in faults} == set(WEIGHTS)
    assert [fault.at for fault in faults] == sorted(fault.at for fault in faults)
    for fault in faults:
        assert 300 * EDGE <= fault.at <= 300 * (1 - EDGE)
        assert fault.at + fault.seconds <= 300
        assert (fault.seconds > 0) == (fault.kind in SECONDS)


def test_some_workers_stand_still_for_longer_than_it_takes_to_be_declared_dead() -> None:
    frozen = [fault.seconds for fault in plan(1, 300, 150) if fault.kind == "freeze worker"]
    assert any(seconds > 15 for seconds in frozen)
    assert any(seconds < 10 for seconds in frozen)


def test_a_file_suffers_nothing_that_only_a_server_can() -> None:
    kinds = {fault.kind for fault in plan(3, 300, 150, server=False)}
    assert kinds == set(WEIGHTS) - SERVER_ONLY


@pytest.mark.parametrize("faults", [0, 1, 5])
def test_few_faults_are_of_different_kinds(faults: int) -> None:
    assert len({fault.kind for fault in plan(1, 10, faults)}) == faults


def test_a_seed_replays_the_same_load() -> None:
    first, second = random.Random(5), random.Random(5)
    tasks = [one_task(first) for _ in range(2000)]
    assert tasks == [one_task(second) for _ in range(2000)]
    assert set(Counter(task["code"] for task in tasks)) == set(MIX)
