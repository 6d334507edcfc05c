"""Limits: what is above one is held, an end lets the oldest of its key go, and nobody else notices."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest
import sqlalchemy as sa

from taskkit.center import TaskCenter
from taskkit.model import ListName, Message
from taskkit.queues import MemoryQueue
from taskkit.states import Status
from tests.bounded import Bounded, held_for, in_use, limited, places, statuses
from tests.centers import (
    Clock,
    at_once,
    columns,
    failed,
    instant,
    new,
    on_clock,
    periodic,
    sql,
    task,
)

pytest_plugins = ["tests.center_fixtures"]


def test_rule_07_what_is_over_a_limit_is_held_and_an_end_lets_the_oldest_of_its_key_go(
    center: TaskCenter,
) -> None:
    limited(center, key="stripe", concurrency=2)
    node = Bounded(center)
    ids = center.intake.insert([new(limit_key="stripe") for _ in range(5)])
    node.scan()
    assert statuses(center, ids) == "11777"
    assert held_for(center, ids[2]) == "over a limit: key stripe"
    first = node.start()
    assert [claimed.id for claimed in first] == ids[:2]
    node.end(first[:1])
    node.scan()
    assert statuses(center, ids) == "32177"
    assert node.run() == [ids[2]]
    node.end(first[1:])
    assert node.run() == ids[3:]
    assert statuses(center, ids) == "33333"
    assert [len(center.read.runs([i])) for i in ids] == [1] * 5
    assert [columns(center, i, "attempt, retry_count")[0:2] for i in ids] == [(1, 0)] * 5
    node.scan()
    assert places(center) == []


def test_rule_07_a_task_let_go_says_when(center: TaskCenter) -> None:
    limited(center, queue="q", concurrency=1)
    node = Bounded(center)
    bound, free = center.intake.insert([new(), new(queue="free")])
    node.scan()
    assert task(center, bound).granted_at == task(center, bound).dispatched_at is not None
    assert task(center, free).granted_at is None


def test_rule_07_a_blocked_key_blocks_no_list_and_does_not_spin(center: TaskCenter) -> None:
    """Its tasks leave the line of what is due: others of the same list go at once, and nothing is looked at again."""
    limited(center, key="slow", concurrency=1)
    node = Bounded(center, batch=50)
    center.intake.insert([new(limit_key="slow") for _ in range(300)])
    others = center.intake.insert([new(), new(limit_key="quick"), new(priority=9)])
    rest = node.scan()
    assert set(others) <= set(node.pulled())
    assert in_use(center) == 4
    assert rest == node.dispatcher.settings.poll_s
    statements: list[str] = []
    sa.event.listen(center.database.engine, "before_cursor_execute", lambda *call: statements.append(call[2]))
    assert node.dispatcher.scan() == rest
    assert len(statements) == 2, statements


def test_rule_07_each_key_of_a_pattern_has_a_limit_of_its_own(center: TaskCenter) -> None:
    limited(center, key="customer:*", concurrency=2)
    limited(center, key="customer:9", concurrency=1)
    keys = ["customer:1", "customer:2", "customer:9", "else"]
    center.intake.insert([new(limit_key=key) for _ in range(4) for key in keys])
    Bounded(center).scan()
    rows = sql(center, "SELECT limit_key, COUNT(*) FROM task_center WHERE status = 1 GROUP BY limit_key")
    assert {row[0]: row[1] for row in rows} == {"customer:1": 2, "customer:2": 2, "customer:9": 1, "else": 4}


def test_rule_07_a_task_under_two_limits_waits_for_both(center: TaskCenter) -> None:
    """The queue has room for three, each key for two: the older key gets two of them, and the other is not starved."""
    limited(center, queue="q", concurrency=3)
    limited(center, key="*", concurrency=2)
    node = Bounded(center)
    a = center.intake.insert([new(limit_key="a") for _ in range(6)])
    b = center.intake.insert([new(limit_key="b") for _ in range(3)])
    node.scan()
    assert (statuses(center, a), statuses(center, b)) == ("117777", "177")
    started = {claimed.id: claimed for claimed in node.start()}
    node.end([started[b[0]]])
    node.scan()
    assert (statuses(center, a), statuses(center, b)) == ("227777", "317")
    node.end([started[a[0]], started[a[1]]])
    node.scan()
    assert (statuses(center, a), statuses(center, b)) == ("331177", "317")
    assert held_for(center, a[4]) == "over a limit: key a"
    while node.run():
        pass
    assert statuses(center, a + b) == "3" * 9


def test_rule_07_tasks_go_by_priority_then_by_time(center: TaskCenter) -> None:
    limited(center, queue="q", concurrency=1)
    node = Bounded(center)
    now = center.now()
    (running,) = center.intake.insert([new()])
    node.scan()
    late, early = center.intake.insert([new(plan_next_run_at=now - timedelta(seconds=s)) for s in (1, 9)])
    urgent = center.intake.insert([new(priority=0)])
    node.scan()
    order = [running]
    while started := node.start():
        order += [claimed.id for claimed in started if claimed.id not in order]
        node.end(started)
        node.scan()
    assert order == [running, *urgent, early, late]


def test_rule_07_several_schedulers_never_let_go_more_than_there_is(center_url: str) -> None:
    """Three schedulers and their workers at the same moment; what is in use is looked at all the time."""
    nodes = [Bounded(TaskCenter(center_url), MemoryQueue(), batch=20) for _ in range(3)]
    limited(nodes[0].center, key="customer:*", concurrency=3)
    limited(nodes[0].center, queue="q", concurrency=7)
    for node in nodes:
        node.center.limits.refresh()
    ids = nodes[0].center.intake.insert([new(limit_key=f"customer:{n % 4}") for n in range(120)])
    seen: list[Counter[str]] = []

    def work(number: int) -> int:
        node, done = nodes[number], 0
        for _ in range(400):
            node.dispatcher.scan()
            started = node.start()
            rows = sql(node.center, "SELECT limit_key FROM task_center WHERE status IN (1, 2)")
            seen.append(Counter(row[0] for row in rows))
            node.end(started)
            done += len(started)
            if node.center.read.counts()[Status.SUCCESS] == len(ids):
                break
        return done

    assert sum(at_once(3, work)) == len(ids)
    assert statuses(nodes[0].center, ids) == "3" * len(ids)
    assert max(sum(counts.values()) for counts in seen) <= 7
    assert max(max(counts.values(), default=0) for counts in seen) <= 3
    for node in nodes:
        node.center.close()


def test_rule_07_a_rate_is_granted_by_the_databases_clock_and_never_exceeded(center_url: str) -> None:
    clock = Clock(instant(2026, 6, 1, 12))
    center = on_clock(center_url, clock)
    limited(center, key="api", rate="10/s")
    node = Bounded(center)
    ids = center.intake.insert([new(limit_key="api") for _ in range(45)])
    for _ in range(230):
        node.dispatcher.scan()
        clock.move(milliseconds=20)
    granted = sorted(task(center, i).granted_at for i in ids)
    for first, beyond in zip(granted, granted[10:], strict=False):
        assert beyond - first >= timedelta(seconds=1)
    assert granted[-1] - granted[0] <= timedelta(seconds=4.6)
    assert granted == sorted(task(center, i).dispatched_at for i in ids)
    center.close()


def test_rule_07_a_scan_rests_until_the_next_start_of_a_rate(center_url: str) -> None:
    clock = Clock(instant(2026, 6, 1, 12))
    center = on_clock(center_url, clock)
    limited(center, queue="q", rate="1/10s")
    node = Bounded(center, poll_s=60)
    center.intake.insert([new() for _ in range(2)])
    assert node.scan() == pytest.approx(10, abs=0.001)
    clock.move(seconds=9.9)
    assert node.dispatcher.scan() == pytest.approx(0.1, abs=0.001)
    assert len(node.pulled()) == 1
    clock.move(seconds=0.2)
    assert node.dispatcher.scan() > 0.1
    assert len(node.pulled()) == 1
    center.close()


def test_rule_07_a_worker_that_meets_a_limit_holds_the_task_with_no_retry_and_no_run(
    center: TaskCenter,
) -> None:
    """The limit was set when their messages stood in the list already."""
    node = Bounded(center)
    ids = center.intake.insert([new() for _ in range(4)])
    free = center.intake.insert([new(queue="free")])
    node.scan()
    limited(center, queue="q", concurrency=1)
    messages = [message for _, message in node.queue.pull(["q", "free"], 10, 0).messages]
    claims = node.desk.claim(messages)
    assert [claimed.id for claimed in claims.won] == free
    assert sorted(message.task_id for message in claims.held) == ids
    assert (claims.duplicates, claims.missing) == ([], [])
    assert statuses(center, ids) == "7777"
    assert center.read.runs(ids) == []
    assert columns(center, ids[0], "retry_count, attempt, token") == (0, 1, None)
    node.scan()
    assert statuses(center, ids) == "1777"
    assert [claimed.attempt for claimed in node.start()] == [2]
    assert node.desk.claim(messages).won == []
    assert statuses(center, ids) == "2777"


def test_rule_07_a_message_that_a_limit_let_go_may_always_start(center: TaskCenter) -> None:
    """Also when the limit is young, when it was made smaller meanwhile, and when a person pushes the message."""
    limited(center, queue="q", concurrency=3)
    node = Bounded(center)
    ids = center.intake.insert([new() for _ in range(3)])
    node.scan()
    limited(center, queue="q", concurrency=1)
    assert len(node.desk.claim([Message(ids[0])]).won) == 1
    assert len(node.start()) == 2
    assert statuses(center, ids) == "222"


def test_rule_07_what_runs_already_counts_when_a_limit_is_set(center: TaskCenter) -> None:
    node = Bounded(center)
    ids = center.intake.insert([new(), new()])
    node.scan()
    running = node.start()
    limited(center, queue="q", concurrency=2)
    more = center.intake.insert([new()])
    node.scan()
    assert statuses(center, ids + more) == "227"
    node.end(running)
    center.limits.sweep()
    node.scan()
    assert statuses(center, ids + more) == "331"


def test_rule_07_a_retry_over_its_limit_waits_like_any_other(center: TaskCenter) -> None:
    limited(center, key="k", concurrency=1)
    node = Bounded(center)
    (once, other) = center.intake.insert([new(limit_key="k"), new(limit_key="k")])
    node.scan()
    assert node.desk.finish([failed(task, delay=0.0) for task in node.start()]) == []
    node.dispatcher.granting.run()
    assert statuses(center, [once, other]) == "41"
    node.scan()
    assert statuses(center, [once, other]) == "71"
    assert columns(center, once, "retry_count") == (1,)
    node.end(node.start())
    assert node.run() == [once]
    assert [run.attempt for run in center.read.runs([once])] == [1, 2]


def test_rule_07_a_periodic_task_waits_for_its_limit_and_its_occurrence_fires_late(center_url: str) -> None:
    clock = Clock(instant(2026, 6, 1, 12))
    center = on_clock(center_url, clock)
    limited(center, queue="q", concurrency=1)
    node = Bounded(center)
    (daily,) = center.intake.insert([periodic(clock.at, "0 13 * * *")])
    (long,) = center.intake.insert([new()])
    node.scan()
    running = node.start()
    clock.move(hours=1, seconds=1)
    node.dispatcher.scan()
    assert held_for(center, daily) == "over a limit: queue q"
    clock.move(hours=2)
    center.plan.sweep()
    node.end(running)
    node.dispatcher.scan()
    assert task(center, daily).status is Status.DISPATCHED
    (fired,) = [o for o in center.read.occurrences(daily, 100) if o.state == "fired"]
    assert (fired.planned_at, fired.late_s) == (instant(2026, 6, 1, 13), 7201.0)
    node.end(node.start())
    assert task(center, daily).plan_next_run_at == instant(2026, 6, 2, 13)
    assert task(center, long).status is Status.SUCCESS
    center.close()


def test_rule_07_a_full_list_lets_nobody_go(center: TaskCenter) -> None:
    """The window of a list holds for limits as well, plus at most one batch."""
    limited(center, queue="q", concurrency=1000)
    node = Bounded(center, window=3, batch=5)
    center.intake.insert([new() for _ in range(30)])
    for _ in range(20):
        node.dispatcher.scan()
    assert 3 <= in_use(center) <= 8
    assert len(node.start()) <= 8
    for _ in range(20):
        node.dispatcher.scan()
    assert node.queue.depth([ListName("q", 5)])[ListName("q", 5)] >= 3
