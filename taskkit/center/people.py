"""What a person may do to a task, each by a guarded move and each recorded with who did it."""

from __future__ import annotations

from typing import Any

from sqlalchemy.engine import Connection, Row
from sqlalchemy.exc import IntegrityError

from taskkit.center.database import Database
from taskkit.center.lines import leave
from taskkit.center.statements import people as sql
from taskkit.errors import IllegalMove, KeyTaken, NotFound
from taskkit.planning import first, schedule_of, within
from taskkit.states import Move, Status, TaskType, check, sources, target, word
from taskkit.texts import encodable


class PeopleDesk:
    """Run now, retry, give up, cancel, pause, resume: moves that only a person makes."""

    def __init__(self, database: Database, default_zone: str = "UTC") -> None:
        self.database = database
        self.default_zone = default_zone

    def run_now(self, task_id: int, actor: str) -> Status:
        """Make a waiting, failed or finished task due now; a periodic one keeps its rhythm."""
        return self._act(task_id, Move.RUN_NOW, actor, self._start)

    def retry(self, task_id: int, actor: str, after: int | None = None) -> Status:
        """Start a given up or cancelled task afresh, its retries counted from 0.

        ``after``: only one that still stands given up as attempt number ``after`` left it.
        """

        def act(connection: Connection, row: Row[Any]) -> Status:
            if after is not None and (row.status != Status.GIVEN_UP or row.attempt != after):
                raise IllegalMove(f"{_story(row)} is no longer what gave up with attempt {after}")
            return self._start(connection, row)

        return self._act(task_id, Move.RETRY, actor, act)

    def give_up(self, task_id: int, actor: str) -> Status:
        """Stop retrying a failed task; a periodic one, which is never given up, raises IllegalMove."""
        return self._act(task_id, Move.GIVE_UP, actor, self._give_up)

    def cancel(self, task_id: int, actor: str) -> Status:
        """Cancel a task; a running one is asked to stop, and its worker ends it."""

        def act(connection: Connection, row: Row[Any]) -> Status:
            if row.status == Status.RUNNING:
                parameters = {"id": task_id, "status": int(Status.RUNNING)}
                connection.execute(self.database.text(sql.ASK_TO_CANCEL), parameters)
                return Status.RUNNING
            check(Move.CANCEL, row.status, _story(row))
            note = encodable(f"cancelled by {actor}")[:190]
            return self._move(connection, row, Move.CANCEL, sql.MOVE, note=note)

        return self._act(task_id, Move.CANCEL, actor, act, checked=False)

    def pause(self, task_id: int, actor: str, reason: str = "") -> Status:
        """Hold a waiting task until it is resumed."""
        text = f"paused by {actor}" + (f": {reason}" if reason else "")

        def act(connection: Connection, row: Row[Any]) -> Status:
            return self._move(connection, row, Move.HOLD, sql.HOLD, reason=encodable(text)[:190])

        return self._act(task_id, Move.HOLD, actor, act)

    def resume(self, task_id: int, actor: str) -> Status:
        """Release a held task; a periodic one goes on with its next future occurrence."""

        def act(connection: Connection, row: Row[Any]) -> Status:
            return self._move(connection, row, Move.RELEASE, sql.RELEASE, **self._next_future(row))

        return self._act(task_id, Move.RELEASE, actor, act)

    def _act(self, task_id: int, move: Move, actor: str, act: Any, *, checked: bool = True) -> Status:
        keys: list[str | None] = []

        def work(connection: Connection) -> Status:
            row = connection.execute(self.database.text(sql.LOCK_TASK), {"id": task_id}).one_or_none()
            if row is None:
                raise NotFound(f"there is no task {task_id}; `taskkit tasks list` shows those there are")
            keys.append(row.unique_key)
            if checked:
                check(move, row.status, _story(row))
            status: Status = act(connection, row)
            record = {
                "actor": encodable(actor)[:100],
                "action": move.value,
                "task_id": task_id,
                "detail": f"{Status(row.status).label} -> {status.label}",
            }
            connection.execute(self.database.text(sql.RECORD), record)
            return status

        try:
            return self.database.write(work)
        except IntegrityError as error:
            raise self._taken(task_id, move, keys[-1]) from error

    def _taken(self, task_id: int, move: Move, key: str | None) -> KeyTaken:
        text, parameters = self.database.text(sql.HOLDER_OF_KEY), {"key": key}
        holder = self.database.read(lambda c: c.execute(text, parameters).scalar())
        return KeyTaken(
            f"task {task_id} cannot {word(move)}: its unique_key {key!r} is held by "
            f"{'another live task' if holder is None else f'task {holder}'}",
            holder,
        )

    def _start(self, connection: Connection, row: Row[Any]) -> Status:
        move = Move.RETRY if row.status in sources(Move.RETRY) else Move.RUN_NOW
        by_hand = row.task_type == TaskType.PERIODIC and row.status != Status.FAILED and not self._due(row)
        return self._move(connection, row, move, sql.START_PERIODIC_BY_HAND if by_hand else sql.START_AFRESH)

    def _due(self, row: Row[Any]) -> bool:
        """An occurrence is waiting already: to run the task now is to run that one."""
        at, now = self.database.dialect.instant(row.occurrence_at), self.database.dialect.instant(row.now)
        return bool(row.status == Status.PENDING and at is not None and now is not None and at <= now)

    def _give_up(self, connection: Connection, row: Row[Any]) -> Status:
        if row.task_type == TaskType.PERIODIC:
            raise IllegalMove(
                f"{_story(row)}: a periodic task is not given up; cancel it, or pause it and resume it later"
            )
        return self._move(connection, row, Move.GIVE_UP, sql.MOVE, note="given up by a person")

    def _move(self, connection: Connection, row: Row[Any], move: Move, template: str, **extra: Any) -> Status:
        parameters = {
            "id": row.id,
            "to": int(target(move)),
            "statuses": [int(s) for s in sources(move)],
            **extra,
        }
        connection.execute(self.database.text(template), parameters)
        if row.status == Status.HELD:
            leave(connection, self.database, [row.id])
        return target(move)

    def _next_future(self, row: Row[Any]) -> dict[str, Any]:
        if row.task_type != TaskType.PERIODIC:
            return {"plan": None, "next_fire_at": None}
        schedule = schedule_of(row.cron_expr, row.timezone, row.dst_gap, row.dst_overlap, self.default_zone)
        up = within(first(schedule, self.database.dialect.moment(row.now)), self.database.dialect.last)
        bind = self.database.dialect.bind
        return {"plan": bind(up.occurrence_at), "next_fire_at": bind(up.next_fire_at)}


def _story(row: Row[Any]) -> str:
    return f"task {row.id} ({row.task_code})"
