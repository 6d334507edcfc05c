"""The planner's verbs: adopt rows that others inserted, keep occurrences written ahead, apply misfire policies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy.engine import Connection, Row

from taskkit.center.database import Database
from taskkit.center.occurrences import plan_ahead, settle
from taskkit.center.packed import write_rows
from taskkit.center.statements import plan as sql
from taskkit.clock import seconds
from taskkit.cron import Schedule
from taskkit.errors import CronError, InputError
from taskkit.limits import OVER
from taskkit.model import DueList
from taskkit.planning import NextUp, ahead, catch_up, digest, first, schedule_of, within
from taskkit.states import Move, OccurrenceState, Status, TaskType, sources, target

Mark = tuple[int, str, datetime | None]
CHUNK = 500
ROWS_PER_STATEMENT = 200
SETTLE_AFTER = 60.0
INVALID = "invalid: "
"""How the reason of a task begins whose row makes no sense; a person mends it and resumes the task."""


@dataclass(frozen=True, slots=True)
class PlanRules:
    """What the planner needs from the settings."""

    default_zone: str = "UTC"
    default_queue: str | None = None
    misfire_grace: float = 60.0
    ahead_hours: float = 24.0
    ahead_most: int = 100


class PlanDesk:
    """Writes occurrences by the calendar and moves periodic tasks by compare-and-set on ``occurrence_at``."""

    def __init__(self, database: Database, rules: PlanRules) -> None:
        self.database = database
        self.rules = rules
        self._refill: dict[int, tuple[str, datetime]] = {}

    def adopt(self, lists: Sequence[DueList]) -> int:
        """Give queue, type and next time to rows that were inserted without them; returns how many."""
        rows: list[Row[Any]] = []
        status = {"status": int(Status.PENDING), "n": CHUNK}

        def look(connection: Connection) -> None:
            rows.extend(connection.execute(self.database.text(sql.UNADOPTED), status))
            text = self.database.text(sql.UNPLANNED_IN_LIST)
            for one in lists:
                if one.queue:
                    rows.extend(
                        connection.execute(text, {**status, "queue": one.queue, "priority": one.priority})
                    )

        self.database.read(look)
        return self._adopt(rows)

    def adopt_ids(self, ids: Sequence[int]) -> int:
        """Adopt these rows, which a scan met before they were planned."""
        text, parameters = self.database.text(sql.UNADOPTED_BY_ID), {"ids": sorted(ids), "status": 0}
        return self._adopt(self.database.read(lambda c: c.execute(text, parameters).all()))

    def sweep(self) -> int:
        """One pass over all periodic tasks; returns how many were looked at."""
        after = seen = 0
        while rows := self._periodic(after):
            for row in rows:
                self._plan(row)
            seen += len(rows)
            after = rows[-1].id
        self._settle_old()
        self._forget_orphans()
        return seen

    def plan_ids(self, ids: Sequence[int]) -> None:
        """Look at these periodic tasks now: a scan met them misfired."""
        text = self.database.text(sql.PERIODIC_BY_ID)
        rows = self.database.read(lambda c: c.execute(text, {"ids": sorted(ids)}).all())
        for row in rows:
            self._plan(row)

    def _adopt(self, rows: Sequence[Row[Any]]) -> int:
        ready, marks = [], []
        for _, row in sorted({row.id: row for row in rows}.items()):
            try:
                values, schedule = self._adopted(row)
            except InputError as error:
                self.set_aside(row.id, str(error))
                continue
            ready.append(tuple(values[name] for name in sql.ADOPTED))
            if schedule is not None:
                marks.append((row.id, digest(schedule, row.misfire), None))
        return self.database.write(lambda c: self._complete(c, ready, marks)) if ready else 0

    def _complete(
        self, connection: Connection, ready: Sequence[tuple[Any, ...]], marks: Sequence[Mark]
    ) -> int:
        done = 0
        for start in range(0, len(ready), ROWS_PER_STATEMENT):
            part = ready[start : start + ROWS_PER_STATEMENT]
            each = sql.adopt(not self.database.sqlite)
            done += write_rows(connection, self.database, each, part).rowcount
        self._remember(connection, marks)
        return done

    def _adopted(self, row: Row[Any]) -> tuple[dict[str, Any], Schedule | None]:
        """What the row lacks, and the schedule of a periodic one; raises InputError for a row that makes no sense."""
        values: dict[str, Any] = {
            "id": row.id,
            "queue": row.queue or self.rules.default_queue or row.task_code,
            "task_type": row.task_type,
            "timezone": row.timezone,
            "occurrence_at": None,
            "next_fire_at": None,
        }
        if row.cron_expr is not None:
            return self._adopted_periodic(row, values)
        planned = self.database.dialect.instant(row.plan_next_run_at)
        created = self.database.dialect.moment(row.created_at)
        if planned is not None and planned > created and row.task_type == TaskType.ONE_OFF:
            values["task_type"] = int(TaskType.TIMED)
        if planned is None and row.delay > (self.database.dialect.last - created).total_seconds():
            raise InputError("delay", f"{row.delay} s lead to an instant later than the database can hold")
        values["plan"] = self.database.dialect.bind(planned or created + timedelta(seconds=row.delay))
        return values, None

    def _adopted_periodic(self, row: Row[Any], values: dict[str, Any]) -> tuple[dict[str, Any], Schedule]:
        bind = self.database.dialect.bind
        zone = row.timezone or self.rules.default_zone
        schedule = schedule_of(row.cron_expr, zone, row.dst_gap, row.dst_overlap, zone)
        up = within(first(schedule, self.database.dialect.moment(row.now)), self.database.dialect.last)
        return values | {
            "task_type": int(TaskType.PERIODIC),
            "timezone": zone,
            "plan": bind(up.occurrence_at),
            "occurrence_at": bind(up.occurrence_at),
            "next_fire_at": bind(up.next_fire_at),
        }, schedule

    def _periodic(self, after: int) -> Sequence[Row[Any]]:
        text, parameters = self.database.text(sql.PERIODIC), {"after": after, "n": CHUNK}
        return self.database.read(lambda c: c.execute(text, parameters).all())

    def _plan(self, row: Row[Any]) -> None:
        if row.status == Status.CANCELLED or (row.held_reason or "").startswith(INVALID):
            return
        try:
            schedule = schedule_of(
                row.cron_expr, row.timezone, row.dst_gap, row.dst_overlap, self.rules.default_zone
            )
            self._keep(row, schedule)
        except CronError as error:
            if row.status in sources(Move.HOLD):
                self.set_aside(row.id, str(error))

    def _keep(self, row: Row[Any], schedule: Schedule) -> None:
        now, mark = self.database.dialect.moment(row.now), digest(schedule, row.misfire)
        edited = row.digest is not None and row.digest != mark
        up = self._next_up(row, schedule, now, edited)
        up = up and within(up, self.database.dialect.last)
        refill = self._refill.get(row.id)
        if up is None and not edited and refill is not None and refill[0] == mark and now < refill[1]:
            return
        fresh = row.digest is None or edited or refill is None or refill[0] != mark or now >= refill[1]
        planned = self._ahead(schedule, now) if fresh else []

        def write(connection: Connection) -> None:
            if edited:
                connection.execute(self.database.text(sql.DROP_PLANNED), {"task_id": row.id})
            if up is not None and self._move(connection, row, up):
                settle(connection, self.database, row.id, up.passed, OccurrenceState.SKIPPED, up.reason)
            if planned:
                plan_ahead(connection, self.database, row.id, planned)
                self._remember(connection, [(row.id, mark, planned[-1])])

        self.database.write(write)
        if planned:
            self._refill[row.id] = (mark, planned[len(planned) // 2])

    def _ahead(self, schedule: Schedule, now: datetime) -> list[datetime]:
        found = ahead(schedule, now, self.rules.ahead_hours, self.rules.ahead_most)
        return [at for at in found if at <= self.database.dialect.last]

    def _next_up(self, row: Row[Any], schedule: Schedule, now: datetime, edited: bool) -> NextUp | None:
        """Where a waiting task should stand instead of where it stands; None: it is right there."""
        if row.status != Status.PENDING or row.occurrence_attempt is not None:
            return None
        at = self.database.dialect.instant(row.occurrence_at)
        if at is None:
            return first(schedule, now) if row.plan_next_run_at is None else None
        settled = row.state not in {None, OccurrenceState.PLANNED}
        if (edited and at > now) or (settled and at <= now):
            return first(schedule, now)
        up = catch_up(schedule, row.misfire, at, now, seconds(self.rules.misfire_grace))
        return up or self._next_fire_mended(row, schedule, at, now)

    def _next_fire_mended(
        self, row: Row[Any], schedule: Schedule, at: datetime, now: datetime
    ) -> NextUp | None:
        """A late occurrence that stands must not carry the next fire time of a schedule it had before."""
        known = self.database.dialect.instant(row.next_fire_at)
        if known is not None and at > now:
            return None
        up = NextUp(at, schedule.next(at))
        return None if known == min(up.next_fire_at, self.database.dialect.last) else up

    def _move(self, connection: Connection, row: Row[Any], up: NextUp) -> bool:
        """Compare-and-set; a late task keeps its place in the line, one that waits for the future does not."""
        bind, dialect = self.database.dialect.bind, self.database.dialect
        now, plan = self.database.dialect.moment(row.now), dialect.instant(row.plan_next_run_at)
        place = (
            plan
            if plan is not None and up.occurrence_at <= now and plan < up.occurrence_at
            else up.occurrence_at
        )
        parameters = {
            "id": row.id,
            "statuses": [int(Status.PENDING)],
            "was": bind(dialect.instant(row.occurrence_at)),
            "occurrence_at": bind(up.occurrence_at),
            "next_fire_at": bind(up.next_fire_at),
            "plan": bind(place),
        }
        return bool(connection.execute(self.database.text(sql.MOVE_OCCURRENCE), parameters).rowcount)

    def _remember(self, connection: Connection, marks: Sequence[Mark]) -> None:
        """Note under which schedule these tasks were planned, and how far."""
        text = self.database.text(sql.REMEMBER_SQLITE if self.database.sqlite else sql.REMEMBER_MYSQL)
        bind = self.database.dialect.bind
        rows = [{"task_id": i, "digest": mark, "planned_until": bind(until)} for i, mark, until in marks]
        if rows:
            connection.execute(text, rows)

    def set_aside(self, task_id: int, reason: str) -> bool:
        """A task whose row makes no sense is held with the reason; the others go on. False when it cannot be held."""
        parameters = {
            "id": task_id,
            "to": int(target(Move.HOLD)),
            "statuses": [int(s) for s in sources(Move.HOLD)],
            "reason": f"{INVALID}{reason}"[:190],
        }
        text = self.database.text(sql.SET_ASIDE)
        return bool(self.database.write(lambda c: c.execute(text, parameters)).rowcount)

    def _settle_old(self) -> None:
        """Planned times that went by without firing, though their task has moved on or is held, are facts too."""
        text = self.database.text(sql.PLANNED_LONG_AGO)
        parameters = {"age": SETTLE_AFTER, "n": CHUNK}
        rows = self.database.read(lambda c: c.execute(text, parameters).all())
        for row in rows:
            self._settle_one(row)

    def _settle_one(self, row: Row[Any]) -> None:
        planned = self.database.dialect.moment(row.planned_at)
        at = self.database.dialect.instant(row.occurrence_at)
        if row.status is None or row.status == Status.CANCELLED:
            state, reason = OccurrenceState.SKIPPED, "the task is gone" if row.status is None else "cancelled"
        elif row.status == Status.HELD and not row.held_reason.startswith(OVER):
            state, reason = OccurrenceState.SKIPPED, f"held: {row.held_reason}"[:100]
        elif at is not None and at > planned:
            state, reason = OccurrenceState.MISSED, "no scheduler fired it in time"
        else:
            return
        self.database.write(lambda c: settle(c, self.database, row.task_id, [planned], state, reason))

    def _forget_orphans(self) -> None:
        rows = self.database.read(lambda c: c.execute(self.database.text(sql.ORPHANS)).all())
        if rows:
            parameters = {"ids": [row.task_id for row in rows]}
            self.database.write(lambda c: c.execute(self.database.text(sql.FORGET_ORPHANS), parameters))
