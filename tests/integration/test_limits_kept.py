"""Limits stay true to the rows: whatever way a task goes, its place is free, and nobody waits for ever."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import sqlalchemy as sa

from taskkit.center import TaskCenter
from taskkit.center.recovery import Suspect
from taskkit.errors import CommitUnknown, PushRefused, TaskkitError
from taskkit.limits import Scope
from taskkit.model import Claimed, Finish, ListName
from taskkit.queues import MemoryQueue
from taskkit.scheduler.granting import LimitKeeper
from taskkit.states import Move, Outcome
from tests.bounded import WORKER, Bounded, held_for, in_use, limited, places, statuses
from tests.centers import Clock, instant, new, on_clock, sql, succeeded, task

pytest_plugins = ["tests.center_fixtures"]


def lose(node: Bounded, running: Claimed) -> None:
    def judged(claimed: Claimed) -> Finish:
        return Finish(claimed, Outcome.LOST, Move.LOSE, 0, delay=3600)

    assert node.center.recovery.lose(WORKER, {running.id: running.attempt}, judged)


def end(move: Move, outcome: Outcome, **fields: float) -> Callable[[Bounded, Claimed], None]:
    def act(node: Bounded, running: Claimed) -> None:
        assert node.desk.finish([Finish(running, outcome, move, 0, **fields)]) == []  # type: ignore[arg-type]

    return act


WAYS_FROM_2: dict[str, Callable[[Bounded, Claimed], None]] = {
    "success": end(Move.SUCCEED, Outcome.SUCCESS),
    "failure": end(Move.FAIL, Outcome.FAILED, delay=3600.0),
    "given up": end(Move.EXHAUST, Outcome.TIMEOUT),
    "cancelled": end(Move.HONOUR_CANCEL, Outcome.CANCELLED),
    "lost with its worker": lose,
    "deleted by hand": lambda node, t: sql(node.center, "DELETE FROM task_center WHERE id = :i", i=t.id),
    "set by hand": lambda node, t: sql(
        node.center, "UPDATE task_center SET status = 3 WHERE id = :i", i=t.id
    ),
}
WAYS_FROM_1: dict[str, Callable[[TaskCenter, int], object]] = {
    "cancelled": lambda center, i: center.people.cancel(i, "ann"),
    "paused": lambda center, i: center.people.pause(i, "ann"),
    "message lost": lambda center, i: center.recovery.ring_again([Suspect(i, 1, ListName("q"))]),
    "expired": lambda center, i: sql(
        center, "UPDATE task_center SET expires_at = created_at WHERE id = :i", i=i
    ),
}


@pytest.mark.parametrize("way", WAYS_FROM_2)
def test_rule_07_whatever_way_a_running_task_goes_its_place_is_free(center: TaskCenter, way: str) -> None:
    limited(center, key="k", concurrency=1)
    node = Bounded(center)
    ids = center.intake.insert([new(limit_key="k") for _ in range(3)])
    node.scan()
    (running,) = node.start()
    WAYS_FROM_2[way](node, running)
    center.limits.sweep()
    node.scan()
    assert statuses(center, ids[1:]) == "17"
    node.end(node.start())
    assert node.run() == [ids[2]]


@pytest.mark.parametrize("way", WAYS_FROM_1)
def test_rule_07_whatever_way_a_dispatched_task_goes_its_place_is_free(center: TaskCenter, way: str) -> None:
    limited(center, queue="q", concurrency=1)
    node = Bounded(center)
    ids = center.intake.insert([new() for _ in range(3)])
    node.scan()
    WAYS_FROM_1[way](center, ids[0])
    node.start()
    center.limits.sweep()
    node.scan()
    assert in_use(center) == 1
    for _ in range(5):
        node.end(node.start())
        center.limits.sweep()
        node.scan()
    assert statuses(center, ids[1:]) == "33"


def test_rule_07_a_task_handed_back_waits_for_its_limit_again(center: TaskCenter) -> None:
    limited(center, key="k", concurrency=1)
    node = Bounded(center)
    ids = center.intake.insert([new(limit_key="k") for _ in range(2)])
    node.scan()
    (running,) = node.start()
    end(Move.HAND_BACK, Outcome.HANDED_BACK)(node, running)
    node.scan()
    assert sorted(statuses(center, ids)) == ["1", "7"]
    assert sorted(node.run() + node.run()) == ids


def test_rule_07_a_refused_push_gives_the_place_back(center: TaskCenter) -> None:
    class Full(MemoryQueue):
        def push(self, batches):  # type: ignore[no-untyped-def]
            return {name: PushRefused("OOM") for name in batches}

    limited(center, queue="q", concurrency=1)
    refusing = Bounded(center, Full())
    ids = center.intake.insert([new() for _ in range(2)])
    for _ in range(3):
        with pytest.raises(TaskkitError, match="OOM"):
            refusing.scan()
    center.limits.sweep()
    assert in_use(center) == 0
    node = Bounded(center)
    node.scan()
    assert sorted(statuses(center, ids)) == ["1", "7"]


def test_rule_07_a_late_end_gives_nothing_back_twice(center: TaskCenter) -> None:
    """The task was taken from its worker and runs again under the limit when the old worker wakes up."""
    limited(center, key="k", concurrency=1)
    node = Bounded(center)
    ids = center.intake.insert([new(limit_key="k") for _ in range(2)])
    node.scan()
    (running,) = node.start()
    center.recovery.lose(WORKER, {running.id: 1}, lambda c: Finish(c, Outcome.LOST, Move.LOSE, 0))
    center.limits.sweep()
    node.scan()
    assert sorted(statuses(center, ids)) == ["1", "7"]
    other = center.worker_desk("host:2:other")
    assert len(node.desk.finish([succeeded(running)])) == 1
    center.limits.sweep()
    node.scan()
    assert in_use(center) == 1
    assert other.given_back == 0


# persons


def test_rule_07_what_a_person_does_to_a_waiting_task_leaves_the_line_in_order(center: TaskCenter) -> None:
    limited(center, key="k", concurrency=1)
    node = Bounded(center)
    ids = center.intake.insert([new(limit_key="k") for _ in range(5)])
    node.scan()
    center.people.cancel(ids[1], "ann")
    center.people.resume(ids[2], "ann")
    center.people.pause(ids[2], "ann", "not now")
    center.people.resume(ids[3], "ann")
    node.scan()
    assert statuses(center, ids) == "16777"
    assert held_for(center, ids[2]) == "paused by ann: not now"
    assert held_for(center, ids[3]) == "over a limit: key k"
    node.end(node.start())
    assert node.run() == [ids[3]]
    assert node.run() == [ids[4]]
    assert statuses(center, ids) == "36733"


def test_rule_07_what_was_moved_by_hand_keeps_nobody_waiting(center: TaskCenter) -> None:
    """Rows of the head of a line that do not wait any more, one whose key was edited, and one that lost its place."""
    limited(center, key="*", concurrency=1)
    node = Bounded(center)
    ids = center.intake.insert([new(limit_key="k") for _ in range(9)])
    node.scan()
    sql(center, "UPDATE task_center SET status = 6 WHERE id BETWEEN :a AND :b", a=ids[1], b=ids[4])
    sql(center, "UPDATE task_center SET limit_key = 'else' WHERE id = :i", i=ids[5])
    sql(center, "DELETE FROM task_center WHERE id = :i", i=ids[6])
    sql(center, "DELETE FROM task_limit_place WHERE task_id = :i", i=ids[7])
    node.end(node.start())
    order = []
    for _ in range(12):
        center.limits.sweep()
        order += node.run()
    assert order[-1] in {ids[7], ids[8]}
    assert sorted(order) == [ids[5], ids[7], ids[8]]
    assert places(center) == []


def test_rule_07_a_waiting_task_that_was_postponed_by_hand_starts_when_it_is_due(center: TaskCenter) -> None:
    limited(center, queue="q", concurrency=1)
    node = Bounded(center)
    ids = center.intake.insert([new() for _ in range(3)])
    node.scan()
    sql(center, "UPDATE task_center SET plan_next_run_at = '2037-01-01 00:00:00' WHERE id = :i", i=ids[1])
    node.end(node.start())
    assert node.run() == [ids[2]]
    assert statuses(center, ids) == "303"
    node.scan()
    assert places(center) == []


def test_rule_07_a_limit_that_is_removed_lets_all_go(center: TaskCenter) -> None:
    limited(center, queue="q", concurrency=1)
    limited(center, key="k", concurrency=1)
    node = Bounded(center)
    ids = center.intake.insert([new(limit_key="k") for _ in range(3)] + [new() for _ in range(3)])
    node.scan()
    assert center.limits.remove(Scope.KEY, "k", "ann")
    assert not center.limits.remove(Scope.KEY, "k", "ann")
    node.scan()
    assert statuses(center, ids) == "177777"
    limited(center, key="k", concurrency=2)
    assert center.limits.remove(Scope.QUEUE, "q", "ann")
    node.scan()
    assert statuses(center, ids) == "117111"
    assert [row[0] for row in sql(center, "SELECT detail FROM task_action WHERE action = 'limit' ORDER BY id")] == [
        "queue q: 1 at once", "key k: 1 at once", "key k: removed", "key k: 2 at once", "queue q: removed",
    ]  # fmt: skip


def test_rule_07_new_numbers_hold_for_all_schedulers_at_their_next_look(center_url: str) -> None:
    """A scheduler goes by the numbers it knows, and looks every second; then nobody waits longer than need be."""
    one, two = Bounded(TaskCenter(center_url)), Bounded(TaskCenter(center_url))
    keeper = LimitKeeper(two.center, two.center, "host:2:s")
    limited(one.center, queue="q", concurrency=1)
    assert keeper.tick() == 1.0
    ids = one.center.intake.insert([new() for _ in range(6)])
    two.scan()
    limited(one.center, queue="q", concurrency=4)
    two.scan()
    assert statuses(one.center, ids) == "177777"
    keeper.tick()
    two.scan()
    assert statuses(one.center, ids) == "111177"
    for node in (one, two):
        node.center.close()


def test_rule_07_a_scheduler_that_was_stopped_while_a_limit_was_set_looks_before_it_dispatches(
    center_url: str,
) -> None:
    """Its worker, which was stopped as well, holds what was dispatched before."""
    clock = Clock(instant(2026, 6, 1, 12))
    stopped, other = Bounded(on_clock(center_url, clock)), on_clock(center_url, clock)
    before = stopped.center.intake.insert([new()])
    stopped.scan()
    ids = stopped.center.intake.insert([new() for _ in range(2)])
    limited(other, queue="q", concurrency=1)
    clock.move(seconds=10)
    assert stopped.center.dispatch.claim(ids).held == ids
    stopped.center.limits._looked -= 10
    assert stopped.start() == []
    assert statuses(other, before + ids) == "777"
    other.close()
    stopped.center.close()


def test_a_row_that_the_database_does_not_let_go_keeps_no_other_waiting(center: TaskCenter) -> None:
    limited(center, queue="q", concurrency=3)
    node = Bounded(center)
    ids = center.intake.insert([new() for _ in range(4)])
    most = 2**63 - 1 if center.database.sqlite else 2**32 - 1
    node.dispatcher._scan()
    sql(center, "UPDATE task_center SET attempt = :n WHERE id = :i", n=most, i=ids[1])
    node.scan()
    assert statuses(center, [ids[0], *ids[2:]]) == "111"
    assert (held_for(center, ids[1]) or "").startswith("invalid: ")
    assert len(node.start()) == 3


def test_a_commit_whose_reply_was_lost_loses_no_task(
    center: TaskCenter, monkeypatch: pytest.MonkeyPatch
) -> None:
    limited(center, queue="q", concurrency=2)
    node = Bounded(center)
    ids = center.intake.insert([new() for _ in range(3)])
    node.dispatcher._scan()
    write, lost = center.database.write, []

    def deaf(work):  # type: ignore[no-untyped-def]
        found = write(work)
        if not lost and getattr(found, "won", None):
            lost.append(found)
            raise CommitUnknown("cut")
        return found

    monkeypatch.setattr(center.database, "write", deaf)
    node.scan()
    assert lost
    assert sorted(node.pulled()) == ids[:2]


def test_rule_03_a_line_that_another_scheduler_holds_is_passed_over(mariadb_center: TaskCenter) -> None:
    center = mariadb_center
    limited(center, key="*", concurrency=1)
    node = Bounded(center)
    a, b = center.intake.insert([new(limit_key="a"), new(limit_key="b")])
    node.dispatcher._scan()
    with center.database.engine.connect() as other, other.begin():
        other.execute(
            sa.text("SELECT name FROM task_limit_line WHERE scope = 'key' AND name = 'a' FOR UPDATE")
        )
        node.dispatcher.granting.run()
        assert statuses(center, [a, b]) == "71"
    node.scan()
    assert statuses(center, [a, b]) == "11"


def test_rule_03_a_waiting_row_that_somebody_locks_keeps_no_other_waiting(mariadb_center: TaskCenter) -> None:
    center = mariadb_center
    limited(center, queue="q", concurrency=2)
    node = Bounded(center)
    ids = center.intake.insert([new() for _ in range(3)])
    node.dispatcher._scan()
    with center.database.engine.connect() as other, other.begin():
        other.execute(sa.text("SELECT id FROM task_center WHERE id = :i FOR UPDATE"), {"i": ids[0]})
        node.dispatcher.granting.run()
        assert statuses(center, ids) == "717"
    node.scan()
    assert statuses(center, ids) == "117"


def test_the_short_way_is_not_for_what_a_limit_is_about(center: TaskCenter) -> None:
    assert center.dispatch.waits("mail", 5)[0] is False
    limited(center, queue="bulk-*", concurrency=1)
    limited(center, key="*", concurrency=1)
    assert center.dispatch.waits("mail", 5)[0] is False
    assert center.dispatch.waits("bulk-a", 5)[0] is True
    limited(center, queue="mail", rate="1/s")
    assert center.dispatch.waits("mail", 5)[0] is True
    assert center.dispatch.waits("mai", 5)[0] is False


def test_what_a_task_waits_for_can_be_asked(center: TaskCenter) -> None:
    limited(center, key="k*", concurrency=1, rate="100/s")
    limited(center, queue="idle", concurrency=1)
    node = Bounded(center)
    ids = center.intake.insert([new(limit_key="k1") for _ in range(3)])
    node.scan()
    standing = center.limits.standing(ids[2])
    assert standing is not None
    assert (str(standing.limit), standing.name, standing.in_use, standing.before) == ("key k*", "k1", 1, 1)
    assert center.limits.standing(ids[0]) is None
    uses = {(use.limit.scope, use.name): (use.in_use, use.waiting) for use in center.limits.uses()}
    assert uses == {(Scope.KEY, "k1"): (1, 2), (Scope.QUEUE, "idle"): (0, 0)}
    assert task(center, ids[1]).limit_key == "k1"
