"""What a person may do to tasks and alerts: each move is guarded, recorded with who did it, and wakes whom it concerns."""

from __future__ import annotations

import getpass
import logging
import os
import socket
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from taskkit.errors import InputError, NotFound
from taskkit.limits import Limit, make_limit, named
from taskkit.shards import Split, check_split
from taskkit.states import Status

if TYPE_CHECKING:
    from taskkit.alerts import Alert
    from taskkit.center import TaskCenter

log = logging.getLogger("taskkit.operations")
LONGEST_SILENCE_S = 366 * 86_400.0
LONGEST_REASON = 190


def default_actor() -> str:
    """Who acts when nobody was named: ``user@host``."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"


class Operations:
    """Run now, retry, give up, cancel, pause, resume; limits, shards; silences, acknowledged alerts.

    Raises NotFound, IllegalMove, KeyTaken or InputError.
    """

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

    def silence(
        self,
        seconds: float,
        reason: str,
        *,
        rule: str | None = None,
        object: str | None = None,
        actor: str | None = None,
    ) -> int:
        """Tell nobody of alerts of a rule and of objects (a pattern: ``mail*``) for so long; returns the silence's id.

        None is every rule, or every object. Alerts go on to fire and end meanwhile; what still fires afterwards is told.
        """
        who = actor or default_actor()
        ends_at = quiet_until(self._center().now(), seconds, reason)
        silence_id = self._center().alerts.silence(ends_at, who, reason.strip(), rule=rule, object=object)
        log.info("silence %s until %s by %s: %s", silence_id, ends_at, who, reason)
        return silence_id

    def unsilence(self, silence_id: int, actor: str | None = None) -> None:
        """End a silence now."""
        who = actor or default_actor()
        self._center().alerts.end_silence(silence_id, who)
        log.info("silence %s ended by %s", silence_id, who)

    def ack(self, alert_id: int, actor: str | None = None) -> Alert:
        """Say that somebody looks after an alert: it is not repeated any more; its end is told as ever."""
        who = actor or default_actor()
        alert = self._center().alerts.ack(alert_id, who)
        log.info("alert %s is looked after by %s", alert_id, who)
        return alert

    def _act(self, verb: str, task_id: int, actor: str | None, *extra: str | int | None) -> Status:
        who = actor or default_actor()
        status: Status = getattr(self._center().people, verb)(task_id, who, *extra)
        log.info("%s by %s: task is %s", verb, who, status.label, extra={"task_id": task_id})
        self._ring()
        return status


def quiet_until(now: datetime, seconds: float, reason: str) -> datetime:
    """The end of a silence; raises InputError for one without an end or a reason."""
    if not 0 < seconds <= LONGEST_SILENCE_S:
        raise InputError("for", "a silence must end: longer than 0, at most a year; write for example 2h")
    if not reason.strip():
        raise InputError("reason", "say why, so that others need not ask")
    if len(reason.strip()) > LONGEST_REASON:
        raise InputError("reason", f"must have at most {LONGEST_REASON} letters")
    return now + timedelta(seconds=seconds)
