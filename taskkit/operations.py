"""What a person may do to tasks: each move is guarded, recorded with who did it, and wakes a scheduler."""

from __future__ import annotations

import getpass
import logging
import os
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

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
    """Run now, retry, give up, cancel, pause, resume. Raises NotFound, IllegalMove or KeyTaken."""

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

    def _act(self, verb: str, task_id: int, actor: str | None, *extra: str | int | None) -> Status:
        who = actor or default_actor()
        status: Status = getattr(self._center().people, verb)(task_id, who, *extra)
        log.info("%s by %s: task is %s", verb, who, status.label, extra={"task_id": task_id})
        self._ring()
        return status
