"""A small installation for tests of the watchdog's checks: its clock is moved, its nodes beat while time passes."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace as changed

from taskkit.alerts import LANGUAGES, Reading, ReadLevel, Said
from taskkit.beats import SchedulerBeat, WorkerBeat
from taskkit.model import Claimed
from taskkit.settings import Settings
from taskkit.states import Move
from taskkit.watchdog.checks import run_check
from taskkit.watchdog.place import CheckPlace, Memory
from taskkit.watchdog.signals import Rule
from tests.centers import Clock, failed, instant, on_clock, periodic, start, succeeded

BEGIN = instant(2026, 3, 1, 12)
WORKER = "host:1:w"


class Town:
    """A task center on a clock that the test moves, with nodes that beat while time passes; and looks of checks."""

    def __init__(self, url: str) -> None:
        self.clock = Clock(BEGIN)
        self.center = on_clock(url, self.clock)
        self.settings = Settings(database_url=url, redis_url="memory://town")
        self.workers: dict[str, dict[str, Any]] = {}
        self.schedulers: set[str] = set()
        self.memory = Memory()

    @property
    def now(self) -> Any:
        return self.clock.at

    def place(self, **parts: Any) -> CheckPlace:
        return CheckPlace(self.center, self.settings, self.now, **({"memory": self.memory} | parts))

    def look(self, asked: Rule, **parts: Any) -> list[Reading]:
        readings = run_check(asked, self.place(**parts))
        assert len({one.object for one in readings}) == len(readings)
        for one in readings:
            if one.level is ReadLevel.BREACH:
                assert_said(one.said)
        return readings

    def breaches(self, asked: Rule, **parts: Any) -> dict[str, Reading]:
        return {one.object: one for one in self.look(asked, **parts) if one.level is ReadLevel.BREACH}

    def levels(self, asked: Rule) -> dict[str, ReadLevel]:
        return {one.object: one.level for one in self.look(asked)}

    def worker(self, name: str = WORKER, queues: str = "q", processes: int = 4) -> None:
        self.workers[name] = {
            "queues": queues,
            "processes": processes,
            "busy": 0,
            "processed": 0,
            "last_progress_at": None,
        }
        self.center.nodes.enter_worker(self._beat(name))

    def scheduler(self, name: str = "host:9:s") -> None:
        self.center.nodes.enter_scheduler(name, "host", 9)
        self.schedulers.add(name)
        self.beat()

    def progress(self, name: str = WORKER, **fields: Any) -> None:
        self.workers[name] |= {"last_progress_at": self.now} | fields

    def _beat(self, name: str) -> WorkerBeat:
        fixed = {"worker_id": name, "host": "host", "pid": int(name.split(":")[1]), "failed": 0, "dropped": 0}
        return WorkerBeat(**fixed, rss_bytes=1, cpu_percent=0.0, children=[], tasks=[], **self.workers[name])  # type: ignore[arg-type]

    def beat(self) -> None:
        for name in self.workers:
            assert self.center.nodes.beat_worker(self._beat(name))
        for name in self.schedulers:
            beat = SchedulerBeat(name, "host", 9, 0, 1, self.now, 0.5, "2026a")
            assert self.center.nodes.beat_scheduler(beat)

    def pass_by(self, seconds: int, every: int = 10) -> None:
        """Time passes; the nodes beat."""
        for _ in range(0, seconds, every):
            self.clock.move(seconds=every)
            self.beat()

    def run(self, *tasks: Any, ends: str = "success", worker: str = WORKER) -> list[Claimed]:
        """Tasks that are dispatched, run, and end."""
        claimed = start(self.center, worker, *tasks)
        self.clock.move(milliseconds=100)
        made = [self._end(one, ends) for one in claimed]
        assert self.center.worker_desk(worker).finish(made) == []
        self.clock.move(milliseconds=1)
        return claimed

    def _end(self, one: Claimed, ends: str) -> Any:
        times = {"started_at": one.claimed_at, "runtime_ms": 100}
        if ends == "success":
            return succeeded(one, **times)
        end = failed(one, error=f"ValueError: no {one.id}", **times)
        return end if ends == "failed" else changed(end, move=Move.EXHAUST, retry_count=0)


def assert_said(said: dict[str, Said]) -> None:
    """Both languages, at most three figures, nothing left unfilled."""
    assert set(said) == set(LANGUAGES)
    for one in said.values():
        assert one.title
        assert one.text
        assert len(one.figures) <= 3
        assert "{" not in one.title + one.text
        assert all(name and value for name, value in (*one.figures, *one.forecast, *one.actions))
    assert said["en"].title != said["zh"].title
    assert [command for _, command in said["en"].actions] == [command for _, command in said["zh"].actions]


def plan(town: Town, **fields: Any) -> int:
    (task_id,) = town.center.intake.insert([periodic(town.now, "* * * * *", code="report", **fields)])
    town.center.plan.sweep()
    return int(task_id)
