"""How soon each shipped rule tells of a real incident and of its end: its real lengths of time, default settings.

    python bench/alerts.py [--rules backlog,stores] [--patience 3600]        # about 45 minutes

Each incident is caused for real in an installation of its own or beside others that it does not touch, all at the same
time; a WeCom and a DingTalk robot (fakes over HTTP, which verify what the real ones do) hear of it. The first figure is from
the cause to the message that came second; "over" is from the cure, or from the cause where it ends by itself.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shlex
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.report import Report, parser, server_versions
from taskkit.errors import TaskkitError
from taskkit.lab.handlers import FOLDER, LOCK, kit
from tests.alarms import LAB, Town, lab_worker, locked
from tests.processes import Installation, on_servers
from tests.robots import dingtalk_robot, wecom_robot
from tests.servers import MariaDB, Valkey
from tests.waiting import wait_until
from tests.watched import leader, watch, watchdog

HEAD = ["rule", "told after", "at the latest", "over after", "what else was told there"]
LATEST = {
    "backlog": "6 min", "success_rate": "40 s", "worker_dead": "80 s", "zombies": "85 s", "lost": "25 s",
    "slow": "15 min", "scheduler": "50 s", "given_up": "40 s", "missed": "100 s", "forecast": "3 min",
    "duplicates": "2 min 10 s", "stores:redis": "30 s", "stores:sql": "30 s", "watchdog": "85 s",
}  # fmt: skip
"""What docs/watchdog.md says."""
FOR_TESTS = ("TASKKIT_WATCHDOG_HEARTBEAT_S", "TASKKIT_WATCHDOG_LEASE_S")


@dataclass
class Place:
    """A town, and what became of its incidents."""

    town: Town
    options: argparse.Namespace
    found: dict[str, tuple[float, float | None]] = field(default_factory=dict)

    def incident(self, rule: str, name: str, began: float, cure: Callable[[], object] | None = None) -> None:
        """Wait until it was told, cure it, wait until its end was told."""
        key = f"{rule}:{name}" if rule == "stores" else rule
        told = self._heard("firing", rule, name) - began
        self.found[key] = told, None
        print(f"  {key}: told after {told:.0f} s", file=sys.stderr, flush=True)
        if cure is not None:
            began = time.monotonic()
            cure()
        over = self._heard("resolved", rule, name) - began
        self.found[key] = told, over
        print(f"  {key}: over after {over:.0f} s", file=sys.stderr, flush=True)

    def _heard(self, event: str, rule: str, name: str) -> float:
        """When both groups had read it; raises AssertionError when they do not, or read it twice."""
        wait_until(lambda: len(self.town.heard(event, rule, name)) >= 2, self.options.patience, every=0.2)
        at = time.monotonic()
        assert len(self.town.heard(event, rule, name)) == 2, self.town.story()
        return at

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

    place.incident("scheduler", "scan", killed, begin_anew)
    home.kit.operations.cancel(planned, "bench")
    place.incident("missed", "push", killed)


def by_a_backlog(place: Place) -> None:
    """``backlog``: a queue that nobody serves."""
    place.town.enqueue("push", 10_500, queue="nowhere", seconds=0)
    place.incident("backlog", "", time.monotonic(), lambda: lab_worker(place.town.home, "nowhere", 2))


def by_a_slow_handler(place: Place) -> None:
    """``slow``: twenty times as slow as eleven minutes ago."""
    town = place.town
    lab_worker(town.home, "charge", 3)
    charge(town, 600, 0.01)
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
    place.incident("lost", "", killed)
    place.incident("duplicates", "", killed)


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


@contextmanager
def installation(kind: str, folder: Path) -> Iterator[Installation]:
    """With default settings; on servers of its own."""
    if kind == "embedded":
        with Installation(folder) as home:
            yield home
        return
    with MariaDB() as database, Valkey() as broker, on_servers(folder, database.url, broker.url) as home:
        home.servers = {"redis": broker, "sql": database}
        yield home


@contextmanager
def watched(kind: str, folder: Path) -> Iterator[Town]:
    """An installation, watched by the shipped rules and told of in Chinese and in English."""
    with installation(kind, folder) as home, wecom_robot() as wecom, dingtalk_robot() as dingtalk:
        home.kit.registry = kit.registry
        home.environment[FOLDER] = str(folder)
        languages = {"wecom": 'language = "zh"', "dingtalk": 'language = "en"'}
        watch(home, {"wecom": wecom, "dingtalk": dingtalk}, "", only=False, defaults="", **languages)
        for name in FOR_TESTS:
            home.environment.pop(name, None)
        scheduler, _, dog = (
            home.scheduler(),
            lab_worker(home, "push,send_then_fail,ask_partner", 2),
            watchdog(home),
        )
        leader(home, [dog])
        yield Town(home, wecom, dingtalk, scheduler, dog)


def cause(names: str, options: argparse.Namespace) -> dict[str, Any]:
    """All of one place: for each rule the two figures and what else was told there; what went wrong; the servers."""
    kind, act = PLACES[names]
    with tempfile.TemporaryDirectory(prefix="taskkit-alerts-") as folder, watched(kind, Path(folder)) as town:
        place, errors = Place(town, options), []
        versions = server_versions(town.home.kit) if kind == "servers" else {}
        try:
            act(place)
        except (AssertionError, TaskkitError, OSError) as error:
            errors.append(f"{names}: {str(error)[:1500]}")
        lines = {rule: [*place.found.get(rule, (None, None)), place.beside()] for rule in names.split()}
    return {"lines": lines, "errors": errors, "versions": versions}


def alone(names: str, options: argparse.Namespace) -> subprocess.Popen[str]:
    """The same in a process of its own."""
    command = [sys.executable, __file__, "--place", names, "--patience", str(options.patience)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def shown(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:,.0f} s"


def main() -> None:
    """Command line."""
    found = parser(__doc__, rounds=0)
    add = found.add_argument
    add("--rules", default="", help="only these, separated by commas (all)")
    add("--patience", type=float, default=3600, help="seconds that each message is waited for (3600)")
    add("--place", help=argparse.SUPPRESS)
    options = found.parse_args()
    if options.place:
        print(json.dumps(cause(options.place, options)))
        return
    report = Report("Alerts at their real lengths of time", options, HEAD)
    wanted = set(options.rules.split(",")) - {""}
    places = [names for names in PLACES if not wanted or wanted & set(names.replace(":", " ").split())]
    lines: dict[str, list[Any]] = {}
    for names, process in [(names, alone(names, options)) for names in places]:
        said = process.communicate()[0]
        if process.returncode:
            report.notes.append(f"{names}: ended with {process.returncode}, see above")
            continue
        told = json.loads(said)
        lines |= told["lines"]
        report.notes += told["errors"]
        report.versions |= told["versions"]
    for rule in (rule for rule in LATEST if rule in lines):
        told, over, beside = lines[rule]
        report.keep(rule, told=told, over=over)
        report.rows.append([rule, shown(told), LATEST[rule], shown(over), beside])
    report.finish()
    if any(None in line for line in lines.values()):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
