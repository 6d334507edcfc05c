"""The outbox: notices that wait, are under way, and went, and what each robot may still take. Rows are the truth here too."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from msgspec.structs import replace
from sqlalchemy.engine import Connection

from taskkit.alerts import Event, Notice, Posting
from taskkit.center.database import Database
from taskkit.center.posting import PostDesk, notice_of
from taskkit.center.statements import outbox as sql

STALE_S = 60.0
"""A notice under way for so long is nobody's any more: whoever took it has died."""
MONTH_LETTERS = 7


@dataclass(frozen=True, slots=True)
class Robot:
    """What the other side counts as one: an address, the receivers that use it, and what it takes."""

    robot: str
    receivers: tuple[str, ...]
    budget: int | None = None
    span_s: float = 60.0
    calls: int = 1
    """How many calls one notice may need."""


@dataclass(frozen=True, slots=True)
class WaitingNotice:
    """A notice in the outbox."""

    id: int
    notice: Notice
    attempts: int
    due: bool


@dataclass(frozen=True, slots=True)
class RobotStanding:
    """What is known of a robot at this moment: ``free`` calls of its budget, and for how long it is paused."""

    free: int | None
    pause_s: float = 0.0
    misconfigured: bool = False
    reason: str | None = None
    newest_s: float | None = None
    """The age of the latest call."""
    oldest_s: float | None = None
    """The age of the oldest call that still counts."""
    month_calls: int = 0


@dataclass(frozen=True, slots=True)
class TakenNotice:
    """A notice that is ours to send, with a place in the budget for each call."""

    id: int
    notice: Notice
    attempts: int
    calls: tuple[int, ...]
    holder: str = ""


class OutboxDesk:
    """Rows of ``task_notice``, ``task_delivery`` and ``task_robot``."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.desk = PostDesk(database)

    def post(self, postings: Iterable[Posting]) -> None:
        """Put items into the outbox in a transaction of their own."""
        found = tuple(postings)

        def work(connection: Connection) -> None:
            for posting in found:
                self.desk.put(connection, posting)

        self.database.write(work)

    def post_notice(self, notice: Notice, severity: str = "warning") -> None:
        """Put a whole notice that is about no alert into the outbox, unless one with its key was there before."""
        self.database.write(lambda c: self.desk.new(c, notice, severity=severity))

    def known(self, events: Iterable[tuple[int, str]], receiver: str) -> set[tuple[int, str]]:
        """Which of these events of alerts a receiver has a notice of already."""
        ids = sorted({alert_id for alert_id, _ in events}) or [0]
        rows = self.database.read(lambda c: self._run(c, sql.KNOWN, {"ids": ids, "receiver": receiver}).all())
        return {(int(row.alert_id), row.event) for row in rows}

    def waiting(self, receivers: Sequence[str]) -> list[WaitingNotice]:
        """What waits for these receivers, the oldest first, at most 500; also what a dead process had taken."""
        rows = self.database.read(
            lambda c: self._run(c, sql.WAITING, {"names": list(receivers) or [""], "stale_s": STALE_S}).all()
        )
        return [WaitingNotice(int(r.id), notice_of(r.body), int(r.attempts), bool(r.due)) for r in rows]

    def standing(self, robot: Robot) -> RobotStanding:
        """What a robot may take now."""
        return self.database.write(lambda c: self._standing(c, robot))

    def take(
        self, robot: Robot, chosen: Sequence[WaitingNotice], merged: Notice, holder: str
    ) -> TakenNotice | None:
        """Take these waiting notices as one, with places for its calls; None when somebody else was faster or there is no room.

        More than one are merged: the new notice tells all of their items, and the old ones point to it. A notebook of an
        alert that is over is left out: a receiver that keeps incidents would take it for a new one.
        """

        def work(connection: Connection) -> TakenNotice | None:
            standing = self._standing(connection, robot)
            if standing.pause_s > 0 or (standing.free is not None and standing.free < robot.calls):
                return None
            names = {"names": list(robot.receivers), "stale_s": STALE_S}
            if self._run(connection, sql.UNDER_WAY, names).first() is not None:
                return None
            current = self._without_old_notebooks(connection, merged)
            if merged.items and not current.items:
                self._drop(connection, chosen)
                return None
            notice_id = self._chosen(connection, chosen, current)
            if not self._run(
                connection, sql.CLAIM, {"id": notice_id, "holder": holder, "stale_s": STALE_S}
            ).rowcount:
                return None
            calls = [
                self._call(connection, notice_id, current.receiver, robot.robot) for _ in range(robot.calls)
            ]
            return TakenNotice(
                notice_id, current, max(one.attempts for one in chosen) + 1, tuple(calls), holder
            )

        return self.database.write(work)

    def _without_old_notebooks(self, connection: Connection, notice: Notice) -> Notice:
        ids = sorted({item.alert_id for item in notice.items if item.event is Event.EVIDENCE})
        if not ids:
            return notice
        over = {int(row.id) for row in self._run(connection, sql.OVER, {"ids": ids})}
        left = (i for i in notice.items if i.event is not Event.EVIDENCE or i.alert_id not in over)
        return replace(notice, items=tuple(left))

    def _drop(self, connection: Connection, chosen: Sequence[WaitingNotice]) -> None:
        for one in chosen:
            self._run(connection, sql.NOTICE_DROP, {"id": one.id, "state": "dropped", "into": None})

    def _chosen(self, connection: Connection, chosen: Sequence[WaitingNotice], merged: Notice) -> int:
        if len(chosen) == 1:
            return chosen[0].id
        notice_id = self.desk.new(connection, merged, severity=merged.severity)
        for one in chosen:
            self._run(connection, sql.NOTICE_DROP, {"id": one.id, "state": "merged", "into": notice_id})
        return notice_id

    def _call(self, connection: Connection, notice_id: int, receiver: str, robot: str) -> int:
        values = {"notice_id": notice_id, "receiver": receiver, "robot": robot, "kind": "reserved"}
        return int(self._run(connection, sql.CALL_IN, values).lastrowid)

    def called(self, call_id: int, kind: str, verdict: str, code: str, reply: str, took_ms: float) -> None:
        """What a call came to; its place in the budget counts from now on."""
        values = {
            "id": call_id,
            "kind": kind[:16],
            "verdict": verdict,
            "code": code[:64],
            "reply": reply[:190],
            "took_ms": took_ms,
        }
        self.database.write(lambda c: self._run(c, sql.CALL_END, values).rowcount)

    def sent(self, taken: TakenNotice, robot: Robot, made: int, code: str, reply: str, month: str) -> None:
        """It arrived, with so many calls; what was kept for more is free again, and so is a robot whose pause is over."""

        def work(connection: Connection) -> None:
            self._release(connection, taken)
            values = {"robot": robot.robot, "calls": made, "month": month[:MONTH_LETTERS]}
            self._run(connection, sql.ROBOT_COUNT, values)
            self._run(connection, sql.ROBOT_WORKS, {"robot": robot.robot})
            values = {"id": taken.id, "code": code[:64], "reply": reply[:190]}
            self._run(connection, sql.SENT, values)

        self.database.write(work)

    def again(self, taken: TakenNotice, wait_s: float, code: str, reply: str) -> None:
        """It did not arrive, and is tried again after a while."""

        def work(connection: Connection) -> None:
            self._release(connection, taken)
            values = {"id": taken.id, "wait_s": wait_s, "code": code[:64], "reply": reply[:190]}
            values["holder"] = taken.holder
            self._run(connection, sql.AGAIN, values)

        self.database.write(work)

    def refused(self, taken: TakenNotice, code: str, reply: str) -> None:
        """It can never arrive as it is."""

        def work(connection: Connection) -> None:
            self._release(connection, taken)
            values = {"id": taken.id, "code": code[:64], "reply": reply[:190]}
            self._run(connection, sql.REFUSED, values)

        self.database.write(work)

    def pause(self, robot: Robot, pause_s: float, reason: str, *, misconfigured: bool = False) -> None:
        """Call this robot for so long no more."""
        values = {
            "robot": robot.robot,
            "pause_s": pause_s,
            "reason": reason[:190],
            "misconfigured": int(misconfigured),
        }

        def work(connection: Connection) -> None:
            self._run(connection, sql.ROBOT_IN, {"robot": robot.robot})
            self._run(connection, sql.ROBOT_PAUSE, values)

        self.database.write(work)

    def free(self, robot: str) -> None:
        """Whatever it was paused for is mended."""
        self.database.write(lambda c: self._run(c, sql.ROBOT_FREE, {"robot": robot}).rowcount)

    def robots(self) -> dict[str, dict[str, Any]]:
        """What is known of each robot, by its fingerprint."""
        rows = self.database.read(lambda c: self._run(c, sql.ROBOTS, {}).all())
        instant = self.database.dialect.instant
        return {
            row.robot: {**row._mapping, "paused_until": instant(row.paused_until), "pause_s": _pause(row)}
            for row in rows
        }

    def depth(self) -> dict[str, tuple[int, float]]:
        """How many notices wait by receiver, and the age of the oldest in seconds."""
        rows = self.database.read(lambda c: self._run(c, sql.COUNT_WAITING, {}).all())
        return {row.receiver: (int(row.notices), float(row.oldest_s or 0.0)) for row in rows}

    def _release(self, connection: Connection, taken: TakenNotice) -> None:
        for call_id in taken.calls:
            self._run(connection, sql.CALL_OUT, {"id": call_id})

    def _standing(self, connection: Connection, robot: Robot) -> RobotStanding:
        row = self._run(connection, sql.ROBOT, {"robot": robot.robot}).one_or_none()
        if row is None:
            self._run(connection, sql.ROBOT_IN, {"robot": robot.robot})
            row = self._run(connection, sql.ROBOT, {"robot": robot.robot}).one()
        calls = self._run(connection, sql.RECENT_CALLS, {"robot": robot.robot, "span_s": robot.span_s}).one()
        free = None if robot.budget is None else robot.budget - int(calls.calls)
        newest = None if calls.newest_s is None else float(calls.newest_s)
        oldest = None if calls.oldest_s is None else float(calls.oldest_s)
        return RobotStanding(
            free, _pause(row), bool(row.misconfigured), row.reason, newest, oldest, int(row.month_calls)
        )

    def _run(self, connection: Connection, template: str, values: dict[str, Any]) -> Any:
        return connection.execute(self.database.text(template), values)


def _pause(row: Any) -> float:
    return 0.0 if row.paused_age_s is None else max(0.0, -float(row.paused_age_s))


def month_of(now: datetime) -> str:
    """The month that a robot's quota counts, such as 2026-11."""
    return now.strftime("%Y-%m")
