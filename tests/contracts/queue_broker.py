"""What the promises of a queue are tried on: an adapter, and small helpers around its messages."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from taskkit.model import ListName, Message
from taskkit.queues import Pulled

MAIL = ListName("mail")
ids = itertools.count(1)


@dataclass
class Broker:
    """An adapter under test: how to connect to it, and how a person pushes to it by hand."""

    connect: Callable[..., Any]
    push_raw: Callable[..., None]

    def __post_init__(self) -> None:
        self.queue = self.connect()


def message(task_id: int | None = None) -> Message:
    return Message(task_id or next(ids), "shop.mail", 1, "2026-03-01T01:00:00.000000Z")


def messages(count: int) -> list[Message]:
    return [message() for _ in range(count)]


def task_ids(pulled: Pulled) -> list[int]:
    return [m.task_id for _, m in pulled.messages]


def priorities(pulled: Pulled) -> list[int]:
    return [name.priority for name, _ in pulled.messages]


def pull_all(queue: Any, queues: Iterable[str], count: int = 100) -> Pulled:
    """Pull without waiting until nothing comes any more."""
    everything = Pulled()
    names = list(queues)
    while True:
        pulled = queue.pull(names, count, 0)
        assert len(pulled.messages) + len(pulled.dead) <= count
        if not pulled.messages and not pulled.dead:
            return everything
        everything.messages.extend(pulled.messages)
        everything.dead.extend(pulled.dead)
