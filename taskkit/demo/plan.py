"""What the demonstration writes, and what is to become of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from taskkit.states import Status

if TYPE_CHECKING:
    from taskkit.kit import Taskkit

MANY = 100
TICKS = 2
HANDLERS = ("send_email", "flaky", "slow", "fetch", "tick", "shell", "http")


@dataclass(frozen=True, slots=True)
class Act:
    """One task (or many alike) of the demonstration with the outcomes that are to stand in its runs."""

    about: str
    code: str
    payload: dict[str, Any]
    options: dict[str, Any] = field(default_factory=dict)
    status: Status = Status.SUCCESS
    outcomes: tuple[str, ...] = ("success",)
    count: int = 1


def acts(web: str) -> list[Act]:
    """The tasks that run once; ``web`` is the address of the demonstration's own web server."""
    mail = {"to": "ada@example.com", "subject": "hello"}
    return [
        Act("Python", "send_email", mail),
        Act("shell", "shell", {"command": 'echo "hello from $(uname -s)"'}),
        Act("HTTP", "http", {"url": f"{web}/orders"}),
        Act("async", "fetch", {"url": f"{web}/page", "times": 20}),
        Act("delayed by 3 s", "send_email", mail, {"delay": 3}),
        Act("fails twice", "flaky", {"url": f"{web}/unsteady"}, outcomes=("failed", "failed", "success")),
        Act("over its time limit", "slow", {"seconds": 60}, status=Status.GIVEN_UP, outcomes=("timeout",)),
        Act(f"{MANY} at once", "send_email", {"to": "everybody@example.com"}, count=MANY),
    ]


@dataclass(frozen=True, slots=True)
class Written:
    """An act with the ids of its tasks."""

    act: Act
    ids: list[int]


@dataclass(frozen=True, slots=True)
class Periodic:
    """A periodic task of the demonstration; ``at_least`` firings are to be seen."""

    about: str
    id: int
    at_least: int = 0
    by_hand: bool = False


class Stagehand:
    """Writes the tasks; ``queue`` names the queue of a code, None leaves it to the handler."""

    def __init__(self, kit: Taskkit, mark: str, queue: Callable[[str], str | None]) -> None:
        self.kit, self.mark, self.queue = kit, mark, queue

    def write(self, web: str) -> list[Written]:
        """Write all tasks that run once, the many in one statement."""
        found = []
        for act in acts(web):
            one = {"code": act.code, "payload": act.payload, "queue": self.queue(act.code), **act.options}
            found.append(Written(act, self.kit.producer.enqueue_many([one] * act.count)))
        return found

    def schedule(self) -> list[Periodic]:
        """Write what runs again and again: every two seconds, and the lines of a crontab."""
        every_two = self.kit.producer.enqueue(
            "tick", {}, cron="*/2 * * * * *", queue=self.queue("tick"), unique_key=f"{self.mark}:tick"
        )
        return [Periodic("every 2 s", every_two, at_least=TICKS), *self._import()]

    def _import(self) -> Iterator[Periodic]:
        from taskkit.crontab import read

        text = files("taskkit.demo").joinpath("crontab").read_text(encoding="utf-8")
        for line in read(text, name=f"{self.mark}.crontab", system=False, timezone="UTC"):
            if line.job is None:
                continue
            job = line.job
            task_id = self.kit.producer.enqueue(**job.task(), queue=self.queue("shell"))
            yield Periodic(f"crontab, line {line.number}", task_id, by_hand=job.expression == "30 2 * * *")
