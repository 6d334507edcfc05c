"""From how an attempt ended to what is written: the outcome judged by the task's retry policy."""

from __future__ import annotations

import random
import signal
from collections.abc import Iterable
from datetime import datetime

from taskkit.model import Claimed, Finish
from taskkit.states import (
    DEFAULT_RETRY,
    Outcome,
    RetryPolicy,
    TaskType,
    Verdict,
    judge,
    judge_loss,
    own_delays,
)
from taskkit.worker.frames import HandlerInfo

RETRIED = frozenset({Outcome.FAILED, Outcome.TIMEOUT, Outcome.LOST})
UNKNOWN = "no handler is registered for the code {code!r} in this worker; deploy it, or stop enqueuing it"


class Judge:
    """Knows the handlers' retry policies; a task's own ``retry_delays`` come first."""

    def __init__(self, handlers: dict[str, HandlerInfo], rng: random.Random | None = None) -> None:
        self.handlers = handlers
        self._rng = rng or random.Random()

    def learn(self, handlers: Iterable[HandlerInfo]) -> None:
        """A new nursery has loaded the application as it is now; its code may have been replaced meanwhile."""
        known = {info.code: info for info in handlers}
        self.handlers.update(known)
        for code in self.handlers.keys() - known.keys():
            del self.handlers[code]

    def finish(
        self,
        task: Claimed,
        outcome: Outcome,
        *,
        error: str | None = None,
        traceback: str | None = None,
        result: str | None = None,
        line: str | None = None,
        delay: float | None = None,
        started_at: datetime | None = None,
        finished_at: datetime | None = None,
        runtime: float | None = None,
        pid: int | None = None,
        suspect: bool = False,
    ) -> Finish:
        """The write-back of an attempt that ended so."""
        verdict = self._judge(task, outcome, delay)
        return Finish(
            task=task,
            outcome=outcome,
            move=verdict.move,
            retry_count=verdict.retry_count,
            delay=verdict.delay,
            started_at=started_at,
            finished_at=finished_at,
            runtime_ms=None if runtime is None else round(runtime * 1000),
            pid=pid,
            result=result,
            last_result=line,
            error=error,
            traceback=traceback,
            suspect=suspect
            or (outcome is Outcome.LOST and task.lost_count > 0)
            or (outcome is Outcome.HANDED_BACK and task.suspect),
        )

    def _judge(self, task: Claimed, outcome: Outcome, asked_delay: float | None) -> Verdict:
        periodic = task.task_type == TaskType.PERIODIC
        policy = self.policy(task) if outcome in RETRIED else DEFAULT_RETRY
        if outcome is Outcome.LOST:
            return judge_loss(
                periodic=periodic,
                retry_count=task.retry_count,
                max_retry=task.max_retry,
                lost_count=task.lost_count + 1,
                policy=policy,
                rng=self._rng,
            )
        return judge(
            outcome,
            periodic=periodic,
            retry_count=task.retry_count,
            max_retry=task.max_retry,
            policy=policy,
            rng=self._rng,
            asked_delay=asked_delay,
        )

    def policy(self, task: Claimed) -> RetryPolicy:
        """How long this task waits before its retries."""
        info = self.handlers.get(task.task_code)
        jitter = DEFAULT_RETRY.jitter if info is None else info.jitter
        of_handler = None if info is None else info.retry_delays
        return RetryPolicy(own_delays(task.retry_delays) or of_handler or DEFAULT_RETRY.delays, jitter)


def death(code: int, who: str = "the child process") -> str:
    """How a process died, in words."""
    if code >= 0:
        return f"{who} exited with code {code} before the handler had returned"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = "unknown"
    hint = "; the kernel's out-of-memory killer is the usual cause" if -code == signal.SIGKILL else ""
    return f"{who} was killed by signal {-code} ({name}){hint}"
