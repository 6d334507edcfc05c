"""The first schema: task center, runs, occurrences, nodes, samples; with room for what comes later."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

from taskkit.center.migrations.columns import (
    InstantType,
    big_id,
    count,
    instant,
    instant_checks,
    is_mysql,
    medium_text,
    name,
    payload,
    stamp,
    table,
    tiny,
    whole_checks,
)

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

LIVE_KEY = "CASE WHEN status IN (0, 1, 2, 4, 7) THEN unique_key END"


def upgrade() -> None:
    create_task_center()
    create_task_run()
    create_periodic()
    create_nodes()
    create_small_tables()


def create_task_center() -> None:
    table("task_center", *task_columns(), *task_checks())
    op.create_index("ix_dispatch", "task_center", ["status", "queue", "priority", "plan_next_run_at"])
    op.create_index("uq_live_key", "task_center", ["live_key"], unique=True)


def task_columns() -> list[sa.Column[Any]]:
    """What stands in a row of the task center."""
    zero = sa.text("0")
    return [
        sa.Column("id", big_id(), primary_key=True, autoincrement=True),
        sa.Column("task_code", name(64), nullable=False),
        sa.Column("task_type", tiny(), nullable=False, server_default=zero),
        sa.Column("queue", name(64), nullable=False, server_default=""),
        payload(),
        sa.Column("cron_expr", name(100), nullable=True),
        sa.Column("timezone", name(64), nullable=True),
        sa.Column("misfire", name(8), nullable=False, server_default="once"),
        sa.Column("dst_gap", name(8), nullable=False, server_default="after"),
        sa.Column("dst_overlap", name(8), nullable=False, server_default="first"),
        sa.Column("priority", tiny(), nullable=False, server_default=sa.text("5")),
        sa.Column("delay", count(), nullable=False, server_default=zero),
        sa.Column("timeout", count(), nullable=False, server_default=sa.text("300")),
        sa.Column("max_retry", tiny(), nullable=False, server_default=sa.text("3")),
        sa.Column("retry_count", tiny(), nullable=False, server_default=zero),
        sa.Column("retry_delays", name(100), nullable=True),
        sa.Column("lost_count", count(), nullable=False, server_default=zero),
        sa.Column("status", tiny(), nullable=False, server_default=zero),
        instant("plan_next_run_at"),
        instant("occurrence_at"),
        sa.Column("occurrence_attempt", count(), nullable=True),
        instant("next_fire_at"),
        sa.Column("attempt", count(), nullable=False, server_default=zero),
        instant("dispatched_at"),
        sa.Column("list_name", name(80), nullable=True),
        sa.Column("token", name(32), nullable=True),
        sa.Column("worker_id", name(120), nullable=True),
        instant("claimed_at"),
        sa.Column("suspect", tiny(), nullable=False, server_default=zero),
        sa.Column("unique_key", name(190), nullable=True),
        sa.Column("live_key", name(190), sa.Computed(LIVE_KEY, persisted=True), nullable=True),
        sa.Column("held_reason", name(190), nullable=True),
        instant("held_at"),
        sa.Column("limit_key", name(190), nullable=True),
        sa.Column("batch_id", big_id(), nullable=True),
        sa.Column("waits_for", big_id(), nullable=True),
        instant("expires_at"),
        instant("cancel_requested_at"),
        sa.Column("payload_key_id", name(32), nullable=True),
        sa.Column("trace_id", name(64), nullable=True),
        sa.Column("progress", sa.Float(), nullable=True),
        sa.Column("progress_text", sa.String(190), nullable=True),
        sa.Column("result", medium_text(), nullable=True),
        instant("last_run_at"),
        sa.Column("last_result", sa.Text(), nullable=True),
        stamp("created_at"),
        stamp("updated_at", on_update=True),
    ]


def task_checks() -> list[sa.CheckConstraint]:
    """What the database itself refuses."""
    return [
        sa.CheckConstraint("task_code <> ''", name="ck_task_code"),
        sa.CheckConstraint("task_type IN (0, 1, 2)", name="ck_task_type"),
        sa.CheckConstraint("status BETWEEN 0 AND 7", name="ck_status"),
        sa.CheckConstraint("priority BETWEEN 0 AND 9", name="ck_priority"),
        sa.CheckConstraint("timeout >= 1", name="ck_timeout"),
        sa.CheckConstraint("delay >= 0 AND attempt >= 0 AND lost_count >= 0", name="ck_not_negative"),
        sa.CheckConstraint(
            "max_retry BETWEEN 0 AND 255 AND retry_count BETWEEN 0 AND 255", name="ck_retries"
        ),
        sa.CheckConstraint("task_type <> 1 OR cron_expr IS NOT NULL", name="ck_periodic_has_cron"),
        sa.CheckConstraint("task_type <> 1 OR status NOT IN (3, 5)", name="ck_periodic_goes_on"),
        sa.CheckConstraint(
            "status <> 1 OR (dispatched_at IS NOT NULL AND attempt >= 1 AND list_name IS NOT NULL)",
            name="ck_dispatched_is_somewhere",
        ),
        sa.CheckConstraint(
            "status <> 2 OR (worker_id IS NOT NULL AND claimed_at IS NOT NULL)", name="ck_running_has_owner"
        ),
        sa.CheckConstraint("status <> 7 OR held_reason IS NOT NULL", name="ck_held_has_reason"),
        sa.CheckConstraint("misfire IN ('once', 'skip', 'all')", name="ck_misfire"),
        sa.CheckConstraint("dst_gap IN ('after', 'skip')", name="ck_dst_gap"),
        sa.CheckConstraint("dst_overlap IN ('first', 'second', 'both')", name="ck_dst_overlap"),
        *([] if is_mysql() else [sa.CheckConstraint("json_valid(payload)", name="ck_payload_json")]),
        *instant_checks("plan_next_run_at", "expires_at", "occurrence_at", "next_fire_at", "created_at"),
        *whole_checks("priority", "delay", "timeout", "max_retry", "retry_count", "attempt"),
    ]


def create_task_run() -> None:
    table(
        "task_run",
        sa.Column("id", big_id(), primary_key=True, autoincrement=True),
        sa.Column("task_id", big_id(), nullable=False),
        sa.Column("attempt", count(), nullable=False),
        sa.Column("task_code", name(64), nullable=False),
        sa.Column("queue", name(64), nullable=False),
        sa.Column("outcome", name(16), nullable=False),
        sa.Column("worker_id", name(120), nullable=True),
        sa.Column("host", sa.String(100), nullable=True),
        sa.Column("pid", sa.Integer(), nullable=True),
        instant("dispatched_at"),
        instant("started_at"),
        stamp("finished_at"),
        sa.Column("runtime_ms", sa.BigInteger(), nullable=True),
        instant("occurrence_at"),
        sa.Column("result", medium_text(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("traceback", sa.Text(), nullable=True),
        sa.Column("fingerprint", name(32), nullable=True),
        sa.CheckConstraint("attempt >= 1", name="ck_run_attempt"),
        sa.CheckConstraint(
            "outcome IN ('success', 'failed', 'timeout', 'lost', 'superseded', 'cancelled', 'handed_back', 'given_up')",
            name="ck_run_outcome",
        ),
    )
    op.create_index("uq_run_attempt", "task_run", ["task_id", "attempt"], unique=True)
    op.create_index("ix_run_finished", "task_run", ["finished_at"])


def create_periodic() -> None:
    planned = mysql.TIMESTAMP(fsp=6) if is_mysql() else InstantType()
    table(
        "task_occurrence",
        sa.Column("task_id", big_id(), primary_key=True, autoincrement=False),
        sa.Column("planned_at", planned, primary_key=True, server_default=_epoch()),
        sa.Column("state", name(16), nullable=False, server_default="planned"),
        sa.Column("reason", sa.String(100), nullable=True),
        instant("fired_at"),
        sa.Column("late_s", sa.Float(), nullable=True),
        sa.Column("attempt", count(), nullable=True),
        sa.Column("outcome", name(16), nullable=True),
        sa.CheckConstraint("state IN ('planned', 'fired', 'skipped', 'missed')", name="ck_occurrence_state"),
        sa.CheckConstraint("state <> 'fired' OR fired_at IS NOT NULL", name="ck_fired_has_instant"),
    )
    op.create_index("ix_occurrence_state", "task_occurrence", ["state", "planned_at"])
    table(
        "task_schedule",
        sa.Column("task_id", big_id(), primary_key=True, autoincrement=False),
        sa.Column("digest", name(64), nullable=False),
        instant("planned_until"),
        stamp("updated_at", on_update=True),
    )


def _epoch() -> sa.TextClause | None:
    """MariaDB gives a TIMESTAMP without a default one of its own, which strict mode refuses: state one."""
    return sa.text("'1970-01-01 00:00:01.000000'") if is_mysql() else None


def create_nodes() -> None:
    table(
        "task_worker",
        sa.Column("worker_id", name(120), primary_key=True),
        sa.Column("host", sa.String(100), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("queues", sa.Text(), nullable=False),
        sa.Column("processes", sa.Integer(), nullable=False, server_default=sa.text("0")),
        stamp("started_at"),
        stamp("heartbeat_at"),
        sa.Column("heartbeat_count", sa.BigInteger(), nullable=False, server_default=sa.text("0")),
        instant("last_progress_at"),
        sa.Column("busy", sa.Integer(), nullable=False, server_default=sa.text("0")),
        sa.Column("processed", sa.BigInteger(), nullable=False, server_default=sa.text("0")),
        sa.Column("failed", sa.BigInteger(), nullable=False, server_default=sa.text("0")),
        sa.Column("dropped", sa.BigInteger(), nullable=False, server_default=sa.text("0")),
        sa.Column("retries", sa.BigInteger(), nullable=False, server_default=sa.text("0")),
        sa.Column("rss_bytes", sa.BigInteger(), nullable=True),
        sa.Column("cpu_percent", sa.Float(), nullable=True),
        sa.Column("children", medium_text(), nullable=True),
        sa.Column("tasks", medium_text(), nullable=True),
        sa.Column("stacks", medium_text(), nullable=True),
        sa.Column("restart_requested_at", InstantType(), nullable=True),
        instant("stopped_at"),
    )
    table(
        "task_scheduler",
        sa.Column("scheduler_id", name(120), primary_key=True),
        sa.Column("host", sa.String(100), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        stamp("started_at"),
        stamp("heartbeat_at"),
        sa.Column("heartbeat_count", sa.BigInteger(), nullable=False, server_default=sa.text("0")),
        instant("last_scan_at"),
        sa.Column("scans", sa.BigInteger(), nullable=False, server_default=sa.text("0")),
        sa.Column("dispatched", sa.BigInteger(), nullable=False, server_default=sa.text("0")),
        sa.Column("retries", sa.BigInteger(), nullable=False, server_default=sa.text("0")),
        sa.Column("clock_offset_ms", sa.Float(), nullable=True),
        sa.Column("tzdata_version", name(32), nullable=True),
        instant("stopped_at"),
    )


def create_small_tables() -> None:
    sampled = mysql.TIMESTAMP(fsp=6) if is_mysql() else InstantType()
    table(
        "task_sample",
        sa.Column("sampled_at", sampled, primary_key=True, server_default=_epoch()),
        sa.Column("queue", name(64), primary_key=True),
        sa.Column("due", sa.BigInteger(), nullable=False),
        sa.Column("queued", sa.BigInteger(), nullable=True),
        sa.Column("running", sa.BigInteger(), nullable=False),
        sa.Column("retrying", sa.BigInteger(), nullable=False),
        sa.Column("held", sa.BigInteger(), nullable=False),
        sa.Column("oldest_age_s", sa.Float(), nullable=True),
        sa.Column("finished", sa.BigInteger(), nullable=False),
        sa.Column("failed", sa.BigInteger(), nullable=False),
    )
    table(
        "task_lease",
        sa.Column("name", name(32), primary_key=True),
        sa.Column("holder", name(120), nullable=False),
        sa.Column("fence", sa.BigInteger(), nullable=False, server_default=sa.text("0")),
        stamp("expires_at"),
    )
    table(
        "task_action",
        sa.Column("id", big_id(), primary_key=True, autoincrement=True),
        stamp("at"),
        sa.Column("actor", sa.String(100), nullable=False),
        sa.Column("action", name(32), nullable=False),
        sa.Column("task_id", big_id(), nullable=True),
        sa.Column("detail", sa.Text(), nullable=True),
    )
    op.create_index("ix_action_task", "task_action", ["task_id"])
    table(
        "task_installation",
        sa.Column("name", name(32), primary_key=True),
        sa.Column("value", sa.String(190), nullable=False),
    )


def downgrade() -> None:
    for title in (
        "task_installation task_action task_lease task_sample task_scheduler task_worker "
        "task_schedule task_occurrence task_run task_center"
    ).split():
        op.drop_table(title)
