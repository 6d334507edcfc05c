"""Installations whose alerts go to a WeCom group in Chinese and to a DingTalk group in English; and what the groups read."""

from __future__ import annotations

import contextlib
import fcntl
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Self

from taskkit.lab.handlers import FOLDER, LOCK, kit
from tests.processes import Installation, Process
from tests.robot_server import Call
from tests.robots import DingTalkRobot, WeComRobot, dingtalk_robot, wecom_robot
from tests.traces import found_in, secrets_of
from tests.waiting import wait_until
from tests.watched import leader, watch, watchdog

LAB = "taskkit.lab.handlers:kit"
SCALED: dict[str, Any] = {
    "worker_heartbeat_s": 0.4, "worker_grace_s": 1, "worker_kill_grace_s": 0.5, "worker_stuck_s": 2, "scheduler_heartbeat_s": 0.5,
    "scheduler_poll_s": 0.2, "scheduler_recover_every_s": 0.25, "scheduler_lost_after_s": 1, "scheduler_dead_after_s": 3,
    "watchdog_dead_after_s": 3, "log_level": "debug",
}  # fmt: skip
"""Time runs about ten times as fast as by default."""
EVENTS = {
    "Resolved": "resolved", "已恢复": "resolved", "Still firing": "repeat", "仍未恢复": "repeat", "Notebook": "evidence",
    "诊断笔记": "evidence",
}  # fmt: skip
SEVERITIES = {
    "Note": "note", "Warning": "warning", "Critical": "critical", "提示": "note", "警告": "warning", "严重": "critical",
}  # fmt: skip
MARKS = re.compile(r"</?font[^>]*>|\*\*|^#+ |^> ", re.MULTILINE)
FIGURES = re.compile(r"[^*]+\*\*[^*]+\*\*( · [^*]+\*\*[^*]+\*\*)*")
LINE = re.compile(r"(?:- )?(.+?) #\d+ ([a-z_]+)(?: · ([^:：]*))?[:：]")
"""One alert of a digest: state, rule and object."""
GROUPS = ("wecom", "dingtalk")
PATIENCE_S = 45.0
"""On a machine that is busy with other things."""


@dataclass
class Heard:
    """One message of one alert, as a group reads it: title line, cause, since when, text, figures, what to do."""

    call: Call

    @cached_property
    def lines(self) -> list[str]:
        """Without marks of markdown and without empty lines."""
        return [line for line in MARKS.sub("", self.call.text).split("\n") if line.strip()]

    @cached_property
    def head(self) -> list[str]:
        return self.lines[0].partition(" #")[0].split(" · ")

    @property
    def event(self) -> str:
        """``other``: several alerts in one, or a word about a receiver."""
        return "other" if len(self.head) < 2 else EVENTS.get(self.head[0], "firing")

    @property
    def _named(self) -> list[str]:
        """Severity, rule and object; of another message its first line."""
        if self.event == "other":
            return ["", *self.head]
        return self.head if self.event == "firing" else self.head[1:]

    @property
    def severity(self) -> str:
        return SEVERITIES[self._named[0]]

    @property
    def rule(self) -> str:
        return self._named[1]

    @property
    def object(self) -> str:
        return " · ".join(self._named[2:])

    @property
    def what(self) -> tuple[str, str, str]:
        return self.event, self.rule, self.object

    def tells(self, event: str, rule: str, name: str) -> bool:
        """Whether it is the message of this, or a digest with a line of it."""
        found = [LINE.match(line) for line in self.lines[1:]] if self.event == "other" else []
        told = [(EVENTS.get(one[1], "firing"), one[2], one[3] or "") for one in found if one]
        return (event, rule, name) in (told or [self.what])

    @property
    def title(self) -> str:
        return self.lines[1]

    @property
    def command(self) -> str:
        return next((line.strip("`") for line in self.lines if line.startswith("`")), "")

    @property
    def figures(self) -> list[str]:
        """The names and values that stand side by side."""
        row = next((line for line in self.call.text.split("\n") if FIGURES.fullmatch(line)), "")
        return MARKS.sub("", row).split(" · ") if row else []


class Told(NamedTuple):
    """One alert as each group has read it."""

    chinese: Heard
    english: Heard

    def says(self, chinese: str, english: str, command: str, *, figures: int = 3) -> None:
        """The right diagnosis: patterns of its title in both languages and of its command, and so many figures."""
        for one, title in ((self.chinese, chinese), (self.english, english)):
            assert re.fullmatch(title, one.title), one.lines
            assert re.fullmatch(command, one.command), one.lines
            assert len(one.figures) == figures, one.lines
            assert "n/a" not in " ".join(one.figures), one.lines


@dataclass
class Town:
    """An installation that is watched, and its two groups."""

    home: Installation
    wecom: WeComRobot
    dingtalk: DingTalkRobot
    scheduler: Process
    dog: Process
    read: dict[str, int] = field(default_factory=lambda: dict.fromkeys(GROUPS, 0))
    """How many messages of each group were accounted for."""
    well: bool = True
    """Whether all that a test caused is over."""

    def new(self, group: str) -> list[Heard]:
        """What a group has read since the last incident that was over; the files of notebooks are not read here."""
        robot: WeComRobot | DingTalkRobot = getattr(self, group)
        return [Heard(call) for call in robot.messages[self.read[group] :] if call.text]

    def heard(self, event: str, rule: str, name: str = "") -> list[Heard]:
        """What the groups that have read this have read of it."""
        return [one for group in GROUPS for one in self.new(group) if one.tells(event, rule, name)]

    def hears(self, event: str, rule: str, name: str = "", seconds: float = PATIENCE_S) -> Told:
        """Wait until both groups were told this, and nobody twice."""
        with contextlib.suppress(AssertionError):
            wait_until(lambda: len(self.heard(event, rule, name)) >= 2, seconds, every=0.1)
        found = self.heard(event, rule, name)
        assert len(found) == 2, (event, rule, name, self.story())
        return Told(*found)

    def story(self) -> str:
        """What the groups have read and what the book says, for who looks why a test failed."""
        read = [f"{group}: {[one.what for one in self.new(group)]}" for group in GROUPS]
        alerts = [repr(one) for one in self.home.kit.center.alerts.newest()[:5]]
        return "\n".join([*read, *alerts, repr(self.home.kit.center.watchdogs.rules())])

    def over(self, *alerts: tuple[str, str], seconds: float = PATIENCE_S) -> bool:
        """Wait until these alerts are resolved; each was told once and ended once in each group, and nothing else was."""
        for rule, name in alerts:
            self.hears("resolved", rule, name, seconds)
        wait_until(lambda: not self.home.kit.center.outbox.depth(), seconds, every=0.1)
        wanted = sorted((event, *alert) for alert in alerts for event in ("firing", "resolved"))
        for group in GROUPS:
            assert sorted(one.what for one in self.new(group)) == wanted, self.story()
            self.read[group] += len(wanted)
        self.well = self.home.kit.center.alerts.open() == []
        assert self.well, self.story()
        return self.well

    def enqueue(
        self, code: str, count: int, *, queue: str | None = None, max_retry: int | None = None, **payload: Any
    ) -> list[int]:
        """So many tasks of a code of the lab, each with a number of its own."""
        options = {
            name: value for name, value in (("queue", queue), ("max_retry", max_retry)) if value is not None
        }
        return self.home.enqueue_many(code, [{"number": n, **payload} for n in range(count)], **options)

    def run(self, code: str, count: int, **options: Any) -> list[int]:
        """The same, and wait until all have ended."""
        ids = self.enqueue(code, count, **options)
        self.home.wait_all(ids, seconds=60)
        return ids

    def meanwhile(self, act: Callable[[], object], until: Callable[[], object]) -> None:
        """Act again and again until something is so."""

        def look() -> bool:
            act()
            return bool(until())

        wait_until(look, PATIENCE_S, every=0.2)

    def pass_by(self, seconds: float) -> None:
        """Let a window of a rule pass."""
        time.sleep(seconds)

    def leaks(self) -> list[str]:
        """Where a secret of the robots stands in what the processes have written."""
        return found_in(self.home, secrets_of(self.wecom, self.dingtalk))


class Shared:
    """A town for one test after the other; a new one where a test has failed in the last."""

    def __init__(self, found: Callable[[], contextlib.AbstractContextManager[Town]]) -> None:
        self._found, self._stack = found, contextlib.ExitStack()
        self._town: Town | None = None

    def sound(self) -> Town:
        """A town in which nothing is wrong, until the test says that all is over."""
        if self._town is None or not self._town.well:
            self._stack.close()
            self._town = self._stack.enter_context(self._found())
        self._town.well = False
        return self._town

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


@contextmanager
def town(home: Installation, rules: str, **options: Any) -> Iterator[Town]:
    """Watch an installation, whose processes run the handlers of the lab; it has a scheduler."""
    home.kit.registry = kit.registry
    home.environment[FOLDER] = str(home.folder)
    with wecom_robot() as wecom, dingtalk_robot() as dingtalk:
        languages = {"wecom": 'language = "zh"', "dingtalk": 'language = "en"'}
        watch(home, {"wecom": wecom, "dingtalk": dingtalk}, rules, **options, **languages)
        scheduler = home.scheduler()
        dog = watchdog(home)
        leader(home, [dog])
        found = Town(home, wecom, dingtalk, scheduler, dog)
        yield found
        assert found.leaks() == []


def lab_worker(home: Installation, queues: str, slots: int = 1, **environment: Any) -> Process:
    """A worker of the lab's application that is up."""
    home.environment[FOLDER] = str(home.folder)
    arguments = ["--app", LAB, "--queue", queues, "--processes", str(slots)]
    return home.begin("worker", *arguments, **environment).ready()


@contextmanager
def locked(home: Installation) -> Iterator[None]:
    """Hold the lock that the lab's ``locked`` waits for."""
    with (home.folder / LOCK).open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
