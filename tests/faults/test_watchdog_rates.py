"""Real minutes with robots that count: these take long, and run with TASKKIT_TEST_LARGE=1; the rest is tests/unit/test_notices.py."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes import Installation
from tests.robots import DingTalkRobot, WeComRobot, dingtalk_robot, ids_of, wecom_robot
from tests.waiting import wait_until
from tests.watched import watch, watchdog

LARGE = bool(os.environ.get("TASKKIT_TEST_LARGE"))
pytestmark = [
    pytest.mark.faults,
    pytest.mark.skipif(not LARGE, reason="takes minutes; TASKKIT_TEST_LARGE=1 runs it"),
    pytest.mark.timeout(1200),
]
EACH_QUEUE = """
[[rule]]
id = "backlog"
above = 3
for = "0.5s"
per = "queue"
drain_above = "off"
evidence = false
severity = "warning"
"""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Installation]:
    with Installation(tmp_path, scheduler_heartbeat_s=0.5) as found:
        yield found


def sixty_alerts(home: Installation, seconds: float) -> None:
    for number in range(60):
        home.enqueue_many("echo", [{}] * 5, queue=f"q{number}")
        time.sleep(seconds / 60)  # the alerts come one after the other


def test_acceptance_2_sixty_alerts_in_ten_seconds_reach_both_robots_once_each_within_their_rates(
    home: Installation,
) -> None:
    with wecom_robot() as wecom, dingtalk_robot() as ding:
        watch(home, {"wecom": wecom, "ding": ding}, EACH_QUEUE)
        home.scheduler()
        watchdog(home)
        sixty_alerts(home, 10)
        robots: tuple[WeComRobot | DingTalkRobot, ...] = (wecom, ding)
        for robot in robots:
            wait_until(lambda robot=robot: len(set(ids_of(robot.messages))) == 60, 300, every=0.5)
        wait_until(lambda: not home.kit.center.outbox.depth(), 60)
        for robot in robots:
            assert Counter(ids_of(robot.messages)) == Counter(dict.fromkeys(ids_of(robot.messages), 1))
            assert robot.most_in(60) <= 18
            assert robot.calls_in_ban == []


def test_acceptance_2_bot_06_a_ban_of_ten_minutes_is_respected_and_followed_by_one_digest(
    home: Installation,
) -> None:
    with dingtalk_robot() as ding:
        watch(home, {"ding": ding}, EACH_QUEUE)
        home.scheduler()
        watchdog(home)
        ding.answers([0, 0, 130101])
        for number in range(15):
            home.enqueue_many("echo", [{}] * 5, queue=f"q{number}")
            time.sleep(2)  # the alerts come one after the other
        wait_until(lambda: ding.calls_in_ban, 60)
        banned = ding.calls_in_ban[0].at
        wait_until(lambda: len(set(ids_of(ding.messages))) == 15, 700, every=0.5)
        after = [call for call in ding.calls if call.at > banned]
        assert after[0].at - banned >= 600
        assert len(after) == 1
        assert max(Counter(ids_of(ding.messages)).values()) == 1
