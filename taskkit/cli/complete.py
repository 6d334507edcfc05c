"""What Tab offers: codes, queues, time zones and task ids; quickly, and silently where something is wrong."""

from __future__ import annotations

import contextlib
import io
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

import click

from taskkit.states import Move, Status, sources

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from taskkit.cli.front import Front

T = TypeVar("T")
PATIENCE_S = 1.5
"""Longer than this nobody waits after Tab."""
RECENT, NEWEST = 1000, 20
TAKES = {
    "retry": sources(Move.RETRY),
    "run-now": sources(Move.RUN_NOW),
    "pause": sources(Move.HOLD),
    "resume": sources(Move.RELEASE),
    "give-up": sources(Move.GIVE_UP),
    "cancel": sources(Move.CANCEL) | {Status.RUNNING},
}
"""The statuses of the tasks that a verb takes."""


def codes(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Codes of the application and of the built-in handlers, and those of recent tasks."""
    front = _front(context)
    found = _quickly(lambda: _registered(front, context.params.get("app")))
    return _matching([*found, *_quickly(lambda: _recent(front, "task_code"))], incomplete)


def queues(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Queues of recent tasks, and those that live workers serve."""
    front = _front(context)
    found = [*_quickly(lambda: _recent(front, "queue")), *_quickly(lambda: _served(front))]
    return _matching(found, incomplete)


def zones(_context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Time zones, whatever the case of what was typed."""
    from zoneinfo import available_timezones

    return _matching(available_timezones(), incomplete)


def ids(context: click.Context, incomplete: str) -> list[CompletionItem]:
    """The newest tasks that the verb takes, each with its code and status."""
    from click.shell_completion import CompletionItem

    front = _front(context)
    found = _quickly(lambda: _newest(front, context.info_name or ""))
    return [CompletionItem(number, help=about) for number, about in found if number.startswith(incomplete)]


def _front(context: click.Context) -> Front:
    """The installation that the words before name; while completing, no command has been called."""
    from taskkit.cli.front import Front

    given = context.find_root().params
    return Front(home=given.get("home"), config=given.get("config"))


def _registered(front: Front, app: str | None) -> Iterable[str]:
    from taskkit.worker.builtin import HANDLERS

    name = app or front.settings.app
    if name is None:
        return list(HANDLERS)
    from taskkit.app import load

    return [handler.code for handler in load(name).registry]


def _recent(front: Front, column: str) -> Iterable[str]:
    return [str(one[column]) for one in front.center.read.recent(RECENT)]


def _served(front: Front) -> Iterable[str]:
    from taskkit.cli.life import live_workers, queues_of

    return [name for worker in live_workers(front.center) for name in queues_of(worker)]


def _newest(front: Front, verb: str) -> Iterable[tuple[str, str]]:
    wanted = TAKES.get(verb, frozenset(Status))
    rows = [one for one in front.center.read.recent(RECENT) if one["status"] in wanted][:NEWEST]
    return [(str(one["id"]), f"{one['task_code']}, {Status(one['status']).label}") for one in rows]


def _quickly(look: Callable[[], Iterable[T]]) -> list[T]:
    """What ``look`` finds; nothing when it fails or takes too long. Neither it nor an application prints."""
    found: list[T] = []

    def work() -> None:
        with contextlib.suppress(BaseException):
            found.extend(look())

    thread = threading.Thread(target=work, daemon=True)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        thread.start()
        thread.join(PATIENCE_S)
    return list(found)


def _matching(words: Iterable[str], incomplete: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    start = incomplete.lower()
    return [CompletionItem(word) for word in sorted(set(words)) if word and word.lower().startswith(start)]
