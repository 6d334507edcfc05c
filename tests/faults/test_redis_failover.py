"""A cluster's master, or one that sentinels watch, dies under a running installation: tasks end, each run once."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from taskkit import Taskkit
from taskkit.model import ListName, Message
from taskkit.queues import connect
from taskkit.queues.keys import Keys
from taskkit.states import Status
from tests.commands import cli, done
from tests.processes import APP, Installation, on_servers
from tests.redis_places import Cluster, Watched, ask
from tests.servers import MariaDB, Valkey
from tests.waiting import wait_until

pytestmark = pytest.mark.faults
BACK_S = 90.0
"""A failover takes some seconds, and after it recovery proves which messages went with the old master."""
PATIENCE = {"scheduler_lost_after_s": 1.5, "scheduler_recover_every_s": 0.3, "worker_processes": 2}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as found:
        yield found


@pytest.fixture(params=["cluster", "sentinel"])
def place(request: pytest.FixtureRequest) -> Iterator[Cluster | Watched]:
    """A broker of its own, which the test may break."""
    with Cluster() if request.param == "cluster" else Watched() as found:
        yield found


@pytest.fixture
def home(
    place: Cluster | Watched, tmp_path_factory: pytest.TempPathFactory, mariadb: MariaDB
) -> Iterator[Installation]:
    with on_servers(tmp_path_factory.mktemp("failover"), mariadb.url, place.url, **PATIENCE) as found:
        yield found


def master_of(place: Cluster | Watched, home: Installation, queue: str) -> Any:
    """The server whose death takes the queue's messages with it."""
    if isinstance(place, Watched):
        return place.master()
    return place.owner(Keys(home.settings.key_prefix or "").list(ListName(queue)))


def marked(file: Path) -> Counter[str]:
    """How often each task wrote its line."""
    return Counter(line.split()[0] for line in file.read_text().splitlines()) if file.exists() else Counter()


def test_redis_07_guarantee_1_a_master_dies_and_every_task_runs_once(
    place: Cluster | Watched, home: Installation, tmp_path: Path
) -> None:
    """The short way, the scheduler's, a lock and ``once`` go on with the new master; so do probe and doctor."""
    file = tmp_path / "marks"
    home.scheduler()
    home.begin("worker", "--app", APP, "--queue", "mark,echo").ready()
    assert home.wait(home.enqueue("echo")).status is Status.SUCCESS
    ids = home.enqueue_many("mark", [{"path": str(file)}] * 200)
    old = master_of(place, home, "mark")
    ids += home.enqueue_many("mark", [{"path": str(file)}] * 200, delay=1)
    old.kill()
    for _ in range(20):
        ids += home.enqueue_many("mark", [{"path": str(file)}] * 10)
    wait_until(lambda: master_of(place, home, "mark") is not old, BACK_S)
    ids += home.enqueue_many("mark", [{"path": str(file)}] * 50, delay=1)
    assert {task.status for task in home.wait_all(ids, seconds=BACK_S)} == {Status.SUCCESS}
    assert marked(file) == Counter({str(task_id): 1 for task_id in ids})
    assert home.wait(home.enqueue("echo")).status is Status.SUCCESS


def test_locks_once_probe_and_doctor_work_across_a_failover(
    place: Cluster | Watched, home: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key, value in home.environment.items():
        if key.startswith("TASKKIT_"):
            monkeypatch.setenv(key, value)
    home.scheduler()
    home.begin("worker", "--app", APP, "--queue", "mark").ready()
    assert done("probe", "mark", "--json").json["arrived"]
    wanted = {"broker.reachable", "broker.commands", "broker.version", "broker.role"}
    wanted |= {"broker.cluster"} if isinstance(place, Cluster) else set()
    assert findings("broker.") >= wanted
    with home.kit.redis_lock("nightly", ttl=30) as held:
        fence = held.fence
    with home.kit.redis_once("invoice-1") as once:
        assert once.first
    master_of(place, home, "mark").kill()
    wait_until(lambda: cli("probe", "mark", "--json", "--deadline", "3").code == 0, BACK_S)
    wait_until(lambda: works(home.kit), BACK_S)
    with home.kit.redis_lock("nightly", ttl=30) as held:
        assert held.fence > fence
    with home.kit.redis_once("invoice-2") as once:
        assert once.first


def works(kit: Taskkit) -> bool:
    """Whether a lock and ``once`` of several slots can be had."""
    from taskkit.errors import BrokerUnavailable

    try:
        for n in range(6):
            with kit.redis_lock(f"lock-{n}", ttl=5):
                pass
    except BrokerUnavailable:
        return False
    return True


def findings(prefix: str) -> set[str]:
    """The ids of what doctor found fine."""
    found = cli("doctor", "--json").json["findings"]
    return {one["id"] for one in found if one["id"].startswith(prefix) and one["level"] == "ok"}


def is_replica(node: Valkey) -> bool:
    """A sentinel that makes it one ends its clients, this one too."""
    try:
        return b"role:slave" in ask(node, "INFO", "replication")
    except redis.ConnectionError:
        return False


def test_a_master_that_was_frozen_and_wakes_up_as_a_replica_takes_nothing_with_it(
    tmp_path_factory: pytest.TempPathFactory, mariadb: MariaDB, tmp_path: Path
) -> None:
    """It still believes itself master for a moment; what it says then is refused or lost, and rung again."""
    file = tmp_path / "marks"
    with (
        Watched() as place,
        on_servers(tmp_path_factory.mktemp("frozen"), mariadb.url, place.url, **PATIENCE) as home,
    ):
        home.scheduler()
        home.begin("worker", "--app", APP, "--queue", "mark").ready()
        old = place.master()
        assert old.process is not None
        old.process.send_signal(signal.SIGSTOP)
        ids = home.enqueue_many("mark", [{"path": str(file)}] * 50, delay=0)
        wait_until(lambda: place.master() is not old, BACK_S)
        old.resume()
        ids += home.enqueue_many("mark", [{"path": str(file)}] * 50)
        assert {task.status for task in home.wait_all(ids, seconds=BACK_S)} == {Status.SUCCESS}
        assert marked(file) == Counter({str(task_id): 1 for task_id in ids})
        wait_until(lambda: is_replica(old), BACK_S)


def test_redis_07_a_slot_that_is_on_its_way_takes_and_gives_messages(
    cluster: Cluster, key_prefix: str
) -> None:
    queue, name = connect(cluster.url, key_prefix), ListName("moving")
    key = Keys(key_prefix).list(name)
    source = cluster.owner(key)
    target = next(node for node in cluster.masters if node is not source)
    cluster.begin_move(key, source, target)
    assert queue.push({name: [Message(1, "moving", 1)]}) == {}, (
        "an empty list stands nowhere: the target takes it"
    )
    assert queue.depth([name]) == {name: 1}
    assert [m.task_id for _, m in queue.pull(["moving"], 5, 0.2).messages] == [1]
    assert queue.pull(["moving"], 5, 0.2).messages == [], "nobody waits in vain"
    assert queue.push({name: [Message(2, "moving", 1)]}) == {}
    cluster.end_move(key, source, target)
    assert [m.task_id for _, m in queue.pull(["moving"], 5, 1).messages] == [2]
    queue.close()


def test_redis_07_names_with_braces_colons_and_letters_of_all_kinds_stay_in_one_slot(
    cluster: Cluster, key_prefix: str
) -> None:
    """All lists of a queue, whatever it is called, are popped by one command."""
    queue = connect(cluster.url, key_prefix)
    for name in ("default", "high", "队列", "a:{b}:c", "}{", "x{y"):
        lists = [ListName(name, priority) for priority in (0, 5, 9)]
        assert queue.push({one: [Message(n, name, 1)] for n, one in enumerate(lists, 1)}) == {}
        assert sum(queue.depth(lists).values()) == 3
        got = [m.task_id for _ in range(3) for _, m in queue.pull([name], 1, 1).messages]
        assert got == [1, 2, 3]
    queue.close()


def test_a_worker_has_two_connections_to_each_master_of_a_cluster(
    cluster: Cluster, tmp_path_factory: pytest.TempPathFactory, mariadb: MariaDB
) -> None:
    """As many as on a single server, seen from any server."""
    folder = tmp_path_factory.mktemp("shared")
    with on_servers(folder, mariadb.url, cluster.url, worker_processes=4) as home:
        home.scheduler()
        worker = home.begin("worker", "--app", APP).ready()
        ids = [home.enqueue(code) for code in ("echo", "whoami", "never") for _ in range(30)]
        home.wait_all(ids)
        for node in cluster.masters:
            names = [
                line for line in ask(node, "CLIENT", "LIST").decode().splitlines() if "taskkit-worker" in line
            ]
            assert len([line for line in names if f":{worker.pid} " in line]) <= 2


def test_an_account_of_a_cluster_must_read_its_map_and_the_grants_of_the_page_are_enough(
    cluster: Cluster, key_prefix: str
) -> None:
    least = ["on", ">s3cret", f"~{key_prefix}*", "+@list", "+@connection", "+type"]
    for node in cluster.nodes:
        ask(node, "ACL", "SETUSER", "narrow", *least)
    url, name = cluster.url.replace("://", "://narrow:s3cret@"), ListName("mail")
    blind = connect(url, key_prefix)
    error = blind.push({name: [Message(1, "mail", 1)]})[name]
    assert "grant it" in str(error)
    assert "+cluster|slots" in str(error)
    blind.close()
    for node in cluster.nodes:
        ask(node, "ACL", "SETUSER", "narrow", "+cluster|slots")
    queue = connect(url, key_prefix)
    assert queue.push({name: [Message(1, "mail", 1)]}) == {}
    assert [m.task_id for _, m in queue.pull(["mail"], 1, 1).messages] == [1]
    queue.close()
    for node in cluster.nodes:
        ask(node, "ACL", "DELUSER", "narrow")
