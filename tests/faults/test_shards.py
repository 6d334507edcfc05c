"""Split queues with real processes: a worker that stands still, a number that changes under load, an emptied broker."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from taskkit import Settings
from taskkit.states import Status
from tests.conftest import EXTERNAL_DATABASE
from tests.processes import Installation, Process, on_servers
from tests.servers import Valkey, available
from tests.waiting import wait_until

pytest_plugins = ["tests.stacks"]
pytestmark = pytest.mark.faults
QUICK = {"scheduler_lost_after_s": 1.5, "scheduler_recover_every_s": 0.2, "worker_processes": 2}


@pytest.fixture
def broker() -> Iterator[Valkey]:
    """A server that a test may look into and empty."""
    with available(Valkey) as server:
        yield server


@pytest.fixture
def client(broker: Valkey) -> Iterator[redis.Redis]:
    with redis.Redis(port=broker.port) as found:
        yield found


@pytest.fixture(params=["sqlite", "mariadb"])
def home(request: pytest.FixtureRequest, tmp_path: Path, broker: Valkey) -> Iterator[Installation]:
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path}/shared.db"
        settings = Settings(home=tmp_path / "home", database_url=url, redis_url=broker.url)
        with Installation(tmp_path, settings=settings, **QUICK) as one:
            yield one
        return
    database = EXTERNAL_DATABASE or request.getfixturevalue("mariadb").url
    with on_servers(tmp_path, database, broker.url, **QUICK) as one:
        yield one


def workers(home: Installation, count: int) -> list[Process]:
    started = [
        home.begin("worker", "--app", "tests.sample_app:kit", "--queue", "mark,nap") for _ in range(count)
    ]
    return [process.ready(60) for process in started]


def waiting(client: redis.Redis) -> int:
    """How many workers wait in the broker for a message."""
    return sum(one["cmd"] == "blmpop" and "b" in one["flags"] for one in client.client_list())


def effects(notes: Path) -> Counter[int]:
    return Counter(int(line.split()[0]) for line in notes.read_text().splitlines())


def test_the_shard_of_a_worker_that_stands_still_is_not_stranded(
    home: Installation, client: redis.Redis, notes: Path
) -> None:
    """Stopped while it waits: what then comes to its shard runs on the other one, and nothing is rung again for it."""
    home.kit.operations.set_shards("mark", 2)
    home.scheduler()
    still, other = workers(home, 2)
    still_id, other_id = still.id, other.id
    wait_until(lambda: waiting(client) == 2)
    still.signal(signal.SIGSTOP)
    try:
        wait_until(lambda: waiting(client) == 1)
        ids = home.enqueue_many("mark", [{"path": str(notes)}] * 80)
        assert {i % 2 for i in ids} == {0, 1}
        home.wait_all(ids, Status.SUCCESS, seconds=60)
        runs = home.kit.center.read.runs(ids)
        assert {(run.worker_id, run.attempt) for run in runs} == {(other_id, 1)}
    finally:
        still.signal(signal.SIGCONT)
    assert effects(notes) == Counter(ids)
    wait_until(lambda: waiting(client) == 2)
    more = home.enqueue_many("mark", [{"path": str(notes)}] * 400)
    home.wait_all(more, Status.SUCCESS, seconds=60)
    assert {run.worker_id for run in home.kit.center.read.runs(more)} <= {still_id, other_id}
    assert [still.stop(), other.stop()] == [0, 0]


def test_guarantee_1_changing_the_number_of_shards_under_load_loses_and_doubles_nothing(
    home: Installation, notes: Path
) -> None:
    """By the short way and by the schedulers; the numbers go up and down while tasks wait, run and are enqueued."""
    schedulers = [home.scheduler(), home.scheduler()]
    crowd = workers(home, 2)
    ids: list[int] = []
    for number in (4, 1, 8, 2, 3):
        home.kit.operations.set_shards("mark", number)
        for batch in range(4):
            options = {"delay": 0.01} if batch % 2 else {}
            ids += home.enqueue_many("mark", [{"path": str(notes)}] * 25, **options)
            ids.append(home.enqueue("mark", {"path": str(notes)}))
        done = ids[: len(ids) // 2]
        home.wait_all(done, Status.SUCCESS, seconds=60)
    home.wait_all(ids, Status.SUCCESS, seconds=60)
    assert effects(notes) == Counter(ids), "each ran once"
    assert {(run.attempt, run.outcome.value) for run in home.kit.center.read.runs(ids)} == {(1, "success")}
    for process in (*schedulers, *crowd):
        assert not process.lines(level="error")


def test_guarantee_1_an_emptied_broker_gets_the_messages_of_all_shards_back(
    home: Installation, client: redis.Redis, notes: Path
) -> None:
    home.kit.operations.set_shards("mark", 4)
    ids = home.enqueue_many("mark", [{"path": str(notes)}] * 200)
    home.scheduler()
    wait_until(lambda: home.kit.center.read.counts()[Status.DISPATCHED] == 200)
    assert len(client.keys("*task:queue:{mark*")) == 4
    client.flushall()
    workers(home, 2)
    home.wait_all(ids, Status.SUCCESS, seconds=60)
    assert effects(notes) == Counter(ids)
    assert {run.outcome.value for run in home.kit.center.read.runs(ids)} == {"lost", "success"}
