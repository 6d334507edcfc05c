"""A busy system in which nothing is wrong: rules as they are shipped, but for how often they look, tell nobody of anything."""

from __future__ import annotations

import itertools
import os
import time
from pathlib import Path

import pytest

from taskkit.watchdog.rules import shipped
from tests.alarms import GROUPS, Town, lab_worker, town
from tests.processes import Installation
from tests.waiting import wait_until

LENGTH_S = float(
    os.environ.get("TASKKIT_TEST_QUIET_S") or (1800 if os.environ.get("TASKKIT_TEST_LARGE") else 40)
)
OFTEN = "".join(f'\n[[rule]]\nid = "{one.id}"\nevery = "{one.every / 10:g}s"\n' for one in shipped())
QUEUES = "push,report,send_then_fail"
BURST_S, REPORT_S, RETRY_S, REPLACED_S = 15, 10, 20, 17


def a_second_of_work(place: Town, second: int) -> None:
    """Pushes that keep four slots busy to a half; bursts, long reports and single failures that a retry mends."""
    place.enqueue("push", 20, seconds=0.1)
    if second % BURST_S == 5:
        place.enqueue("push", 150, seconds=0.02)
    if second % REPORT_S == 3:
        place.enqueue("report", 1, seconds=4.0)
    if second % RETRY_S == 7:
        place.enqueue("send_then_fail", 1)


def states(home: Installation) -> set[str]:
    """Of all rules, by their last look."""
    return {row["state"] for row in home.kit.center.watchdogs.rules().values()}


@pytest.mark.timeout(LENGTH_S + 180)
def test_acceptance_5_a_healthy_busy_system_is_no_message(tmp_path: Path) -> None:
    with Installation(tmp_path) as home:
        worker = lab_worker(home, QUEUES, 4)
        with town(home, OFTEN, only=False, defaults="") as place:
            home.enqueue("push", {"number": 0, "seconds": 0.01}, cron="* * * * * *")
            home.enqueue("report", {"number": 0, "seconds": 0.5}, cron="*/5 * * * * *")
            begun = time.monotonic()
            for second in itertools.count():
                if time.monotonic() - begun > LENGTH_S:
                    break
                a_second_of_work(place, second)
                if second == REPLACED_S:  # a release: everything is replaced in order
                    old, worker = worker, lab_worker(home, QUEUES, 4)
                    scheduler, place.scheduler = place.scheduler, home.scheduler()
                    assert (old.stop(60), scheduler.stop()) == (0, 0)
                time.sleep(max(0.0, begun + second + 1 - time.monotonic()))
            assert [one.lines for group in GROUPS for one in place.new(group)] == []
            alerts = home.kit.center.alerts.newest()
            assert [alert for alert in alerts if alert.state != "pending"] == []
            rounds = home.kit.center.watchdogs.all()[0]["rounds"]
            checks = home.kit.center.watchdogs.rules()
            assert rounds >= LENGTH_S // 30
            assert {name: row["error"] for name, row in checks.items()} == {one.id: None for one in shipped()}
            # what a single look found above its threshold was pending at most, and is over at the next
            wait_until(lambda: states(home) <= {"ok", "no_data"}, 30)
