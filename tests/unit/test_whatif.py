"""What-if from frames made by hand: the past again, more slots, more load, limits, queues that share slots, and nothing."""

from __future__ import annotations

import math
from collections import Counter
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

from taskkit.analytics import measures as m
from taskkit.analytics.whatif import WhatIf, past, queueing, showing, whatif
from taskkit.analytics.whatif.replaying import error
from taskkit.errors import InputError
from tests.incidents import NOW, SINCE, arrived, finished, given, times, worker

HOUR = 3600.0
SERVICE = 0.25
Rows = list[dict[str, Any]]


def group(
    at_s: float,
    tasks: int,
    service_s: float | None = 1.0,
    *,
    queue: str = "push",
    priority: int = 5,
    **more: Any,
) -> dict[str, Any]:
    """Some tasks that arrived in one slot of time."""
    total = None if service_s is None else 1000 * tasks * service_s
    fixed = {"slot_ms": 10, "queue": queue, "task_code": queue, "kind": "first", "service_ms": total}
    return {"arrive_ms": int(1000 * at_s), "priority": priority, "tasks": tasks} | fixed | more


def binned(values_ms: queueing.Floats) -> Counter[int]:
    return Counter(-1 if ms < 1 else math.floor(math.log(ms) / math.log(1.05)) for ms in values_ms)


def bins(values_ms: queueing.Floats, **fields: Any) -> Rows:
    """These lengths as a frame has them."""
    return [
        {"bin": number, "runs": n, "min_ms": 1.05**number, "max_ms": 1.05 ** (number + 1), "sum_ms": n * 1.05 ** (number + 0.5)} | fields
        for number, n in binned(values_ms).items()
    ]  # fmt: skip


def random_hour(slots: int, load: float, slot_ms: int = 1000, seed: int = 1) -> dict[str, Rows]:
    """An hour of random arrivals on so many slots, as a task center would tell it."""
    rng = np.random.default_rng(seed)
    n = int(HOUR * slots * load / SERVICE)
    arrive, service = np.sort(rng.random(n)) * HOUR, rng.exponential(SERVICE, n)
    waits = queueing.starts(arrive, service, queueing.Slots([0.0] * slots)) - arrive
    number = (arrive * 1000 // slot_ms).astype(int)
    sums, counts = np.bincount(number, service), np.bincount(number)
    rows = [
        group(i * slot_ms / 1000, int(counts[i]), sums[i] / counts[i], slot_ms=slot_ms)
        for i in np.flatnonzero(counts)
    ]
    place = {"bucket_at": SINCE, "queue": "push"}
    return {
        "load": rows,
        "service_times": bins(service * 1000, task_code="push", **place),
        "waits": bins(waits * 1000, stage="due_to_started", **place),
        "finishes": [finished(n, SINCE, busy_s=float(service.sum()))],
        "workers": [worker(processes=slots)],
    }


@pytest.mark.parametrize(("slots", "load", "slot_ms"), [(5, 0.9, 1000), (5, 0.9, 42), (40, 0.97, 1000)])
def test_the_replay_of_an_hour_of_random_arrivals_is_within_15_percent(
    slots: int, load: float, slot_ms: int
) -> None:
    found = whatif(given(**random_hour(slots, load, slot_ms)), slots=[slots])
    assert found.measured.slots == slots
    assert abs(found.error_p50 or 0) <= 15, str(found)
    assert abs(found.error_p95 or 0) <= 15, str(found)
    (again, erlang), *_ = found.variants
    assert (again.wait_p50_s, again.wait_p95_s) == (found.replayed.wait_p50_s, found.replayed.wait_p95_s)
    assert erlang.wait_p95_s == pytest.approx(m.erlang_wait_s(slots * load, slots, SERVICE, 0.95), rel=0.1)


def test_twice_the_load_on_twice_the_slots_is_what_erlang_c_says() -> None:
    found = whatif(given(**random_hour(5, 0.75, 42)), slots=[10], load=2)
    ((line, erlang),) = found.variants
    assert line.tasks == 2 * (found.replayed.tasks or 0)
    assert line.busy_percent == pytest.approx(75, abs=2)
    assert line.wait_p95_s == pytest.approx(erlang.wait_p95_s, rel=0.25)


def test_a_batch_stays_a_batch_under_twice_the_load() -> None:
    source = given(
        load=[group(0, 100, 1.0), *(group(n, 1, 0.1) for n in range(600, 3000))],
        workers=[worker(processes=1)],
    )
    ((line, _),) = whatif(source, load=2).variants
    assert line.backlog == 199


def test_half_the_load_is_a_random_half() -> None:
    found = whatif(given(load=[group(n, 1) for n in range(1000)], workers=[worker(processes=1)]), load=0.5)
    ((line, _),) = found.variants
    assert 400 < (line.tasks or 0) < 600


def test_the_midnight_batch_is_drained_as_the_field_reports() -> None:
    """200,000 tasks of 300 ms: 3.3 hours with five workers, 20 minutes with fifty."""
    busy = {
        "load": [group(0, 200_000, 0.3)],
        "service_times": [times(300, 1000)],
        "workers": [worker(processes=5)],
    }
    found = whatif(given(**busy), slots=[50])
    assert found.replayed.backlog == pytest.approx(200_000, rel=0.001)
    assert found.replayed.drain_s == pytest.approx(12_000, rel=0.001)
    assert found.variants[0][0].drain_s == pytest.approx(1200, rel=0.001)
    assert found.variants[0][0].wait_p50_s == pytest.approx(600, rel=0.01)


def test_what_a_slot_needs_between_two_runs_is_part_of_the_replay() -> None:
    rows = {"load": [group(0, 1000, 0.1)], "workers": [worker(processes=1)]}
    turns = [{"queue": "push", "bin": 63, "runs": 100, "min_ms": 25.0, "max_ms": 25.0, "sum_ms": 2500.0}]
    assert whatif(given(**rows)).replayed.drain_s == pytest.approx(99.9, abs=0.2)
    assert whatif(given(**rows, turns=turns)).replayed.drain_s == pytest.approx(124.9, abs=0.2)


def test_workers_that_came_and_went_are_the_slots_of_the_past() -> None:
    half = SINCE + timedelta(minutes=30)
    workers = [
        worker(1, processes=1, stopped_at=half, heartbeat_at=half),
        worker(2, processes=1, heartbeat_at=half),
        worker(3, processes=2, started_at=half),
        worker(4, processes=9, queues="other"),
    ]
    load = [group(0, 3600, 1.0)]
    found = whatif(given(load=load, workers=workers), queue="push")
    assert found.replayed.slots == 2
    assert found.replayed.drain_s == pytest.approx(1800, abs=3)
    assert found.replayed.busy_percent == pytest.approx(50, abs=0.5)
    assert whatif(given(load=load, workers=workers), past_slots=4).replayed.drain_s == pytest.approx(
        900, abs=2
    )


def test_slots_that_the_workers_do_not_tell_are_those_that_were_busy() -> None:
    done = [finished(240, SINCE + timedelta(seconds=30 * n), busy_s=240.0) for n in range(120)]
    found = whatif(
        given(
            load=[group(n, 8, 1.0, slot_ms=1000) for n in range(3600)],
            finishes=done,
            workers=[worker(processes=2)],
        )
    )
    assert (found.replayed.slots, found.slots_known_by) == (8, "runs")
    assert found.measured.busy_percent == pytest.approx(100)


def test_a_queue_is_judged_with_those_that_share_its_slots_and_without_the_others() -> None:
    load = [
        group(0, 100, queue="mail", priority=0),
        group(0, 10, queue="push"),
        group(0, 500, queue="report"),
    ]
    workers = [worker(1, queues="mail,push", processes=1), worker(2, queues="report", processes=1)]
    found = whatif(given(load=load, workers=workers), queue="push")
    assert found.sharing == ("mail", "push")
    assert found.replayed.tasks == 110
    assert found.replayed.wait_p50_s == pytest.approx(104, abs=0.5)
    assert "mail share its slots" in str(found)


def test_limits_in_force_hold_and_may_be_others() -> None:
    limits = [{"scope": "queue", "name": "push", "concurrency": 1}]
    source = given(load=[group(0, 100, 1.0)], workers=[worker(processes=10)], limits=limits)
    drains = {n: whatif(source, limits={"push": n}).variants[0][0].drain_s for n in (2, 5, None)}
    assert whatif(source).replayed.drain_s == pytest.approx(99, abs=0.1)
    assert drains == {n: pytest.approx(d, abs=0.1) for n, d in {2: 49, 5: 19, None: 9}.items()}


def test_what_nobody_ever_takes_has_no_wait_and_is_counted() -> None:
    gone = worker(processes=1, stopped_at=SINCE + timedelta(seconds=50))
    found = whatif(given(load=[group(0, 100, 1.0)], workers=[gone]))
    assert (found.replayed.wait_p95_s, found.replayed.drain_s, found.replayed.never) == (None, None, 50)
    assert "50 tasks wait without end" in str(found)


def test_what_waits_or_runs_now_takes_as_long_as_its_code_does() -> None:
    load = [
        group(0, 10, 2.0),
        group(1, 10, None, kind="waiting"),
        group(1, 5, None, kind="running", queue="new"),
    ]
    found = whatif(
        given(load=load, service_times=[times(2000, 10)], workers=[worker(processes=1)]), queue=None
    )
    assert found.replayed.drain_s == pytest.approx(47, abs=0.2)


def test_what_ran_before_the_window_holds_its_slot_and_is_not_judged() -> None:
    load = [group(0, 1, 100.0, kind="carried"), group(1, 1, 1.0)]
    found = whatif(given(load=load, workers=[worker(processes=1)]))
    assert found.replayed.wait_p50_s == pytest.approx(99, abs=0.1)


@pytest.mark.parametrize("frames", [{}, {"arrivals": [arrived(5)]}, {"workers": [worker()]}])
def test_of_nothing_there_is_nothing_to_replay_ana_01(frames: dict[str, Rows]) -> None:
    for queue in (None, "no such queue"):
        found = whatif(given(**frames), slots=[3], load=2, queue=queue)
        assert found.variants == ()
        assert (found.error_p50, found.replayed.wait_p95_s, found.measured.wait_p95_s) == (None, None, None)
        assert "nothing to replay" in str(found)
        assert "nan" not in str(found) + found._repr_html_()
        assert showing.as_dict(found)["replayed"]["backlog"] is None


def test_no_slot_at_all_and_one_task_ana_01() -> None:
    alone = whatif(given(load=[group(5, 1, None, kind="waiting")]), slots=[1])
    assert (alone.replayed.slots, alone.replayed.never, alone.replayed.busy_percent) == (0, 1, None)
    assert alone.variants[0][0].wait_p50_s == 0
    assert "n/a" in str(alone)


def test_the_same_window_gives_the_same_table() -> None:
    def made() -> WhatIf:
        return whatif(given(**random_hour(3, 0.8)), slots=[4], load=1.5)

    assert showing.as_dict(made()) == showing.as_dict(made())
    assert made()._repr_html_().count("<tr>") == 6


@pytest.mark.parametrize(
    ("options", "told"),
    [({"slots": [0]}, "slots: must be 1"), ({"load": 0}, "load: 0 is not"), ({"load": math.nan}, "load: nan"), ({"limits": {"a": 0}}, "limit: that of a")],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(options: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told):
        whatif(given(), **options)


def test_a_slot_of_the_past_lives_while_its_heartbeat_is_fresh_at_the_pace_of_the_installation() -> None:
    frames: dict[str, Rows] = {"workers": [worker(processes=2, heartbeat_at=NOW - timedelta(seconds=40))]}
    slow = [{"name": "worker_heartbeat_s", "value": "20"}]
    gone, alive = (past.crew(given(**frames, facts=facts), None) for facts in ([], slow))
    assert gone.seconds(HOUR) == 2 * (HOUR - 40)
    assert alive.seconds(HOUR) == 2 * HOUR
    twice = past.crew(given(workers=frames["workers"] * 2, facts=slow), None)
    assert twice.most == 2, "a worker that stands twice has its slots once"


def test_more_tasks_than_fit_into_memory_are_not_replayed_and_that_is_said() -> None:
    source = given(**random_hour(3, 0.8) | {"load": [group(0.0, 20_000_000, 0.1)]})
    found = whatif(source, load=2.0)
    assert (found.too_many, found.replayed.tasks, found.variants) == (40_000_000, None, ())
    assert "40,000,000 tasks are more than can be replayed" in str(found)


def test_an_error_is_told_in_percent_and_not_of_what_nobody_notices() -> None:
    assert error(1.1, 1.0) == pytest.approx(10)
    assert error(0.001, 0.03) == 0.0
    assert error(None, 1.0) is None
    assert error(1.0, 0.0) is None
    assert error(0.5, 1.0) == pytest.approx(-50)
    assert error(0.03, 0.001) == 0.0
    assert error(0.001, 0.06) == pytest.approx(-98.33, abs=0.01)
