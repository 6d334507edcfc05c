"""The task center: the one door to SQL. Tasks, runs, occurrences, nodes; every statement stands in statements/."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from taskkit.center import schema
from taskkit.center.alert_checks import CheckDesk
from taskkit.center.alerts import AlertBook
from taskkit.center.database import Database
from taskkit.center.deadletters import DeadFilter, DeadLetterDesk
from taskkit.center.dispatch import Batch, DispatchDesk
from taskkit.center.drills import DrillDesk
from taskkit.center.frames import FrameDesk
from taskkit.center.gauges import GaugeDesk
from taskkit.center.granting import GrantDesk
from taskkit.center.intake import Intake
from taskkit.center.ledger import LedgerDesk
from taskkit.center.limits import LimitDesk
from taskkit.center.locks import LockDesk
from taskkit.center.nodes import NodeDesk
from taskkit.center.outbox import OutboxDesk
from taskkit.center.people import PeopleDesk
from taskkit.center.plan import PlanDesk, PlanRules
from taskkit.center.reading import ReadDesk, TaskFilter
from taskkit.center.recovery import RecoveryDesk
from taskkit.center.retention import RetentionDesk
from taskkit.center.samples import SampleDesk
from taskkit.center.shards import ShardDesk
from taskkit.center.watchdogs import WatchdogDesk
from taskkit.center.work import WorkDesk
from taskkit.clock import utc_now

__all__ = ["Batch", "Database", "DeadFilter", "PlanRules", "TaskCenter", "TaskFilter", "WorkDesk"]


class TaskCenter:
    """All verbs on the task center, by who uses them; opens its connections when first needed."""

    def __init__(
        self,
        url: str,
        *,
        rules: PlanRules | None = None,
        pool_size: int = 5,
        overflow: int = 2,
        clock: Callable[[], datetime] = utc_now,
        read_timeout: float = 60,
    ) -> None:
        self.database = Database(
            url, pool_size=pool_size, overflow=overflow, clock=clock, read_timeout=read_timeout
        )
        self.rules = rules or PlanRules()
        self.intake = Intake(self.database)
        self.limits = LimitDesk(self.database)
        self.shards = ShardDesk(self.database)
        self.dispatch = DispatchDesk(self.database, self.limits, self.shards, self.rules.misfire_grace)
        self.granting = GrantDesk(self.database, self.dispatch, self.limits)
        self.plan = PlanDesk(self.database, self.rules)
        self.recovery = RecoveryDesk(self.database, self.shards, self.rules.default_zone)
        self.read = ReadDesk(self.database)
        self.samples = SampleDesk(self.database, self.read)
        self.dead = DeadLetterDesk(self.database)
        self.people = PeopleDesk(self.database, self.rules.default_zone)
        self.nodes = NodeDesk(self.database)
        self.drills = DrillDesk(self.database)
        self.locks = LockDesk(self.database)
        self.frames = FrameDesk(self.database)
        self.checks = CheckDesk(self.database, self.read)
        self.retention = RetentionDesk(self.database)
        self.watchdogs = WatchdogDesk(self.database)
        self.outbox = OutboxDesk(self.database)
        self.alerts = AlertBook(self.database, self.outbox)
        self.ledger = LedgerDesk(self.database)
        self.gauges = GaugeDesk(self.database, self.read)

    def __repr__(self) -> str:
        return f"<TaskCenter {self.database!r}>"

    def worker_desk(self, worker_id: str) -> WorkDesk:
        """The verbs of one worker."""
        return WorkDesk(self.database, worker_id, self.limits, self.rules.default_zone)

    def apart(self, connections: int = 1, *, overflow: int = 0, read_timeout: float = 60) -> TaskCenter:
        """The same task center over so many connections of its own, for who must not wait behind others.

        ``overflow`` more are opened for moments; -1: as many as are asked for.
        """
        return TaskCenter(
            self.database.url.render_as_string(hide_password=False),
            rules=self.rules,
            pool_size=connections,
            overflow=overflow,
            clock=self.database.clock,
            read_timeout=read_timeout,
        )

    def now(self) -> datetime:
        """The database's clock."""
        return self.database.now()

    def check_schema(self) -> None:
        """Raise SchemaError unless the schema fits this code."""
        schema.check(self.database)

    def upgrade_schema(self) -> tuple[str | None, str]:
        """Bring the schema up to date; returns the revision before and after."""
        return schema.upgrade(self.database)

    def schema_revision(self) -> str | None:
        """The revision of the schema, or None."""
        return schema.revision(self.database)

    def close(self) -> None:
        """Close all connections."""
        self.database.close()
