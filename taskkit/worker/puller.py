"""The puller: takes messages from the broker, claims their tasks in SQL, and hands what was won to the pool."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence

from taskkit.center import WorkDesk
from taskkit.clock import monotonic
from taskkit.errors import BrokerUnavailable, StoreError
from taskkit.model import Claims, DeadMessage, Message
from taskkit.queues import Queue, codec
from taskkit.service import Stop, Troubles, carry_on
from taskkit.worker.pool import Pool
from taskkit.worker.tally import Tally
from taskkit.worker.watch import Call

log = logging.getLogger("taskkit.worker")
MISSING_PATIENCE = 5.0
PULL_SECONDS = 0.5
RETRY_MISSING = 0.1
MOST_MISSING = 2000
PRECISE_S = 1.0
"""A claim that took longer does not tell at which moment within it the database's clock was read."""
STALE_S = 5.0
"""A claim that took longer is asked again: whoever stood still for so long may have been declared dead meanwhile."""
WIDEST = 200
"""How many messages are pulled at once when what was pulled turned out to be of no task that waits for it."""


class Puller:
    """One thread: pull, claim, hand over. A message that was popped is claimed or dropped, never pushed back."""

    def __init__(
        self, queue: Queue, desk: WorkDesk, queues: Sequence[str], pool: Pool, stop: Stop, tally: Tally
    ) -> None:
        self.queue, self.desk, self.queues, self.pool, self.stop, self.tally = (
            queue,
            desk,
            queues,
            pool,
            stop,
            tally,
        )
        self.call = Call()
        self.claiming: Sequence[Message] = ()
        self._missing: dict[Message, tuple[float, str]] = {}
        """Since when, and from which queue."""
        self._queue_of: dict[Message, str] = {}
        self._looked, self._widen = 0.0, 1
        self._troubles, self._sql_troubles = Troubles("pulling messages"), Troubles("claiming tasks")
        self._thread = threading.Thread(target=self._run, name="puller", daemon=True)

    def start(self) -> None:
        """Begin to pull."""
        self._thread.start()

    @property
    def ended(self) -> bool:
        """Whether nothing more will come."""
        return not self._thread.is_alive()

    def _run(self) -> None:
        troubles = Troubles("the puller's work")
        while not self.stop.asked:
            self.stop.wait(carry_on(self._turn, troubles))

    def _turn(self) -> float:
        room = self.pool.wait_for_room(PULL_SECONDS)
        if room and not self.stop.asked:
            self._pull(room)
        if self._missing:
            self._look_again()
        return 0.0

    def _pull(self, room: int) -> None:
        try:
            with self.call("pulling messages from the broker"):
                pulled = self.queue.pull(
                    self.queues, max(room, self._widen), RETRY_MISSING if self._missing else PULL_SECONDS
                )
        except BrokerUnavailable as error:
            self.stop.wait(self._troubles.met(error))
            return
        self._troubles.over()
        if pulled.dead:
            self._bury(pulled.dead)
        if pulled.messages:
            self._queue_of = {message: name.queue for name, message in pulled.messages}
            self._claim([message for _, message in pulled.messages])

    def _claim(self, messages: Sequence[Message]) -> None:
        """Claim these, which are in nobody else's hands; meanwhile ``claiming`` says that they are in ours."""
        self.claiming = messages
        try:
            self._take_in(messages)
        finally:
            self.claiming = ()

    def _take_in(self, messages: Sequence[Message]) -> None:
        token = self.desk.new_token()
        claimed = self._until_answered(messages, token)
        if claimed is None:
            _tell_dropped(messages)
            return
        claims, before = claimed
        if claims.won and monotonic() - before > STALE_S:
            self._ask_again(messages, token, claims)
        in_vain = not claims.won and len(self._missing) < MOST_MISSING
        self._widen = min(WIDEST, 2 * max(self._widen, len(messages))) if in_vain else 1
        if claims.won:
            if monotonic() - before < PRECISE_S:
                self.tally.anchor(claims.won[0].claimed_at, before)
            self.pool.add(claims.won)
        self.tally.dropped += len(claims.duplicates)
        for message in claims.duplicates:
            extra = {"task_id": message.task_id, "task_code": message.task_code, "attempt": message.attempt}
            log.info("dropped a message: the task is not waiting for this attempt", extra=extra)
        for message in claims.held:
            log.info("over a limit: held until it lets the task go", extra={"task_id": message.task_id})
        for message in claims.missing:
            self._missing.setdefault(message, (monotonic(), self._queue_of.get(message, "")))

    def _ask_again(self, messages: Sequence[Message], token: str, claims: Claims) -> None:
        """What was won is asked for once more, so that nothing begins here that recovery has given to others."""
        ids = {task.id for task in claims.won}
        again = self._until_answered([message for message in messages if message.task_id in ids], token)
        if again is None:  # a stop, which hands back what was won
            return
        now = again[0]
        claims.won[:] = now.won
        claims.duplicates.extend(now.duplicates)
        claims.expired.extend(now.expired)
        claims.missing.extend(now.missing)
        claims.held.extend(now.held)

    def _until_answered(self, messages: Sequence[Message], token: str) -> tuple[Claims, float] | None:
        """The answer of SQL and when it was asked for; None when a stop comes first.

        All tries are one claim: what one of them has won without our hearing of it, the next one finds.
        """
        while True:
            before = monotonic()
            try:
                with self.call("claiming tasks in SQL"):
                    claims = self.desk.claim(messages, token)
            except StoreError as error:
                pause = self._sql_troubles.met(error)
                if self.stop.asked:
                    return None
                self.stop.wait(pause)
            else:
                self._sql_troubles.over()
                return claims, before

    def _look_again(self) -> None:
        """A message may be ahead of its row's transaction: try for 5 s, then put it aside."""
        now = monotonic()
        if now - self._looked < RETRY_MISSING:
            return
        self._looked = now
        waiting = dict(self._missing)
        self._missing.clear()
        self._claim(list(waiting))
        gone = [m for m in self._missing if now - waiting[m][0] > MISSING_PATIENCE]
        self._missing = {m: waiting[m] for m in self._missing if m not in gone}
        reason = (
            f"no task has this id, or none that can be claimed, after {MISSING_PATIENCE:.0f} s of looking"
        )
        self._bury([DeadMessage(codec.encode(m), reason, waiting[m][1]) for m in gone])

    def _bury(self, dead: Sequence[DeadMessage]) -> None:
        for one in dead:
            log.error("put a message aside in task:dead: %s", one.reason, extra={"raw": one.raw[:200]})
        self.tally.buried += len(dead)
        try:
            if dead:
                self.queue.bury(dead)
        except BrokerUnavailable as error:
            log.error("could not keep %s unreadable messages: %s", len(dead), error)  # noqa: TRY400 - one line


def _tell_dropped(messages: Sequence[Message]) -> None:
    """What was popped and could not be claimed before the stop has no message any more; its rows stay dispatched."""
    log.warning(
        "%s messages were popped but not claimed, since SQL is away; recovery brings their tasks back: %s",
        len(messages),
        ", ".join(str(message.task_id) for message in messages),
        extra={"task_ids": [message.task_id for message in messages]},
    )
