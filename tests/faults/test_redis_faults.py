"""A broker in trouble under real schedulers and workers: nothing accepted is lost, nothing runs twice, nobody gives up."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from taskkit.model import ListName
from taskkit.states import Status
from tests.conftest import EXTERNAL_DATABASE
from tests.processes import Installation, Process, on_servers
from tests.relay import Relay
from tests.servers import Valkey, available
from tests.waiting import wait_until

pytestmark = pytest.mark.faults
QUICK: dict[str, Any] = {
    "scheduler_recover_every_s": 0.2,
    "scheduler_lost_after_s": 1,
    "scheduler_heartbeat_s": 0.5,
    "worker_heartbeat_s": 0.5,
    "worker_processes": 1,
}


@pytest.fixture(scope="module")
def broker() -> Iterator[Valkey]:
    """A Valkey that these tests starve and turn into a replica."""
    with available(Valkey) as server:
        yield server


@pytest.fixture
def admin(broker: Valkey) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(broker.url) as client:
        yield client


@pytest.fixture
def database(request: pytest.FixtureRequest) -> str:
    return EXTERNAL_DATABASE or str(request.getfixturevalue("mariadb").url)


@pytest.fixture
def home(tmp_path: Path, database: str, broker: Valkey) -> Iterator[Installation]:
    with on_servers(tmp_path, database, broker.url, **QUICK) as one:
        yield one


@pytest.fixture
def relay(broker: Valkey) -> Iterator[Relay]:
    with Relay(broker.port) as found:
        yield found


@pytest.fixture
def behind_relay(tmp_path: Path, database: str, relay: Relay) -> Iterator[Installation]:
    """An installation that reaches its broker through a network that a test may break."""
    with on_servers(tmp_path, database, f"redis://127.0.0.1:{relay.port}/0", **QUICK) as one:
        yield one


def outcomes(home: Installation, ids: list[int]) -> Counter[str]:
    return Counter(run.outcome.value for run in home.kit.center.read.runs(ids))


def told(process: Process, text: str) -> int:
    return sum(text in line["message"] for line in process.lines())


def effects(notes: Path) -> Counter[int]:
    return Counter(Counter(line.split()[0] for line in notes.read_text().splitlines()).values())


def no_complaint(*processes: Process) -> bool:
    """All of them live, in the process they started as, and nobody logged an error."""
    return all(p.popen.poll() is None and p.lines(level="error") == [] for p in processes)


def test_redis_03_a_network_that_drops_packets_silently_is_noticed_and_left(
    behind_relay: Installation, relay: Relay, tmp_path: Path
) -> None:
    """The old connections stay half open for ever; new ones are made, and what comes meanwhile runs once."""
    home, notes = behind_relay, tmp_path / "notes"
    scheduler, worker = home.scheduler(), home.worker("--queue", "mark")
    first = home.enqueue("mark", {"path": str(notes)})
    home.wait(first, seconds=30)
    relay.silent = True
    meanwhile = home.enqueue_many("mark", [{"path": str(notes)}] * 5)
    wait_until(lambda: told(worker, "pulling messages failed"), 30)
    wait_until(lambda: told(scheduler, "is tried again"), 30)
    relay.silent = False
    after = home.enqueue_many("mark", [{"path": str(notes)}] * 5)
    home.wait_all(meanwhile + after, Status.SUCCESS, seconds=40)
    assert effects(notes) == {1: 11}
    assert no_complaint(scheduler, worker)


def test_redis_03_a_worker_that_starts_while_redis_loads_its_data_works_as_soon_as_it_is_up(
    behind_relay: Installation, relay: Relay
) -> None:
    home = behind_relay
    relay.answer = b"-LOADING Redis is loading the dataset in memory\r\n"
    scheduler, worker = home.scheduler(), home.worker("--queue", "echo")
    task_id = home.enqueue("echo")
    wait_until(lambda: told(worker, "loading its data"), 30)
    wait_until(lambda: told(scheduler, "loading its data"), 30)
    relay.answer = None
    assert home.wait(task_id, seconds=30).status is Status.SUCCESS
    assert home.outcomes(task_id) == ["success"]
    assert no_complaint(scheduler, worker)


def test_redis_03_a_stop_is_clean_while_redis_is_silent(behind_relay: Installation, relay: Relay) -> None:
    worker = behind_relay.worker("--queue", "echo")
    relay.silent = True
    wait_until(lambda: told(worker, "pulling messages failed"), 30)
    worker.signal(signal.SIGTERM)
    assert worker.wait(20) == 0


def test_redis_03_kills_a_stop_and_a_start_and_a_freeze_cost_no_task(
    home: Installation, broker: Valkey, admin: redis.Redis, tmp_path: Path
) -> None:
    """While tasks keep coming; each runs once, in the processes that were there at the beginning."""
    notes = tmp_path / "notes"
    scheduler, worker = home.scheduler(), home.worker("--queue", "mark")
    ids: list[int] = []

    def more() -> None:
        ids.extend(home.enqueue_many("mark", [{"path": str(notes)}] * 20))

    for _ in range(3):
        more()
        admin.client_kill_filter(_type="normal", skipme=True)
    home.wait_all(ids, Status.SUCCESS, seconds=40)
    broker.stop()
    more()
    wait_until(lambda: told(worker, "pulling messages failed"), 30)
    broker.start()
    more()
    home.wait_all(ids, Status.SUCCESS, seconds=40)
    broker.pause()
    more()
    before = told(worker, "pulling messages failed")
    wait_until(lambda: told(worker, "pulling messages failed") > before, 30)
    broker.resume()
    home.wait_all(ids, Status.SUCCESS, seconds=40)
    assert effects(notes) == {1: 120}
    assert no_complaint(scheduler, worker)


def test_redis_06_without_memory_tasks_are_taken_and_accepted_and_go_out_when_there_is_some(
    home: Installation, admin: redis.Redis, tmp_path: Path
) -> None:
    """Whatever was accepted ends once; workers beat in SQL, so that nobody is taken for dead."""
    notes = tmp_path / "notes"
    scheduler = home.scheduler()
    queued = home.enqueue_many("mark", [{"path": str(notes)}] * 20)
    wait_until(lambda: depth(home, "mark") == 20, 20)
    admin.config_set("maxmemory", "1")
    try:
        worker = home.worker("--queue", "mark")
        home.wait_all(queued, Status.SUCCESS, seconds=40)
        accepted = home.enqueue_many("mark", [{"path": str(notes)}] * 10)
        wait_until(lambda: told(scheduler, "refused 10 tasks, put back"), 30)
        assert {t.status for t in home.kit.center.read.tasks(accepted)} <= {
            Status.PENDING,
            Status.DISPATCHED,
        }
    finally:
        admin.config_set("maxmemory", "0")
    home.wait_all(accepted, Status.SUCCESS, seconds=40)
    assert outcomes(home, queued + accepted) == {"success": 30}, "a refusal is no attempt that was lost"
    assert effects(notes) == {1: 30}
    assert no_complaint(scheduler, worker)


def depth(home: Installation, queue: str) -> int:
    assert home.kit.queue is not None
    name = ListName(queue)
    return home.kit.queue.depth([name])[name]


def test_rule_04_guarantee_1_a_failover_to_an_empty_replica_loses_nothing(
    home: Installation, admin: redis.Redis, tmp_path: Path
) -> None:
    """What had been pushed is gone with the old master; what the replica refuses is put back."""
    notes = tmp_path / "notes"
    scheduler = home.scheduler()
    pushed = home.enqueue_many("mark", [{"path": str(notes)}] * 20)
    wait_until(lambda: depth(home, "mark") == 20, 20)
    with available(Valkey) as other:
        admin.replicaof("127.0.0.1", str(other.port))
        wait_until(lambda: admin.info("replication")["master_link_status"] == "up", 30)
        refused = home.enqueue_many("mark", [{"path": str(notes)}] * 20)
        wait_until(lambda: told(scheduler, "read-only replica"), 30)
        wait_until(lambda: statuses(home, refused) == {Status.PENDING: 20}, 30)
        admin.replicaof("NO", "ONE")
    worker = home.worker("--queue", "mark")
    home.wait_all(pushed + refused, Status.SUCCESS, seconds=40)
    assert effects(notes) == {1: 40}
    found = outcomes(home, pushed + refused)
    assert (found["success"], set(found) <= {"success", "lost"}) == (40, True)
    assert no_complaint(scheduler, worker)


def statuses(home: Installation, ids: list[int]) -> Counter[Status]:
    return Counter(status for status, *_ in home.kit.center.read.statuses(ids).values())
