"""Several real schedulers at once: each task once, bounded lists, and a broker that fails in every way."""

from __future__ import annotations

import contextlib
import signal
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from urllib.parse import urlsplit

import pytest
import redis

from taskkit import Settings
from taskkit.model import ListName
from taskkit.states import Status
from tests.centers import occurrences
from tests.conftest import DATABASES, EXTERNAL_DATABASE
from tests.databases import connect, fresh_database
from tests.processes import Installation, Process
from tests.servers import Valkey
from tests.waiting import wait_until

WINDOW, BATCH, SCHEDULERS = 300, 100, 3
QUICK = {
    "scheduler_window": WINDOW,
    "scheduler_batch": BATCH,
    "scheduler_heartbeat_s": 0.5,
    "worker_heartbeat_s": 0.5,
}


class Trio:
    """Three schedulers on one database, and a broker of their own that a test may break."""

    def __init__(self, home: Installation, broker: Valkey) -> None:
        self.home, self.broker = home, broker
        self.schedulers: list[Process] = [home.begin("scheduler") for _ in range(SCHEDULERS)]
        for scheduler in self.schedulers:
            scheduler.ready()

    def depth(self, queue: str, priority: int = 5) -> int:
        assert self.home.kit.queue
        name = ListName(queue, priority)
        return self.home.kit.queue.depth([name])[name]

    def drain(self, queue: str, n: int = 100) -> list[int]:
        """What a worker would get now."""
        assert self.home.kit.queue
        return [message.task_id for _, message in self.home.kit.queue.pull([queue], n, 0.05).messages]

    def statuses(self, ids: list[int]) -> Counter[Status]:
        return Counter(status for status, *_ in self.home.kit.center.read.statuses(ids).values())


@pytest.fixture(scope="module", params=DATABASES)
def trio(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trio]:
    folder = tmp_path_factory.mktemp("trio")
    server = EXTERNAL_DATABASE if request.param == "external" else None
    if request.param == "mariadb":
        server = request.getfixturevalue("mariadb").url
    with contextlib.ExitStack() as stack:
        broker = stack.enter_context(Valkey())
        plain = server is None or urlsplit(server).scheme.startswith("sqlite")
        url = f"sqlite:///{folder}/x.db" if plain else stack.enter_context(fresh_database(str(server)))
        settings = Settings(
            home=folder / "home", database_url=url, redis_url=broker.url, key_prefix="trio:", short_way=False
        )
        home = stack.enter_context(Installation(folder, settings=settings, **QUICK))
        found = Trio(home, broker)
        yield found
        assert [scheduler.stop(5) for scheduler in found.schedulers] == [0] * SCHEDULERS, (
            "SIGTERM is an order"
        )
        assert home.kit.center.nodes.schedulers() == []
        assert [scheduler.err.read_text() for scheduler in found.schedulers] == [""] * SCHEDULERS


def test_rule_05_sched_01_each_task_is_dispatched_once_and_no_list_outgrows_its_window(trio: Trio) -> None:
    """One of the schedulers is stopped in the middle, wherever it is; a late urgent task overtakes 1,500 others."""
    ids = trio.home.enqueue_many("crowd", [{}] * 1500)
    wait_until(lambda: trio.depth("crowd") >= WINDOW)
    urgent = trio.home.enqueue("crowd", priority=0)
    wait_until(lambda: trio.depth("crowd", 0) == 1, 3)
    first = trio.drain("crowd", 2)  # one in twenty is of the lowest
    assert urgent in first
    got = [task_id for task_id in first if task_id != urgent]
    deepest = 0
    trio.home.freeze(trio.schedulers[0].pid)
    while len(got) < len(ids):
        deepest = max(deepest, trio.depth("crowd"))
        got += trio.drain("crowd")
        if len(got) > len(ids) // 2:
            trio.schedulers[0].signal(signal.SIGCONT)
    assert sorted(got) == ids
    assert deepest <= WINDOW + SCHEDULERS * BATCH
    assert trio.statuses(ids) == {Status.DISPATCHED: len(ids)}
    assert {task.attempt for task in trio.home.kit.center.read.tasks(ids)} == {1}
    assert trio.drain("crowd") == []


def test_every_scheduler_takes_part(trio: Trio) -> None:
    def all_have() -> bool:
        trio.home.enqueue_many("share", [{}] * 50)
        trio.drain("share", 1000)
        rows = [scheduler.row() for scheduler in trio.schedulers]
        return all(row and row["dispatched"] for row in rows)

    wait_until(all_have, 20, every=0.1)
    row = trio.schedulers[0].row()
    assert row is not None
    assert abs(row["clock_offset_ms"]) < 1000
    assert row["tzdata_version"]


def plain_insert(home: Installation, code: str) -> None:
    """A producer in another language, whose session is in another zone, writes a task that is due now."""
    statement = (
        f"INSERT INTO task_center (task_code, payload, plan_next_run_at) VALUES ('{code}', '{{}}', NOW())"
    )
    url = str(home.settings.database_url)
    if url.startswith("sqlite"):
        with contextlib.closing(sqlite3.connect(url.removeprefix("sqlite:///"), timeout=10)) as link, link:
            link.execute(statement.replace("NOW()", "datetime('now')"))
        return
    with contextlib.closing(connect(url)) as link, link.cursor() as cursor:
        cursor.execute("SET time_zone = '+08:00'")
        cursor.execute(statement)


def test_rule_06_a_plain_insert_is_dispatched_within_a_second(trio: Trio) -> None:
    waited = []
    for n in range(3):
        plain_insert(trio.home, f"plain{n}")
        begun = time.monotonic()
        wait_until(lambda n=n: trio.depth(f"plain{n}"), 5)  # type: ignore[misc]
        waited.append(time.monotonic() - begun)
    assert min(waited) < 1, waited


def test_rule_04_without_a_broker_tasks_stay_pending_and_go_out_when_it_is_back(trio: Trio) -> None:
    """The rows are not touched meanwhile, producers are not held up, and nobody gives up."""
    pids = [scheduler.pid for scheduler in trio.schedulers]
    failed = "the dispatch scan failed and is tried again"
    before = [told(scheduler, failed) for scheduler in trio.schedulers]
    trio.broker.kill()
    begun = time.monotonic()
    ids = trio.home.enqueue_many("away", [{}] * 200)
    assert time.monotonic() - begun < 20
    wait_until(lambda: all(told(s, failed) > n for s, n in zip(trio.schedulers, before, strict=True)))
    assert trio.statuses(ids) == {Status.PENDING: 200}
    assert {task.attempt for task in trio.home.kit.center.read.tasks(ids)} == {0}
    trio.broker.start()
    got: list[int] = []
    deadline = time.monotonic() + 15
    while len(got) < 200 and time.monotonic() < deadline:
        got += trio.drain("away")
    assert sorted(got) == ids
    assert [scheduler.pid for scheduler in trio.schedulers if scheduler.popen.poll() is None] == pids
    for scheduler, n in zip(trio.schedulers, before, strict=True):
        wait_until(lambda s=scheduler: "works again" in warnings(s, "the dispatch scan")[-1])  # type: ignore[misc]
        failures = warnings(scheduler, failed)[n:]
        assert failures
        assert len(set(failures)) == len(failures), "each way of failing once, not with every try"


def warnings(scheduler: Process, text: str) -> list[str]:
    """Those that say so."""
    return [line["message"] for line in scheduler.lines(level="warning") if text in line["message"]]


def told(scheduler: Process, text: str) -> int:
    """How many warnings say so."""
    return len(warnings(scheduler, text))


def test_rule_04_redis_06_a_broker_without_memory_puts_tasks_back_until_it_has_some(trio: Trio) -> None:
    """Refused pushes leave no run and no retry, and each task goes out once in the end."""
    with redis.Redis.from_url(trio.broker.url) as admin:
        admin.config_set("maxmemory", "1")
        ids = trio.home.enqueue_many("full", [{}] * 50)
        wait_until(lambda: sum(task.attempt for task in trio.home.kit.center.read.tasks(ids)) > 0)
        wait_until(lambda: trio.statuses(ids) == {Status.PENDING: 50})
        assert trio.depth("full") == 0
        admin.config_set("maxmemory", "0")
    got: list[int] = []
    wait_until(lambda: got.extend(trio.drain("full")) or len(got) >= 50, 15)  # type: ignore[func-returns-value]
    assert sorted(got) == ids
    tasks = trio.home.kit.center.read.tasks(ids)
    assert {(task.status, task.retry_count) for task in tasks} == {(Status.DISPATCHED, 0)}
    assert trio.home.kit.center.read.runs(ids) == []
    assert any(told(scheduler, "put back") for scheduler in trio.schedulers)


def test_redis_01_c_a_broker_that_may_drop_messages_is_named_at_the_start(trio: Trio) -> None:
    """With such a policy whole lists vanish when memory is full."""
    with redis.Redis.from_url(trio.broker.url) as admin:
        admin.config_set("maxmemory-policy", "allkeys-lru")
        fourth = trio.home.scheduler()
        admin.config_set("maxmemory-policy", "noeviction")
    assert told(fourth, "maxmemory-policy allkeys-lru") == 1
    assert fourth.stop(5) == 0
    assert not any(told(scheduler, "maxmemory-policy") for scheduler in trio.schedulers)


def test_guarantee_4_sched_10_periodic_tasks_fire_on_time_and_never_overlap_themselves(trio: Trio) -> None:
    worker = trio.home.worker("--queue", "cron", "--processes", "2")
    quick, slow = (
        trio.home.enqueue(code, payload, cron="* * * * * *", queue="cron")
        for code, payload in (("echo", {}), ("nap", {"seconds": 1.2}))
    )
    read = trio.home.kit.center.read
    wait_until(lambda: len(read.runs([slow])) >= 2, 20)
    for task_id in (quick, slow):
        trio.home.kit.operations.cancel(task_id, "tester")
    wait_until(lambda: all(t.status is Status.CANCELLED for t in read.tasks([quick, slow])))
    assert worker.stop() == 0
    on_time(trio, quick)
    runs = read.runs([slow])
    for before, after in pairwise(runs):
        assert after.started_at
        assert before.finished_at <= after.started_at
    skipped = occurrences(trio.home.kit.center, slow, "skipped")
    assert any("still running" in (o.reason or "") for o in skipped)
    assert {o.planned_at for o in skipped} & {run.occurrence_at for run in runs} == set()


def on_time(trio: Trio, task_id: int) -> None:
    """Every second had one firing of its own, soon after its time."""
    fired = occurrences(trio.home.kit.center, task_id, "fired")
    runs = trio.home.runs(task_id)
    assert len(fired) >= 3
    assert sorted(str(run.occurrence_at) for run in runs) == sorted({str(run.occurrence_at) for run in runs})
    assert {run.occurrence_at for run in runs} <= {o.planned_at for o in fired}
    late = sorted(o.late_s for o in fired if o.late_s is not None)
    assert late[0] >= 0
    assert late[len(late) // 2] < 1
