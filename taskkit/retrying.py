"""Retrying all tasks that gave up for one cause, at a pace, and no further when the failures come back.

The loop is thin: who is meant and what became of them is read in the task center, each retry is a person's move of
its own, and how many may be started is said by :class:`taskkit.pacing.Pace`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from taskkit.clock import monotonic
from taskkit.errors import CommitUnknown, DatabaseUnavailable, IllegalMove, NotFound, TaskkitError
from taskkit.model import Afterwards
from taskkit.operations import Operations
from taskkit.pacing import Pace, PaceRules
from taskkit.states import Outcome, Status

if TYPE_CHECKING:
    from taskkit.center import TaskCenter

log = logging.getLogger("taskkit.retrying")
LOOK_S = 0.25
"""Between two looks at what became of the tasks."""
INTERRUPTED = "interrupted"
NAMED = 100
"""Refusals that are told one by one."""


class RetryOutcome(StrEnum):
    """What became of a task that was retried."""

    SUCCEEDED = "succeeded"
    FAILED_AGAIN = "failed_again"
    FAILED_OTHERWISE = "failed_otherwise"
    TAKEN_AWAY = "taken_away"
    """Cancelled or deleted by a person before it could run."""


@dataclass
class PacedTally:
    """What a paced retry has done so far. ``left`` were not touched; ``skipped`` had been retried by somebody else."""

    fingerprint: str
    total: int
    retried: int = 0
    skipped: int = 0
    refused: int = 0
    refusals: list[tuple[int, str]] = field(default_factory=list)
    answers: dict[RetryOutcome, int] = field(default_factory=lambda: dict.fromkeys(RetryOutcome, 0))
    sample_failure: int | None = None
    stopped: str = ""

    @property
    def left(self) -> int:
        """Given up tasks that were not touched."""
        return self.total - self.retried - self.skipped - self.refused

    @property
    def under_way(self) -> int:
        """Retried ones of which no end is known yet."""
        return self.retried - sum(self.answers.values())

    def shape(self) -> dict[str, Any]:
        """For ``--json``."""
        return {
            "fingerprint": self.fingerprint,
            "meant": self.total,
            "retried": self.retried,
            **{answer.value: count for answer, count in self.answers.items()},
            "under_way": self.under_way,
            "skipped": self.skipped,
            "refused": self.refused,
            "left": self.left,
            "stopped": self.stopped or None,
            "sample_failure": self.sample_failure,
            "refusals": [{"id": task_id, "error": error} for task_id, error in self.refusals],
        }


def answer_of(found: Afterwards | None, attempt: int, fingerprint: str) -> RetryOutcome | None:
    """What became of a task since ``attempt``; None while nobody can tell.

    The first run that says something counts: one that failed waits for a retry of its own and is judged at once. A run
    that was handed back or lost with its worker is no word about the cause, unless being lost is the cause.
    """
    if found is None:
        return RetryOutcome.TAKEN_AWAY
    for number, outcome, print_ in found.runs:
        if number <= attempt:
            continue
        if outcome is Outcome.SUCCESS:
            return RetryOutcome.SUCCEEDED
        if outcome in {Outcome.FAILED, Outcome.TIMEOUT, Outcome.GIVEN_UP} or print_ == fingerprint:
            return RetryOutcome.FAILED_AGAIN if print_ == fingerprint else RetryOutcome.FAILED_OTHERWISE
    if found.status is Status.CANCELLED:
        return RetryOutcome.TAKEN_AWAY
    later = any(number > attempt for number, _, _ in found.runs)
    return RetryOutcome.FAILED_OTHERWISE if later and found.status is Status.GIVEN_UP else None


class PacedRetry:
    """One go at the members ``(id, last attempt)`` of a fingerprint; ``tally`` holds at any moment what was done."""

    def __init__(
        self,
        center: TaskCenter,
        operations: Operations,
        fingerprint: str,
        members: Sequence[tuple[int, int]],
        rules: PaceRules,
        *,
        wait: float = 300.0,
        actor: str | None = None,
    ) -> None:
        self._center, self._operations, self._actor = center, operations, actor
        self._waiting = list(reversed(members))
        self._under_way: dict[int, int] = {}
        self._wait = wait
        self.pace = Pace(rules)
        self.tally = PacedTally(fingerprint, len(members))

    def run(self, tell: Callable[[PacedTally], None] = lambda tally: None) -> PacedTally:
        """Start them until none is left, the failures are back, or nothing has ended for ``wait`` seconds.

        ``tell`` is called after each look. An exception passes through, and the tally stands.
        """
        began = heard = monotonic()
        while not self.tally.stopped and (self._waiting or self._under_way):
            if self._start(self.pace.due(monotonic() - began)):
                heard = monotonic()
            if self._look():
                heard = monotonic()
            tell(self.tally)
            self.tally.stopped = self.tally.stopped or self.pace.failing or self._silence(monotonic() - heard)
            if not self.tally.stopped:
                time.sleep(self._rest())
        return self.tally

    def interrupt(self) -> None:
        """Start no more and come back soon; the retry under way is seen through, so that the tally is exact."""
        self.tally.stopped = self.tally.stopped or INTERRUPTED

    def _rest(self) -> float:
        """Until the next start may be due, at most until the next look."""
        return min(LOOK_S, max(0.02, 1 / self.pace.rules.rate)) if self._waiting else LOOK_S

    def _silence(self, seconds: float) -> str:
        if seconds < self._wait or not self._under_way:
            return ""
        return f"none of the {len(self._under_way)} that are under way has ended for {self._wait:g} s"

    def _start(self, count: int) -> int:
        started = 0
        for _ in range(min(count, len(self._waiting))):
            if self.tally.stopped:
                break
            task_id, attempt = self._waiting.pop()
            try:
                self._operations.retry(task_id, self._actor, after=attempt)
            except (DatabaseUnavailable, CommitUnknown) as error:
                self.tally.stopped = str(error)
                return started
            except (IllegalMove, NotFound):
                self.pace.spend()
                self.tally.skipped += 1
            except TaskkitError as error:
                self.pace.spend()
                self._refuse(task_id, error)
            else:
                self.pace.start()
                self._under_way[task_id] = attempt
                self.tally.retried += 1
                started += 1
        return started

    def _refuse(self, task_id: int, error: TaskkitError) -> None:
        self.tally.refused += 1
        if len(self.tally.refusals) < NAMED:
            self.tally.refusals.append((task_id, str(error)))
        log.warning("not retried: %s", error, extra={"task_id": task_id})

    def _look(self) -> int:
        """See what became of those under way; how many answers there are."""
        if not self._under_way:
            return 0
        found = {one.task_id: one for one in self._center.dead.afterwards(list(self._under_way))}
        answers = 0
        for task_id, attempt in list(self._under_way.items()):
            answer = answer_of(found.get(task_id), attempt, self.tally.fingerprint)
            if answer is not None:
                del self._under_way[task_id]
                self._count(task_id, answer)
                answers += 1
        return answers

    def _count(self, task_id: int, answer: RetryOutcome) -> None:
        self.tally.answers[answer] += 1
        failed = answer in {RetryOutcome.FAILED_AGAIN, RetryOutcome.FAILED_OTHERWISE}
        if failed:
            self.tally.sample_failure = task_id
        self.pace.end(None if answer is RetryOutcome.TAKEN_AWAY else failed)
