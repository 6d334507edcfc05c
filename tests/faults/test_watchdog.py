"""The watchdog under fire: killed, doubled, without its stores; each alert is told once, and its end once."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from tests.alarm_rules import STORES
from tests.processes import Installation, Process, on_servers
from tests.robots import WebhookServer, webhook
from tests.servers import MariaDB, Valkey
from tests.waiting import wait_until
from tests.watched import leader, told, watch, watchdog

pytestmark = pytest.mark.faults

LARGE = bool(os.environ.get("TASKKIT_TEST_LARGE"))
KILLS = 20 if LARGE else 4
BACKLOG = """
[[rule]]
id = "backlog"
above = 3
for = "0.5s"
keep_firing = "1s"
per = "queue"
drain_above = "off"
evidence = false
"""
GUARDED = '\n[[rule]]\nid = "watchdog"\n'


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Installation]:
    with Installation(tmp_path, scheduler_heartbeat_s=0.5) as found:
        yield found


def pile_up(home: Installation, queue: str = "unserved", count: int = 6) -> list[int]:
    return home.enqueue_many("echo", [{}] * count, queue=queue)


def clear(home: Installation, ids: list[int]) -> None:
    for task_id in ids:
        home.kit.operations.cancel(task_id, "test")


def settled(
    home: Installation, robot: WebhookServer, wanted: list[tuple[str, str, str]], seconds: float = 30
) -> None:
    """Wait until this was told, and nothing waits in the outbox."""
    wait_until(lambda: told(robot.calls)[: len(wanted)] == wanted, seconds)
    wait_until(lambda: not home.kit.center.outbox.depth(), seconds)


def test_acceptance_3_a_watchdog_that_is_killed_again_and_again_tells_once_that_it_fires_and_once_that_it_is_over(
    home: Installation,
) -> None:
    with webhook() as robot:
        watch(home, {"ops": robot}, BACKLOG)
        home.scheduler()
        ids = pile_up(home)
        rng = random.Random(7)
        dog = watchdog(home)
        for number in range(KILLS):
            if number == KILLS // 2:
                wait_until(lambda: told(robot.calls), 30)
                clear(home, ids)
            time.sleep(rng.uniform(0.0, 1.5))  # the moment of the kill is what varies
            dog.kill()
            dog = watchdog(home)
        settled(home, robot, [("firing", "backlog", "unserved"), ("resolved", "backlog", "unserved")])
        assert Counter(told(robot.calls)) == Counter(
            [("firing", "backlog", "unserved"), ("resolved", "backlog", "unserved")]
        )
        assert [alert.state for alert in home.kit.center.alerts.newest()] == ["resolved"]


def test_acceptance_3_of_two_watchdogs_one_tells_and_the_other_takes_over(home: Installation) -> None:
    with webhook() as robot:
        watch(home, {"ops": robot}, BACKLOG)
        home.scheduler()
        dogs = [watchdog(home), watchdog(home)]
        first = leader(home, dogs)
        ids = pile_up(home, "one")
        settled(home, robot, [("firing", "backlog", "one")])
        first.kill()
        clear(home, ids)
        more = pile_up(home, "two")
        settled(home, robot, [("firing", "backlog", "one")])
        wait_until(
            lambda: {("resolved", "backlog", "one"), ("firing", "backlog", "two")} <= set(told(robot.calls)),
            30,
        )
        clear(home, more)
        wait_until(lambda: ("resolved", "backlog", "two") in told(robot.calls), 30)
        assert max(Counter(told(robot.calls)).values()) == 1


def test_schedulers_tell_that_all_watchdogs_are_dead_and_what_waits_goes_out(home: Installation) -> None:
    with webhook() as robot:
        watch(home, {"ops": robot}, BACKLOG + GUARDED)
        home.environment["TASKKIT_WATCHDOG_DEAD_AFTER_S"] = "3"
        home.begin("scheduler").ready()
        home.begin("scheduler").ready()
        dog = watchdog(home)
        leader(home, [dog])
        with robot.refusing():
            pile_up(home)
            wait_until(home.kit.center.outbox.depth, 20)
            dog.kill()
        wanted = {("firing", "watchdog", ""), ("firing", "backlog", "unserved")}
        wait_until(lambda: set(told(robot.calls)) == wanted, 40)
        watchdog(home)
        wait_until(lambda: ("resolved", "watchdog", "") in told(robot.calls), 30)
        assert max(Counter(told(robot.calls)).values()) == 1


def test_a_watchdog_that_stops_in_order_is_no_alert(home: Installation) -> None:
    with webhook() as robot:
        watch(home, {"ops": robot}, BACKLOG + GUARDED)
        home.environment["TASKKIT_WATCHDOG_DEAD_AFTER_S"] = "1"
        home.scheduler()
        dog = watchdog(home)
        leader(home, [dog])
        assert dog.stop() == 0
        wait_until(lambda: home.kit.center.watchdogs.all()[0]["heartbeat_age_s"] > 3, 10)
        assert told(robot.calls) == []


def test_a_watchdog_that_was_killed_and_replaced_by_one_that_stopped_in_order_is_no_alert(
    home: Installation,
) -> None:
    with webhook() as robot:
        watch(home, {"ops": robot}, BACKLOG + GUARDED)
        home.environment["TASKKIT_WATCHDOG_DEAD_AFTER_S"] = "1"
        home.scheduler()
        first = watchdog(home)
        leader(home, [first])
        first.kill()
        assert watchdog(home).stop() == 0
        wait_until(lambda: home.kit.center.watchdogs.all()[0]["heartbeat_age_s"] > 8, 15)
        assert told(robot.calls) == []


def test_a_silence_covers_what_schedulers_tell_of_dead_watchdogs_too(home: Installation) -> None:
    with webhook() as robot:
        watch(home, {"ops": robot}, BACKLOG + GUARDED)
        home.environment["TASKKIT_WATCHDOG_DEAD_AFTER_S"] = "1"
        home.scheduler()
        dog = watchdog(home)
        leader(home, [dog])
        home.kit.operations.silence(3600, "maintenance", rule="watchdog")
        dog.kill()
        wait_until(lambda: home.kit.center.alerts.newest(["firing"], rule="watchdog"), 15)
        assert not home.kit.center.outbox.depth()
        assert told(robot.calls) == []


def test_sigterm_delivers_what_is_under_way(home: Installation) -> None:
    with webhook() as robot:
        watch(home, {"ops": robot}, BACKLOG)
        home.scheduler()
        dog = watchdog(home)
        pile_up(home)
        wait_until(lambda: home.kit.center.alerts.newest(["firing"]), 20)
        assert dog.stop() == 0
        assert told(robot.calls) == [("firing", "backlog", "unserved")]


def test_sighup_reads_rules_anew_and_keeps_the_old_ones_when_they_are_wrong(home: Installation) -> None:
    rules = home.folder / "alerting" / "rules.toml"
    with webhook() as robot:
        watch(home, {"ops": robot}, BACKLOG.replace("above = 3", "above = 1000"))
        home.scheduler()
        dog = watchdog(home)
        pile_up(home)
        good = rules.read_text()
        rules.write_text(good.replace("above = 1000", "abov = 3"))
        dog.signal(signal.SIGHUP)
        wait_until(lambda: any("stay as they were" in line["message"] for line in dog.lines()), 10)
        assert any(
            "rules.toml" in line["message"] and "abov" in line["message"] for line in dog.lines(level="error")
        )
        rules.write_text(good.replace("above = 1000", "above = 3"))
        dog.signal(signal.SIGHUP)
        settled(home, robot, [("firing", "backlog", "unserved")])


@pytest.fixture
def broken(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> Iterator[tuple[Installation, MariaDB, Valkey]]:
    """An installation on servers that are the test's alone."""
    with MariaDB() as database, Valkey() as broker, on_servers(tmp_path, database.url, broker.url) as home:
        yield home, database, broker


def test_bot_18_acceptance_4_redis_away_is_one_alert_and_hides_the_others(
    broken: tuple[Installation, MariaDB, Valkey],
) -> None:
    home, _, broker = broken
    with webhook() as robot:
        watch(home, {"ops": robot}, BACKLOG + STORES)
        home.scheduler()
        dog = watchdog(home)
        ids = pile_up(home)
        settled(home, robot, [("firing", "backlog", "unserved")])
        broker.stop()
        wait_until(lambda: ("firing", "stores", "redis") in told(robot.calls), 30)
        clear(home, ids)  # what is read meanwhile is not trusted
        rounds = home.kit.center.watchdogs.rules()["backlog"]["checked_at"]
        wait_until(lambda: _looked_again(home, dog, rounds), 20)
        ids = pile_up(home)
        assert told(robot.calls) == [("firing", "backlog", "unserved"), ("firing", "stores", "redis")]
        broker.start()
        wait_until(lambda: ("resolved", "stores", "redis") in told(robot.calls), 30)
        clear(home, ids)
        wait_until(lambda: ("resolved", "backlog", "unserved") in told(robot.calls), 30)
        assert max(Counter(told(robot.calls)).values()) == 1


def _looked_again(home: Installation, dog: Process, before: object) -> bool:
    """The rule was looked at some more times since."""
    assert dog.popen.poll() is None
    row = home.kit.center.watchdogs.rules()["backlog"]
    return (row["checked_at"] - before).total_seconds() > 3  # type: ignore[operator]


def test_dog_02_acceptance_4_sql_away_is_told_without_it_once_and_nothing_is_said_to_be_over(
    broken: tuple[Installation, MariaDB, Valkey],
) -> None:
    home, database, _ = broken
    with webhook() as robot:
        watch(home, {"ops": robot}, BACKLOG + STORES)
        home.scheduler()
        dog, other = watchdog(home), watchdog(home)
        leader(home, [dog, other])
        ids = pile_up(home)
        settled(home, robot, [("firing", "backlog", "unserved")])
        database.stop()
        wait_until(lambda: ("firing", "stores", "sql") in told(robot.calls), 30)
        assert told(robot.calls) == [("firing", "backlog", "unserved"), ("firing", "stores", "sql")]
        database.start()
        wait_until(lambda: ("resolved", "stores", "sql") in told(robot.calls), 60)
        clear(home, ids)
        wait_until(lambda: ("resolved", "backlog", "unserved") in told(robot.calls), 60)
        assert max(Counter(told(robot.calls)).values()) == 1
        assert dog.popen.poll() is None


def test_a_watchdog_that_starts_while_sql_is_away_tells_it(
    broken: tuple[Installation, MariaDB, Valkey],
) -> None:
    home, database, _ = broken
    with webhook() as robot:
        watch(home, {"ops": robot}, STORES)
        database.stop()
        dog = home.begin("watchdog")
        wait_until(lambda: told(robot.calls) == [("firing", "stores", "sql")], 40)
        database.start()
        wait_until(lambda: told(robot.calls)[1:] == [("resolved", "stores", "sql")], 60)
        assert dog.stop() == 0


def test_redis_06_a_redis_without_memory_is_one_alert(broken: tuple[Installation, MariaDB, Valkey]) -> None:
    home, _, broker = broken
    with webhook() as robot, redis.Redis.from_url(broker.url) as client:
        watch(home, {"ops": robot}, STORES)
        watchdog(home)
        client.config_set("maxmemory", client.info("memory")["used_memory"])
        wait_until(lambda: told(robot.calls) == [("firing", "stores", "redis_memory")], 30)
        client.config_set("maxmemory", 0)
        wait_until(lambda: len(told(robot.calls)) > 1, 30)
        assert told(robot.calls) == [
            ("firing", "stores", "redis_memory"),
            ("resolved", "stores", "redis_memory"),
        ]
