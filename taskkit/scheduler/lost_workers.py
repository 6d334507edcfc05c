"""Finds running tasks whose worker is gone, and takes them from it; age alone proves nothing."""

from __future__ import annotations

import logging
import random
from collections.abc import Mapping, Sequence

from taskkit.center import TaskCenter
from taskkit.center.recovery import Overdue, WatchedWorker
from taskkit.clock import iso, monotonic
from taskkit.model import Claimed, Finish
from taskkit.scheduler.halving import by_halves
from taskkit.scheduler.proofs import Heartbeats
from taskkit.settings import Scheduler
from taskkit.states import DEFAULT_RETRY, Move, Outcome, RetryPolicy, TaskType, judge_loss, own_delays

log = logging.getLogger("taskkit.scheduler")
LEASE_SECONDS = 10.0
OVERDUE_MARGIN = 60.0
TAKING_SECONDS = 2.0
"""How long one pass takes tasks from workers that are gone; the rest comes with the next one."""


class WorkerRecovery:
    """A tick that takes the running tasks of workers that are gone; works while the broker is away.

    Every scheduler looks, so that the proof does not die with one of them; who has the lease acts.
    """

    def __init__(
        self, center: TaskCenter, scheduler_id: str, settings: Scheduler, kill_grace: float = 2.0
    ) -> None:
        self.center, self.id, self.settings = center, scheduler_id, settings
        self._margin = OVERDUE_MARGIN + kill_grace
        self._heartbeats = Heartbeats(settings.dead_after_s)
        self._doubted: set[str] = set()
        self._alarmed: set[tuple[int, int]] = set()
        self._hopeless: set[int] = set()
        self._rng = random.Random()

    def tick(self) -> float:
        """One look at all workers; returns the seconds to rest.

        Taking the lease, or touching its own row, is the write that shows this observer to be healthy.
        """
        acting = self.center.nodes.take_lease("deaths", self.id, LEASE_SECONDS)
        if acting or self.center.nodes.touch_scheduler(self.id):
            self.look(acting=acting)
        return self.settings.recover_every_s

    def look(self, *, acting: bool = True) -> None:
        """Declare dead whose heartbeat stood still, take what dead and vanished workers hold, alarm what hangs on."""
        holders = {holder.worker_id: holder for holder in self.center.recovery.holders()}
        woken = {h.worker_id for h in holders.values() if h.held > h.orphaned}
        watched = {
            w.worker_id: w for w in self.center.recovery.watched() if not w.lost or w.worker_id in woken
        }
        deaths = self._heartbeats.look(
            monotonic(),
            {w.worker_id: w.heartbeat_count for w in watched.values()},
            {w.worker_id: w.age_s for w in watched.values()},
        )
        if not acting:
            return
        self._doubt(deaths.doubted, len(watched))
        self._alarm(self.center.recovery.overdue(self._margin))
        dead = [worker for worker in deaths.dead if self._declare_dead(watched[worker])]
        gone = [holder.worker_id for holder in holders.values() if holder.orphaned]
        deadline = monotonic() + TAKING_SECONDS
        for worker_id in dict.fromkeys([*dead, *gone]):
            self._take_from(worker_id, deadline)
        self._heartbeats.ended(monotonic())

    def _declare_dead(self, worker: WatchedWorker) -> bool:
        declared = self.center.recovery.declare_dead(worker)
        if declared:
            still = f"its heartbeat stood still for {self.settings.dead_after_s:g} s"
            log.error("worker %s is declared dead: %s", worker.worker_id, still)
        return declared

    def _doubt(self, doubted: Sequence[str], of: int) -> None:
        if set(doubted) - self._doubted:
            log.error(
                "%s of %s workers stand still at once: waiting as long again before they are declared dead; "
                "look at the database and the network first: %s",
                len(doubted), of, ", ".join(sorted(doubted)),
            )  # fmt: skip
        self._doubted = set(doubted)

    def _take_from(self, worker_id: str, deadline: float) -> None:
        while monotonic() <= deadline:
            orphans = self.center.recovery.orphans(worker_id, self._hopeless)
            ends = self._lose(worker_id, orphans) if orphans else []
            for end in ends:
                extra = {"task_id": end.task.id, "task_code": end.task.task_code, "attempt": end.task.attempt}
                log.warning("lost with worker %s: %s", worker_id, _follows(end), extra=extra)
            if not ends:
                return

    def _lose(self, worker_id: str, orphans: Mapping[int, int]) -> list[Finish]:
        """Take these rows; one that the database refuses to write is left to a person."""

        def lose(ids: Sequence[int]) -> list[Finish]:
            return self.center.recovery.lose(worker_id, {i: orphans[i] for i in ids}, self._judge)

        def refused(task_id: int, error: Exception) -> None:
            self._hopeless.add(task_id)
            told = "lost with worker %s, and its row cannot be written, a person must mend it: %s"
            log.error(told, worker_id, error, extra={"task_id": task_id})

        return [end for ends in by_halves(sorted(orphans), lose, refused) for end in ends]

    def _judge(self, task: Claimed) -> Finish:
        verdict = judge_loss(
            periodic=task.task_type == TaskType.PERIODIC,
            retry_count=task.retry_count,
            max_retry=task.max_retry,
            lost_count=task.lost_count + 1,
            policy=_policy(task),
            rng=self._rng,
        )
        return Finish(
            task=task,
            outcome=Outcome.LOST,
            move=verdict.move,
            retry_count=verdict.retry_count,
            delay=verdict.delay,
            error=f"lost with its worker, loss {task.lost_count + 1}: claimed at {iso(task.claimed_at)}, and never ended",
            suspect=task.lost_count > 0,
        )

    def _alarm(self, overdue: Sequence[Overdue]) -> None:
        for one in overdue:
            if (one.task_id, one.attempt) not in self._alarmed:
                log.error(
                    "still running %.0f s after its claim, with a time limit of %g s: worker %s does not end it",
                    one.age_s, one.timeout, one.worker_id,
                    extra={"task_id": one.task_id, "task_code": one.task_code, "attempt": one.attempt},
                )  # fmt: skip
        self._alarmed = {(one.task_id, one.attempt) for one in overdue}


def _policy(task: Claimed) -> RetryPolicy:
    """The task's own delays, or the usual ones: a scheduler does not know the handlers."""
    return RetryPolicy(own_delays(task.retry_delays) or DEFAULT_RETRY.delays)


def _follows(end: Finish) -> str:
    if end.move is not Move.LOSE:
        return "given up"
    return "starts again at once" if end.delay is None else f"starts again in {end.delay:.0f} s, alone"
