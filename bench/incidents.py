"""The real incidents of `bench/alerts.py`: each causes what a shipped rule must tell of, and cures it."""

from __future__ import annotations

import argparse
import contextlib
import shlex
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from taskkit.lab.handlers import LOCK
from tests.alarms import LAB, Town, lab_worker, locked
from tests.processes import Installation
from tests.waiting import wait_until
from tests.watched import watchdog

LOSS = """
SELECT TIMESTAMPDIFF(MICROSECOND, finished_at, NOW(6)) / 1000000 FROM task_run WHERE outcome = 'lost'
ORDER BY finished_at, id LIMIT 1 OFFSET 20
"""
"""How long ago the 21st loss was written down: one more than `lost` lets pass."""


@dataclass
class Place:
    """A town, and what became of its incidents."""

    town: Town
    options: argparse.Namespace
    found: dict[str, tuple[float, float | None]] = field(default_factory=dict)

    def incident(self, rule: str, name: str, began: float, cure: Callable[[], object] | None = None) -> float:
        """Wait until it was told, cure it, wait until its end was told; the monotonic second of that."""
        key = f"{rule}:{name}" if rule == "stores" else rule
        told = self._heard("firing", rule, name) - began
        self.found[key] = told, None
        print(f"  {key}: told after {told:.0f} s", file=sys.stderr, flush=True)
        if cure is not None:
            cure()
            began = time.monotonic()
        ended = self._heard("resolved", rule, name)
        self.found[key] = told, ended - began
        print(f"  {key}: over after {ended - began:.0f} s", file=sys.stderr, flush=True)
        return ended

    def _heard(self, event: str, rule: str, name: str) -> float:
        """When both groups had it; raises AssertionError when they do not get it, or get it twice."""
        wait_until(lambda: len(self.town.heard(event, rule, name)) >= 2, self.options.patience, every=0.2)
        found = self.town.heard(event, rule, name)
        assert len(found) == 2, self.town.story()
        return max(one.call.arrived for one in found)

    def beside(self) -> str:
        """Whatever was told in this place that is none of its incidents."""
        mine = {one.partition(":")[0] for one in self.found}
        others = {one.what[1:] for one in self.town.new("dingtalk") if one.what[1] not in mine}
        return ", ".join(sorted(" ".join(part for part in other if part) for other in others))


def by_failures(place: Place) -> None:
    """``given_up`` and ``success_rate``: handlers that fail."""
    place.town.run("ask_partner", 3, max_retry=0)
    place.incident("given_up", "ask_partner", time.monotonic())
    began = time.monotonic()
    place.town.run("send_then_fail", 60)
    place.incident("success_rate", "", began, lambda: place.town.run("push", 30, seconds=0))


def by_a_scheduler(place: Place) -> None:
    """``scheduler``, and ``missed`` as soon as that does not explain it any more."""
    home = place.town.home
    planned = home.enqueue("push", {"number": 0, "seconds": 0}, cron="* * * * * *", misfire="skip")
    wait_until(lambda: len(home.runs(planned)) >= 2, 20)
    place.town.scheduler.kill()
    killed = time.monotonic()

    def begin_anew() -> None:
        time.sleep(max(0.0, killed + 120 - time.monotonic()))
        place.town.scheduler = home.scheduler()

    explained_until = place.incident("scheduler", "scan", killed, begin_anew)
    place.incident("missed", "push", explained_until, lambda: home.kit.operations.cancel(planned, "bench"))


def by_a_backlog(place: Place) -> None:
    """``backlog``: a queue that nobody serves."""
    place.town.enqueue("push", 10_500, queue="nowhere", seconds=0)
    place.incident("backlog", "", time.monotonic(), lambda: lab_worker(place.town.home, "nowhere", 2))


def by_a_slow_handler(place: Place) -> None:
    """``slow``: twenty times as slow as eleven minutes ago, and so much was done before that this is normal."""
    town = place.town
    lab_worker(town.home, "charge", 3)
    for _ in range(25):
        charge(town, 1000, 0.01)
    time.sleep(660)
    fast, over = threading.Event(), threading.Event()

    def go_on() -> None:
        while not over.wait(3.0):
            charge(town, 10, 0.01 if fast.is_set() else 0.2)

    load = threading.Thread(target=go_on)
    began = time.monotonic()
    load.start()
    try:
        place.incident("slow", "charge", began, fast.set)
    finally:
        over.set()
        load.join(60)


def charge(town: Town, count: int, seconds: float) -> None:
    town.run("charge", count, before_s=seconds, after_s=0, told=False)


def by_a_growing_queue(place: Place) -> None:
    """``forecast``: one slot, and twice as much arrives as it can do; cured by the command that the alert names."""
    home = place.town.home
    lab_worker(home, "report", 1)
    place.town.enqueue("report", 240, seconds=2.0)
    over = threading.Event()

    def arrive() -> None:
        while not over.wait(1.0):
            place.town.enqueue("report", 1, seconds=2.0)

    arrivals = threading.Thread(target=arrive)
    arrivals.start()

    def add_slots() -> None:
        alert = next(one for one in home.kit.center.alerts.newest(["firing"]) if one.rule == "forecast")
        command = shlex.split(alert.said["en"].actions[-1][1])
        home.begin("worker", "--app", LAB, *command[3:]).ready()

    try:
        place.incident("forecast", "report", time.monotonic(), add_slots)
    finally:
        over.set()
        arrivals.join(10)


def by_a_watchdog(place: Place) -> None:
    """``watchdog``: the only one is killed."""
    place.town.dog.kill()

    def begin_anew() -> None:
        place.town.dog = watchdog(place.town.home)

    place.incident("watchdog", "", time.monotonic(), begin_anew)


def by_a_dead_worker(place: Place) -> None:
    """``worker_dead``, ``lost`` and ``duplicates``: a worker is killed after its effects."""
    town, home = place.town, place.town.home
    worker = lab_worker(home, "charge", 24)
    name = worker.id
    ids = town.enqueue("charge", 24, before_s=0, after_s=60.0, told=True)
    wait_until(lambda: all(task.progress is not None for task in home.kit.center.read.tasks(ids)), 60)
    worker.kill()
    killed = time.monotonic()
    place.incident("worker_dead", name, killed, lambda: lab_worker(home, "charge", 24))
    place.incident("lost", "", moment(home, LOSS))
    place.incident("duplicates", "", killed)


def moment(home: Installation, statement: str) -> float:
    """The monotonic second of an instant that SQL tells as seconds ago."""
    with home.kit.center.database.engine.connect() as connection:
        ago: float = connection.exec_driver_sql(statement).scalar_one()
    return time.monotonic() - float(ago)


def by_a_lock(place: Place) -> None:
    """``zombies``: a worker beats while its handlers wait for a lock."""
    home = place.town.home
    (home.folder / LOCK).touch()
    name = lab_worker(home, "locked").id
    place.town.run("locked", 3)
    with contextlib.ExitStack() as held:
        held.enter_context(locked(home))
        place.town.enqueue("locked", 3)
        place.incident("zombies", name, time.monotonic(), held.close)


def by_stores(place: Place) -> None:
    """``stores``: first Redis is away, then SQL."""
    for name, server in place.town.home.servers.items():
        server.stop()
        place.incident("stores", name, time.monotonic(), server.start)


PLACES: dict[str, tuple[str, Callable[[Place], None]]] = {
    "given_up success_rate": ("embedded", by_failures),
    "scheduler missed": ("embedded", by_a_scheduler),
    "backlog": ("embedded", by_a_backlog),
    "slow": ("embedded", by_a_slow_handler),
    "forecast": ("embedded", by_a_growing_queue),
    "watchdog": ("embedded", by_a_watchdog),
    "worker_dead lost duplicates": ("servers", by_a_dead_worker),
    "zombies": ("servers", by_a_lock),
    "stores:redis stores:sql": ("servers", by_stores),
}
