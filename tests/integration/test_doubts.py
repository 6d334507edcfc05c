"""A dispatch whose COMMIT got no reply: what it has won is known as soon as that can be known, and nobody waits for it."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from taskkit.center import Batch, TaskCenter
from taskkit.center.doubts import LONGEST_S
from taskkit.clock import monotonic
from taskkit.errors import DatabaseUnavailable, StoreError
from taskkit.queues import MemoryQueue
from taskkit.scheduler.dispatcher import UNSETTLED_PAUSE, Dispatcher
from taskkit.settings import Scheduler
from tests.centers import dispatch, new
from tests.waiting import wait_until

pytest_plugins = ["tests.center_fixtures"]
LOCK = "SELECT id FROM task_center WHERE id = :id FOR UPDATE"


def dispatched(center: TaskCenter) -> tuple[list[int], Batch]:
    ids = center.intake.insert([new() for _ in range(3)])
    return ids, dispatch(center)


def test_a_commit_that_is_still_under_way_is_asked_for_later(
    center: TaskCenter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its transaction holds the rows, for as long as its server takes to see that its client has gone."""
    if center.database.sqlite:
        pytest.skip("SQLite locks no rows")
    monkeypatch.setattr("taskkit.center.doubts.PAUSES", (0.0, 0.01))
    ids, batch = dispatched(center)
    doubts = center.dispatch.doubts
    with center.database.engine.connect() as theirs, theirs.begin():
        theirs.execute(sa.text(LOCK), {"id": ids[1]})
        assert doubts.won(ids, batch.token) == []
        assert list(doubts.settle()) == []
    assert list(doubts.settle()) == [(batch.token, batch.won)]
    assert list(doubts.settle()) == []
    assert center.database.counters == {}


def test_what_could_not_be_asked_is_asked_again(center: TaskCenter, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQL that answers for a moment settles nothing."""
    ids, batch = dispatched(center)

    def away(_: object) -> None:
        raise DatabaseUnavailable("gone")

    monkeypatch.setattr(center.database, "write", away)
    for act in (lambda: center.dispatch.doubts.won(ids, batch.token), lambda: list(center.dispatch.settle())):
        with pytest.raises(DatabaseUnavailable):
            act()
    monkeypatch.undo()
    assert [(found.token, found.won) for found in center.dispatch.settle()] == [(batch.token, batch.won)]


def test_a_scheduler_rests_while_a_dispatch_of_its_own_is_not_settled_and_gives_it_up_after_a_minute(
    center: TaskCenter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rows are found again in each scan, and cannot be won."""
    if center.database.sqlite:
        pytest.skip("SQLite locks no rows")
    monkeypatch.setattr("taskkit.center.doubts.PAUSES", (0.0,))
    dispatcher = Dispatcher(center, MemoryQueue(), Scheduler())
    (task_id,) = center.intake.insert([new()])
    with center.database.engine.connect() as theirs, theirs.begin():
        theirs.execute(sa.text(LOCK), {"id": task_id})
        assert center.dispatch.doubts.won([task_id], "a token") == []
        assert dispatcher.scan() == UNSETTLED_PAUSE
        monkeypatch.setattr("taskkit.center.doubts.monotonic", lambda: monotonic() + LONGEST_S + 1)
        assert list(center.dispatch.settle()) == []
    assert not center.dispatch.doubts.unsettled
    wait_until(lambda: dispatcher.scan() > UNSETTLED_PAUSE, 5)
    assert dispatcher.counters.dispatched == 1


def test_a_look_that_the_database_refuses_is_not_made_again(
    center: TaskCenter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would stand in the way of all that is due; recovery finds the rows."""
    ids, batch = dispatched(center)

    def refuse(_: object) -> None:
        raise StoreError("a rule of the server's")

    monkeypatch.setattr(center.database, "write", refuse)
    with pytest.raises(StoreError):
        center.dispatch.doubts.won(ids, batch.token)
    monkeypatch.undo()
    assert not center.dispatch.doubts.unsettled


def test_what_was_not_committed_is_nobodys(center: TaskCenter) -> None:
    ids = center.intake.insert([new() for _ in range(3)])
    assert center.dispatch.doubts.won(ids, "a token that no row has") == []
    assert list(center.dispatch.settle()) == []
    assert [one.id for one in dispatch(center).won] == ids
