"""What the tests of the broken Redis do again and again."""

from __future__ import annotations

from collections.abc import Callable

import redis

from taskkit.model import ListName, Message
from taskkit.queues.redis import RedisQueue

MAIL = ListName("mail")
MSG = Message(1, "shop.mail", 1, "2026-03-01T01:00:00.000000Z")

Connect = Callable[..., RedisQueue]


def push_error(queue: RedisQueue, name: ListName = MAIL) -> Exception | None:
    return queue.push({name: [MSG]}).get(name)


def works(queue: RedisQueue) -> bool:
    """Whether a message goes in and out again."""
    return queue.push({MAIL: [MSG]}) == {} and queue.pull(["mail"], 1, 1).messages == [(MAIL, MSG)]


def blocked(admin: redis.Redis) -> bool:
    return bool(admin.info("clients")["blocked_clients"])
