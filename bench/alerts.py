"""How soon each shipped rule tells of a real incident and of its end: its real lengths of time, default settings.

    python bench/alerts.py [--rules backlog,stores] [--patience 3600]        # about 45 minutes

Each incident is caused for real in an installation of its own or beside others that it does not touch, all at the same
time; a WeCom and a DingTalk robot (fakes over HTTP, which verify what the real ones do) hear of it. The first figure is from
the cause to the message that came second; "over" is from the cure, or from the cause where it ends by itself.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.incidents import PLACES, Place
from bench.report import Report, parser, server_versions
from taskkit.errors import TaskkitError
from taskkit.lab.handlers import FOLDER, kit
from tests.alarms import Town, lab_worker
from tests.processes import Installation, on_servers
from tests.robots import dingtalk_robot, wecom_robot
from tests.servers import MariaDB, Valkey
from tests.watched import leader, watch, watchdog

HEAD = ["rule", "told after", "at the latest", "over after", "what else was told there"]
LATEST = {
    "backlog": "6 min", "success_rate": "40 s", "worker_dead": "80 s", "zombies": "85 s", "lost": "25 s",
    "slow": "15 min", "scheduler": "50 s", "given_up": "40 s", "missed": "40 s", "forecast": "3 min",
    "duplicates": "2 min 10 s", "stores:redis": "30 s", "stores:sql": "30 s", "watchdog": "85 s",
}  # fmt: skip
"""What docs/watchdog.md says; of `missed` how soon after the scheduler's alert, which explains it, is over."""
FOR_TESTS = ("TASKKIT_WATCHDOG_HEARTBEAT_S", "TASKKIT_WATCHDOG_LEASE_S")


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
