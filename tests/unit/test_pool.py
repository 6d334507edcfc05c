"""The pool: how much the puller is to fetch, and when a trip is worth it."""

from __future__ import annotations

import queue
import threading

import pytest

from taskkit.worker import pool as module
from taskkit.worker.pool import ENOUGH, Pool


class Fetcher:
    """The puller's side: it waits for room in a thread of its own, for as long as it takes."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.told: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._thread = threading.Thread(target=lambda: self.told.put(pool.wait_for_room(60)), daemon=True)
        self._thread.start()

    def waits(self) -> bool:
        """Whether it has not been told yet, a moment later."""
        self._thread.join(0.05)
        return self.told.empty()

    def room(self) -> int:
        return self.told.get(timeout=20)


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Pool:
    """A pool that gathers room for a minute."""
    monkeypatch.setattr(module, "GATHER_SECONDS", 60)
    return Pool(lambda: None)


def test_a_child_that_has_nothing_to_do_is_not_kept_waiting(pool: Pool) -> None:
    fetcher = Fetcher(pool)
    assert fetcher.waits()
    pool.set_room(1, hurry=True)
    assert fetcher.room() == 1


def test_room_for_what_is_only_to_be_at_hand_is_gathered(pool: Pool) -> None:
    fetcher = Fetcher(pool)
    for room in (1, 2, 3):
        pool.set_room(room, hurry=False)
        assert fetcher.waits()
    pool.set_room(4, hurry=True)
    assert fetcher.room() == 4, "as soon as one of them needs it, all get theirs"


def test_much_room_is_worth_a_trip(pool: Pool) -> None:
    pool.set_room(ENOUGH - 1, hurry=False)
    fetcher = Fetcher(pool)
    assert fetcher.waits()
    pool.set_room(ENOUGH, hurry=False)
    assert fetcher.room() == ENOUGH


def test_after_a_while_it_goes_for_little(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GATHER_SECONDS", 0.01)
    pool.set_room(1, hurry=False)
    assert Fetcher(pool).room() == 1


def test_nothing_is_fetched_for_a_closed_pool(pool: Pool) -> None:
    pool.set_room(1, hurry=False)
    fetcher = Fetcher(pool)
    assert fetcher.waits()
    pool.close()
    assert fetcher.room() == 0
