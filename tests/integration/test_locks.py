"""Locks between processes, in SQL and in Redis: one holder, renewed, fenced, and told when it is lost."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import redis

from taskkit import Settings, Taskkit
from taskkit.coordination import TokenLocks
from taskkit.coordination.tokens import MemoryTokens
from taskkit.errors import (
    BrokerUnavailable,
    DatabaseUnavailable,
    InputError,
    LockError,
    LockLost,
    LockTimeout,
)
from taskkit.testing import Sandbox
from tests.centers import at_once, in_child, sql
from tests.machine import free_port
from tests.peers import FLAVOURS, Peer, lock_of
from tests.waiting import wait_until

pytest_plugins = ["tests.center_fixtures"]


@pytest.fixture
def kit(center_url: str, redis_url: str, key_prefix: str, tmp_path: Path) -> Iterator[Taskkit]:
    opened = Taskkit(
        Settings(home=tmp_path, database_url=center_url, redis_url=redis_url, key_prefix=key_prefix)
    )
    yield opened
    opened.close()


@pytest.fixture(params=FLAVOURS)
def flavour(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def take_away(kit: Taskkit, flavour: str) -> None:
    """What an operator's mistake does: the lock is gone, and its holder does not know."""
    if flavour == "sql":
        sql(kit.center, "UPDATE task_lock SET holder = 'somebody:1:else'")
    else:
        with redis.Redis.from_url(str(kit.settings.redis_url)) as client:
            client.flushall()


# one holder


def test_one_holds_it_and_the_next_gets_it_when_it_is_released(kit: Taskkit, flavour: str) -> None:
    one, two = (lock_of(kit, flavour, "nightly") for _ in "12")
    with one:
        assert (one.held, one.lost, two.held) == (True, False, False)
        assert not two.acquire(blocking=False)
        one.check()
    assert not one.held
    assert two.acquire(blocking=False)
    two.release()


def test_locks_of_other_names_are_other_locks(kit: Taskkit, flavour: str) -> None:
    with lock_of(kit, flavour, "a") as one, lock_of(kit, flavour, "A", timeout=0) as two:
        assert (one.held, two.held) == (True, True)


def test_threads_that_come_at_once_share_one_holder(kit: Taskkit, flavour: str) -> None:
    locks = [lock_of(kit, flavour, "nightly") for _ in range(6)]
    assert sum(at_once(6, lambda n: locks[n].acquire(blocking=False))) == 1
    next(lock for lock in locks if lock.held).release()


def test_processes_that_race_do_not_lose_an_update(kit: Taskkit, flavour: str, tmp_path: Path) -> None:
    path = tmp_path / "number"
    path.write_text("0")
    with ExitStack() as stack:
        peers = [stack.enter_context(Peer(kit.settings, flavour, "number", 5)) for _ in range(3)]
        for peer in peers:
            peer.tell("add", path, 8)
        assert [peer.hear() for peer in peers] == ["added"] * 3
    assert path.read_text() == "24"


def test_waiting_for_it_ends_when_it_is_free(kit: Taskkit, flavour: str) -> None:
    one, two = (lock_of(kit, flavour, "nightly") for _ in "12")
    one.acquire()
    waiter = threading.Thread(target=two.acquire)
    waiter.start()
    one.release()
    waiter.join(20)
    assert two.held
    two.release()


def test_waiting_for_it_has_an_end(kit: Taskkit, flavour: str) -> None:
    with lock_of(kit, flavour, "nightly"):
        assert not lock_of(kit, flavour, "nightly").acquire(timeout=0.1)
        with (
            pytest.raises(LockTimeout, match=r"lock nightly was not free within 0\.1 s"),
            lock_of(kit, flavour, "nightly", timeout=0.1),
        ):
            pass


# the holder


def test_it_is_renewed_while_it_is_held(kit: Taskkit, flavour: str) -> None:
    """For longer than its life, under the same number."""
    one, two = (lock_of(kit, flavour, "nightly", ttl=3) for _ in "12")
    with one:
        fence = one.fence
        assert not two.acquire(timeout=4)
        one.check()
        assert one.fence == fence


def test_what_is_released_is_not_renewed_any_more(kit: Taskkit, flavour: str) -> None:
    before = threading.active_count()
    with lock_of(kit, flavour, "nightly"):
        assert threading.active_count() == before + 2
    wait_until(lambda: threading.active_count() == before)


def test_only_the_owner_releases_it(kit: Taskkit, flavour: str) -> None:
    one, two = (lock_of(kit, flavour, "nightly") for _ in "12")
    with one:
        with pytest.raises(LockError, match="lock nightly is not held by this object"):
            two.release()
        assert not two.acquire(blocking=False)


def test_a_former_owner_neither_releases_nor_renews_it(kit: Taskkit, flavour: str) -> None:
    one, two = lock_of(kit, flavour, "nightly", ttl=0.6), lock_of(kit, flavour, "nightly")
    one.acquire()
    take_away(kit, flavour)
    if flavour == "sql":
        sql(kit.center, "UPDATE task_lock SET holder = ''")
    two.acquire()
    wait_until(lambda: one.lost)
    with pytest.raises(LockLost):
        one.release()
    two.check()
    assert not lock_of(kit, flavour, "nightly").acquire(blocking=False)
    two.release()


def test_the_holder_learns_that_it_lost_it(kit: Taskkit, flavour: str) -> None:
    told: list[str] = []
    lock = lock_of(kit, flavour, "nightly", ttl=3, on_lost=told.append)
    with pytest.raises(LockLost, match="lock nightly was lost: somebody else has it"), lock:
        take_away(kit, flavour)
        wait_until(lambda: told)
        assert (lock.lost, lock.held) == (True, False)
        with pytest.raises(LockLost):
            lock.check()
    assert len(told) == 1
    assert (lock.lost, lock.held) == (False, False)


def test_the_end_tells_of_a_loss_that_no_renewal_saw(kit: Taskkit, flavour: str) -> None:
    with pytest.raises(LockLost, match="not there any more"), lock_of(kit, flavour, "nightly", ttl=3600):
        take_away(kit, flavour)


def test_what_the_body_raised_says_more_than_the_loss(kit: Taskkit, flavour: str) -> None:
    with pytest.raises(ValueError, match="mine"), lock_of(kit, flavour, "nightly", ttl=3600):
        take_away(kit, flavour)
        raise ValueError("mine")


def test_a_callback_that_fails_does_no_harm(kit: Taskkit, flavour: str) -> None:
    lock = lock_of(kit, flavour, "nightly", ttl=0.5, on_lost=lambda _: 1 / 0)
    lock.acquire()
    take_away(kit, flavour)
    wait_until(lambda: lock.lost)
    with pytest.raises(LockLost):
        lock.release()


def test_it_belongs_to_the_object_not_to_a_thread(kit: Taskkit, flavour: str) -> None:
    lock = lock_of(kit, flavour, "nightly")
    for act in (lock.acquire, lock.check, lock.release):
        thread = threading.Thread(target=act)
        thread.start()
        thread.join()
    assert not lock.held
    assert lock_of(kit, flavour, "nightly").acquire(blocking=False)


def test_taking_it_twice_is_refused(kit: Taskkit, flavour: str) -> None:
    with (
        lock_of(kit, flavour, "nightly") as lock,
        pytest.raises(LockError, match="held by this object already"),
    ):
        lock.acquire()


def test_a_fork_does_not_hold_it_and_does_not_give_it_back(kit: Taskkit, flavour: str) -> None:
    with lock_of(kit, flavour, "nightly") as lock:

        def act() -> None:
            assert not lock.held
            with pytest.raises(LockLost, match=f"process {os.getppid()} has it"):
                lock.release()

        assert os.waitpid(in_child(act), 0)[1] == 0
        lock.check()
        assert not lock_of(kit, flavour, "nightly").acquire(blocking=False)


def test_a_lock_that_was_forgotten_ends(kit: Taskkit, flavour: str) -> None:
    lock_of(kit, flavour, "nightly", ttl=0.5).acquire()
    gc.collect()
    assert lock_of(kit, flavour, "nightly").acquire(timeout=20)


# the fence


def test_the_fence_grows_with_every_holder(kit: Taskkit, flavour: str) -> None:
    fences = []
    for _ in range(3):
        with lock_of(kit, flavour, "nightly") as lock:
            fences.append(lock.fence)
    assert fences == sorted(set(fences))
    assert lock.fence == fences[-1], "for what is told about it afterwards"
    with pytest.raises(LockError, match="was never held"):
        lock_of(kit, flavour, "nightly").fence


def test_rule_25_fencing_numbers_go_on_after_a_flush(kit: Taskkit) -> None:
    fences = []
    for _ in range(4):
        lock = kit.redis_lock("nightly")
        lock.acquire()
        fences.append(lock.fence)
        take_away(kit, "redis")
    assert fences == sorted(set(fences))


def test_a_name_has_one_row_of_numbers_in_both_flavours(kit: Taskkit) -> None:
    fences = []
    for flavour in ("sql", "redis", "sql", "redis"):
        with lock_of(kit, flavour, "nightly") as lock:
            fences.append(lock.fence)
    assert fences == sorted(set(fences))


def test_a_flush_between_the_key_and_its_number_is_not_taken_for_a_lock() -> None:
    """Else the one that came later could have the smaller number."""
    tokens = MemoryTokens()
    locks: TokenLocks
    taken: list[int | None] = []

    def interrupted(_name: str) -> int:
        tokens.drop(b"nightly", "one")
        taken.append(other.take("nightly", "two", 30))
        return 8

    locks = TokenLocks(tokens, str.encode, interrupted)
    other = TokenLocks(tokens, str.encode, lambda _: 7)
    assert locks.take("nightly", "one", 30) is None
    assert taken == [7]
    assert tokens.read(b"nightly") == "two"


def test_without_sql_there_is_no_lock_in_redis_unless_it_needs_no_number(
    redis_url: str, key_prefix: str, tmp_path: Path, mariadb_center_url: str
) -> None:
    settings = Settings(
        home=tmp_path, database_url=mariadb_center_url, redis_url=redis_url, key_prefix=key_prefix
    )
    kit = Taskkit(settings)
    with kit.redis_lock("warm"):
        pass

    def away(_name: str) -> int:
        raise DatabaseUnavailable("away")

    kit.center.locks.next_fence = away  # type: ignore[method-assign]
    with pytest.raises(DatabaseUnavailable):
        kit.redis_lock("nightly").acquire()
    with kit.redis_lock("nightly", fenced=False, timeout=0) as lock:
        lock.check()
        with pytest.raises(LockError, match="fenced=False"):
            lock.fence
    kit.close()


def test_a_set_whose_reply_was_lost_leaves_no_lock_behind() -> None:
    class Cut(MemoryTokens):
        def take(self, key: bytes, token: str, life: float) -> bool:
            super().take(key, token, life)
            raise BrokerUnavailable("cut")

    tokens = Cut()
    with pytest.raises(BrokerUnavailable):
        TokenLocks(tokens, str.encode, None).take("nightly", "one", 30)
    assert tokens.read(b"nightly") is None


# where


def test_a_row_that_somebody_deleted_is_a_loss_and_is_made_anew_sched_01(kit: Taskkit) -> None:
    """A missing row never means that two may go on unlocked."""
    with pytest.raises(LockLost), kit.lock("nightly", ttl=0.6) as lock:
        sql(kit.center, "DELETE FROM task_lock")
        wait_until(lambda: lock.lost)
        with kit.lock("nightly", timeout=0):
            assert not kit.lock("nightly").acquire(blocking=False)


def test_the_default_works_while_redis_is_away(center_url: str, tmp_path: Path) -> None:
    settings = Settings(
        home=tmp_path, database_url=center_url, redis_url=f"redis://127.0.0.1:{free_port()}/0"
    )
    kit = Taskkit(settings)
    with kit.lock("nightly") as lock:
        assert not kit.lock("nightly").acquire(blocking=False)
        lock.check()
    with pytest.raises(BrokerUnavailable):
        kit.redis_lock("nightly").acquire()
    kit.close()


def test_redis_on_the_embedded_default_must_be_running(tmp_path: Path) -> None:
    kit = Taskkit(Settings(home=tmp_path))
    with kit.lock("nightly"), pytest.raises(BrokerUnavailable, match="start `taskkit up`"):
        kit.redis_lock("nightly").acquire()
    kit.close()


def test_in_the_sandbox_both_flavours_work_without_servers(flavour: str) -> None:
    kit = Taskkit(Settings())

    @kit.task("guarded")
    def guarded() -> int:
        with lock_of(kit, flavour, "nightly", timeout=0) as lock:
            return lock.fence

    with Sandbox(kit) as box:
        ids = [guarded.enqueue(), guarded.enqueue()]
        box.run()
        assert [box.result(task_id) for task_id in ids] == [1, 2]


def test_making_a_lock_opens_nothing(tmp_path: Path) -> None:
    kit = Taskkit(Settings(home=tmp_path / "home"))
    assert repr(kit.lock("nightly")) == "<DistributedLock 'nightly' free>"
    assert repr(kit.redis_lock("nightly")) == "<DistributedLock 'nightly' free>"
    assert not (tmp_path / "home").exists()


# names and numbers

GOOD = [
    "支付😀完成",
    "a{b}c",
    "{",
    "}{",
    "%7B",
    "a" * 190,
    "支" * 190,
    "😀" * 190,
    "a b",
    "'; DROP TABLE task_lock; --",
    "\\",
]


@pytest.mark.parametrize("name", GOOD, ids=ascii)
def test_a_name_may_be_any_text(kit: Taskkit, flavour: str, name: str) -> None:
    with lock_of(kit, flavour, name) as lock:
        assert lock.fence == 1
        assert not lock_of(kit, flavour, name).acquire(blocking=False)


def test_rule_27_a_key_stands_behind_the_prefix_with_a_hash_tag(kit: Taskkit, key_prefix: str) -> None:
    with kit.redis_lock("a{b}", ttl=20), redis.Redis.from_url(str(kit.settings.redis_url)) as client:
        (key,) = client.keys("*")
        assert key == f"{key_prefix}task:lock:{{a%7Bb%7D}}".encode()
        assert 15_000 < client.pttl(key) <= 20_000


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("a" * 191, "has 191 letters, at most 190 fit"),
        ("", "must not be empty"),
        (" a", "white space"),
        ("a\0b", "control characters"),
        ("\ud800", "control characters"),
        (7, "must be text"),
    ],
)
def test_a_name_that_does_not_fit_is_refused(flavour: str, name: str, problem: str) -> None:
    with pytest.raises(InputError, match=f"name: .*{problem}"):
        lock_of(Taskkit(Settings()), flavour, name)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("ttl", 0),
        ("ttl", -1),
        ("ttl", 86_401),
        ("ttl", float("nan")),
        ("ttl", "30"),
        ("timeout", -1),
        ("timeout", "1"),
    ],
)
def test_a_number_that_makes_no_sense_is_refused(flavour: str, field: str, value: object) -> None:
    with pytest.raises(InputError, match=f"{field}: must be"):
        lock_of(Taskkit(Settings()), flavour, "nightly", **{field: value})


def test_a_repr_shows_no_secret(kit: Taskkit, flavour: str) -> None:
    with lock_of(kit, flavour, "nightly") as lock:
        assert repr(lock) == "<DistributedLock 'nightly' held, fence 1>"
        if flavour == "sql":
            ((holder,),) = sql(kit.center, "SELECT holder FROM task_lock")
        else:
            with redis.Redis.from_url(str(kit.settings.redis_url)) as client:
                holder = client.get(client.keys("*")[0]).decode()
        assert f":{os.getpid()}:" in holder
        shown = repr(lock) + repr(kit) + repr(kit.center) + repr(kit.center.locks)
        assert holder.rsplit(":", 1)[1] not in shown
        assert ":taskkit@" not in shown


def test_a_stopwatch_that_ran_out_while_the_answer_came_is_no_lock(
    kit: Taskkit, monkeypatch: pytest.MonkeyPatch
) -> None:
    take = kit.center.locks.take

    def slow(name: str, holder: str, ttl: float) -> int | None:
        found = take(name, holder, ttl)
        time.sleep(ttl * 1.1)
        return found

    monkeypatch.setattr(kit.center.locks, "take", slow)
    assert not kit.lock("nightly", ttl=0.2).acquire(blocking=False)
    monkeypatch.undo()
    assert kit.lock("nightly").acquire(blocking=False), "and it was given back"
