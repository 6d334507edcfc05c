"""What a person may do to tasks: each move is guarded, recorded with who did it, and wakes a scheduler."""

from __future__ import annotations

import getpass
import logging
import os
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from taskkit.errors import NotFound
from taskkit.limits import Limit, make_limit, named
from taskkit.shards import Split, check_split
from taskkit.states import Status

if TYPE_CHECKING:
    from taskkit.center import TaskCenter

log = logging.getLogger("taskkit.operations")


def default_actor() -> str:
    """Who acts when nobody was named: ``user@host``."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"


class Operations:
    """Run now, retry, give up, cancel, pause, resume; limits, shards. Raises NotFound, IllegalMove, KeyTaken or InputError."""

    def __init__(self, center: Callable[[], TaskCenter], ring: Callable[[], None]) -> None:
        self._center, self._ring = center, ring

    def run_now(self, task_id: int, actor: str | None = None) -> Status:
        """Make a waiting, failed or finished task due now."""
        return self._act("run_now", task_id, actor)

    def retry(self, task_id: int, actor: str | None = None, *, after: int | None = None) -> Status:
        """Start a given up or cancelled task afresh; ``after``: only one that attempt ``after`` left given up."""
        return self._act("retry", task_id, actor, after)

    def give_up(self, task_id: int, actor: str | None = None) -> Status:
        """Stop retrying a failed task."""
        return self._act("give_up", task_id, actor)

    def cancel(self, task_id: int, actor: str | None = None) -> Status:
        """Cancel a task; for a running one the status stays ``running`` until its worker has ended it."""
        return self._act("cancel", task_id, actor)

    def pause(self, task_id: int, actor: str | None = None, reason: str = "") -> Status:
        """Hold a waiting task until it is resumed."""
        return self._act("pause", task_id, actor, reason)

    def resume(self, task_id: int, actor: str | None = None) -> Status:
        """Release a held task."""
        return self._act("resume", task_id, actor)

    def set_limit(
        self,
        *,
        queue: str | None = None,
        key: str | None = None,
        concurrency: int | None = None,
        rate: str | None = None,
        actor: str | None = None,
    ) -> Limit:
        """At most ``concurrency`` tasks of a queue, or with a ``limit_key``, at once; at most ``rate`` starts: ``100/s``.

        A name that ends with ``*`` gives each queue or key that begins so a limit of its own. Setting it again
        replaces its numbers.
        """
        limit = make_limit(queue=queue, key=key, concurrency=concurrency, rate=rate)
        who = actor or default_actor()
        self._center().limits.put(limit, who)
        log.info("limit of %s set to %s by %s", limit, limit.terms, who)
        self._ring()
        return limit

    def remove_limit(
        self, *, queue: str | None = None, key: str | None = None, actor: str | None = None
    ) -> None:
        """Remove a limit; what waited for it goes on."""
        scope, name = named(queue=queue, key=key)
        who = actor or default_actor()
        if not self._center().limits.remove(scope, name, who):
            raise NotFound(f"there is no limit of {scope} {name}; `taskkit limits` shows those there are")
        log.info("limit of %s %s removed by %s", scope, name, who)
        self._ring()

    def set_shards(self, queue: str, shards: int, actor: str | None = None) -> Split:
        """Split a queue into so many shards from now on, 64 at most; 1 makes it whole again.

        Nothing need be stopped for it: what waits in the lists of before is taken from there. The answer says into how
        many lists of each priority workers look meanwhile.
        """
        name, count = check_split(queue, shards)
        who = actor or default_actor()
        split = self._center().shards.split(name, count, who)
        log.info("queue %s split into %s by %s", name, count, who)
        return split

    def _act(self, verb: str, task_id: int, actor: str | None, *extra: str | int | None) -> Status:
        who = actor or default_actor()
        status: Status = getattr(self._center().people, verb)(task_id, who, *extra)
        log.info("%s by %s: task is %s", verb, who, status.label, extra={"task_id": task_id})
        self._ring()
        return status
