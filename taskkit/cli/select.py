"""Which tasks a command is about: ids, or all that match filters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import click

from taskkit.cli.complete import codes, queues
from taskkit.cli.options import SPAN, STATUS, TASK_ID
from taskkit.model import Task
from taskkit.states import Status

if TYPE_CHECKING:
    from taskkit.center import TaskCenter

C = TypeVar("C", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Wanted:
    """Filters of the command line; ``since`` is an age in seconds of the last change."""

    status: tuple[Status, ...] = ()
    code: str | None = None
    queue: str | None = None
    periodic: bool | None = None
    since: float | None = None
    before: int | None = None
    limit: int = 50

    @property
    def given(self) -> bool:
        """Whether any filter says which tasks are meant."""
        return any((self.status, self.code, self.queue, self.since is not None, self.periodic is not None))


def filters(command: C) -> C:
    """The options that choose tasks."""
    for option in (
        click.option(
            "--periodic/--not-periodic", default=None, help="Only periodic tasks, or only the others."
        ),
        click.option("--queue", metavar="Q", shell_complete=queues, help="Only of this queue."),
        click.option("--code", metavar="CODE", shell_complete=codes, help="Only of this code."),
        click.option(
            "--since", type=SPAN, metavar="AGE", help="Only those that changed in the last 30m, 1h, 2d."
        ),
        click.option(
            "--status",
            type=STATUS,
            multiple=True,
            metavar="STATUS",
            help="Only in this status, by name or number: pending, dispatched, running, success, failed, "
            "given_up, cancelled, held. May be given several times.",
        ),
    ):
        command = option(command)
    return command


def find(center: TaskCenter, wanted: Wanted) -> list[Task]:
    """The tasks that match, newest first, at most ``wanted.limit``."""
    from taskkit.center import TaskFilter

    return center.read.find(
        TaskFilter(
            statuses=tuple(int(status) for status in wanted.status),
            code=wanted.code,
            queue=wanted.queue,
            periodic=wanted.periodic,
            since=instant_of(center, wanted.since),
            before=wanted.before or 0,
            limit=wanted.limit,
        )
    )


def instant_of(center: TaskCenter, age: float | None) -> datetime | None:
    """The instant so many seconds ago on the database's clock; None stays None."""
    if age is None:
        return None
    try:
        return center.now() - timedelta(seconds=age)
    except OverflowError:
        raise click.BadParameter("reaches too far back", param_hint="--since") from None


ids = click.argument("ids", nargs=-1, type=TASK_ID, metavar="[ID]…")
