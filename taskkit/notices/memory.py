"""An outbox in memory, for what has to be told while SQL is away. What is in it ends with the process."""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from taskkit.alerts import Event, Notice, Posting
from taskkit.center.outbox import Robot, RobotStanding, TakenNotice, WaitingNotice
from taskkit.center.posting import new_uuid
from taskkit.clock import monotonic


@dataclass(slots=True)
class _Kept:
    waiting: WaitingNotice
    due: float
    under_way: bool = False


class MemoryOutbox:
    """The verbs of the SQL outbox over a list. Its budget counts its own calls: SQL, which counts the others, is away."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self.clock = clock
        self._lock = threading.RLock()
        self._numbers = itertools.count(1)
        self._kept: dict[int, _Kept] = {}
        self._withdrawn: dict[int, _Kept] = {}
        self._calls: dict[str, deque[float]] = {}
        self._paused: dict[str, tuple[float, str, bool]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def post(self, postings: Sequence[Posting]) -> None:
        """Put items into the outbox; what is over before it was told is told as over."""
        with self._lock:
            for posting in postings:
                if posting.item.event is Event.FIRING or not self._amended(posting):
                    notice = Notice(uuid=new_uuid(), receiver=posting.receiver, items=(posting.item,))
                    self._add(notice, posting.wait_s)

    def post_notice(self, notice: Notice, severity: str = "warning") -> None:
        """Put a whole notice into the outbox, unless one with its key waits there."""
        with self._lock:
            if all(kept.waiting.notice.uuid != notice.uuid for kept in self._kept.values()):
                self._add(notice, 0.0)

    def withdraw(self, rule: str, name: str) -> list[Posting]:
        """Take back what was not told yet of an alert; until the next time it can be put back as it was."""
        found = []
        with self._lock:
            self._withdrawn = {}
            for number, kept in list(self._kept.items()):
                notice = kept.waiting.notice
                if not kept.under_way and any((i.rule, i.object) == (rule, name) for i in notice.items):
                    found += [Posting(notice.receiver, item) for item in notice.items]
                    self._withdrawn[number] = self._kept.pop(number)
        return found

    def put_back(self) -> None:
        """Undo the last withdrawal: with its keys, its attempts, and when it is due."""
        with self._lock:
            self._kept = dict(sorted({**self._kept, **self._withdrawn}.items()))
            self._withdrawn = {}

    def waiting(self, receivers: Sequence[str]) -> list[WaitingNotice]:
        """What waits for these receivers."""
        now = self.clock()
        with self._lock:
            return [
                replace(kept.waiting, due=kept.due <= now)
                for kept in self._kept.values()
                if kept.waiting.notice.receiver in receivers and not kept.under_way
            ]

    def standing(self, robot: Robot) -> RobotStanding:
        """What a robot may take now."""
        now = self.clock()
        with self._lock:
            calls = self._calls.setdefault(robot.robot, deque())
            while calls and calls[0] <= now - robot.span_s:
                calls.popleft()
            until, reason, misconfigured = self._paused.get(robot.robot, (0.0, "", False))
            free = None if robot.budget is None else robot.budget - len(calls)
            newest = now - calls[-1] if calls else None
            oldest = now - calls[0] if calls else None
            return RobotStanding(free, max(0.0, until - now), misconfigured, reason or None, newest, oldest)

    def take(
        self, robot: Robot, chosen: Sequence[WaitingNotice], merged: Notice, holder: str
    ) -> TakenNotice | None:
        """Take these as one."""
        with self._lock:
            if any(one.id not in self._kept for one in chosen):
                return None
            first = chosen[0].id
            for one in chosen[1:]:
                del self._kept[one.id]
            attempts = chosen[0].attempts + 1
            kept = self._kept[first]
            kept.waiting, kept.under_way = replace(kept.waiting, notice=merged, attempts=attempts), True
            return TakenNotice(first, merged, attempts, tuple(range(robot.calls)))

    def called(self, call_id: int, kind: str, verdict: str, code: str, reply: str, took_ms: float) -> None:
        """Nothing is kept of it."""

    def sent(self, taken: TakenNotice, robot: Robot, made: int, code: str, reply: str, month: str) -> None:
        """It arrived; a pause that is over is forgotten, one that began with its mention or file lasts."""
        with self._lock:
            self._kept.pop(taken.id, None)
            if self._paused.get(robot.robot, (0.0, "", False))[0] <= self.clock():
                self._paused.pop(robot.robot, None)
            for _ in range(made):
                self._calls.setdefault(robot.robot, deque()).append(self.clock())

    def again(self, taken: TakenNotice, wait_s: float, code: str, reply: str) -> None:
        """It is tried again after a while."""
        with self._lock:
            kept = self._kept[taken.id]
            kept.due, kept.under_way = self.clock() + wait_s, False

    def refused(self, taken: TakenNotice, code: str, reply: str) -> None:
        """It can never arrive."""
        with self._lock:
            self._kept.pop(taken.id, None)

    def pause(self, robot: Robot, pause_s: float, reason: str, *, misconfigured: bool = False) -> None:
        """Call this robot for so long no more."""
        with self._lock:
            self._paused[robot.robot] = (self.clock() + pause_s, reason, misconfigured)

    def _amended(self, posting: Posting) -> bool:
        for kept in self._kept.values():
            notice = kept.waiting.notice
            same = any(
                (item.rule, item.object) == (posting.item.rule, posting.item.object) for item in notice.items
            )
            if same and notice.receiver == posting.receiver and not kept.under_way:
                from msgspec.structs import replace as changed

                kept.waiting = replace(kept.waiting, notice=changed(notice, items=(posting.item,)))
                return True
        return False

    def _add(self, notice: Notice, wait_s: float) -> None:
        number = next(self._numbers)
        self._kept[number] = _Kept(WaitingNotice(number, notice, 0, due=False), self.clock() + wait_s)
