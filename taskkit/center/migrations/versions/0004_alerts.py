"""Alerts: watchdogs, what is wrong and was, who promised not to tell, what goes to whom, and every call that was made."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

from taskkit.center.migrations.columns import big_id, count, instant, medium_text, name, stamp, table, tiny

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

TABLES = (
    "task_watchdog",
    "task_rule",
    "task_alert",
    "task_silence",
    "task_notice",
    "task_notice_alert",
    "task_delivery",
    "task_robot",
)


def upgrade() -> None:
    """Each step looks first: MySQL commits at every DDL statement, so an upgrade that was killed can go on."""
    present = sa.inspect(op.get_bind())
    for title, columns in tables().items():
        if not present.has_table(title):
            table(title, *columns)
    index("uq_alert_open", "task_alert", ["open_key"], unique=True)
    index("ix_alert_state", "task_alert", ["state", "resolved_at"])
    index("uq_notice_uuid", "task_notice", ["uuid"], unique=True)
    index("ix_notice_state", "task_notice", ["state", "due_at"])
    index("ix_notice_group", "task_notice", ["receiver", "group_key", "state"])
    index("uq_notice_alert", "task_notice_alert", ["notice_id", "alert_id"], unique=True)
    index("ix_notice_of_alert", "task_notice_alert", ["alert_id"])
    index("ix_delivery_robot", "task_delivery", ["robot", "at"])
    index("ix_delivery_notice", "task_delivery", ["notice_id"])


def tables() -> dict[str, list[Any]]:
    """Their columns, in the order in which they are made."""
    return {**of_watchdogs(), **of_alerts()}


def of_watchdogs() -> dict[str, list[Any]]:
    """Who looks, and how each rule fares."""
    zero = sa.text("0")
    return {
        "task_watchdog": [
            sa.Column("watchdog_id", name(120), primary_key=True),
            sa.Column("host", sa.String(100), nullable=False),
            sa.Column("pid", sa.Integer(), nullable=False),
            stamp("started_at"),
            stamp("heartbeat_at"),
            sa.Column("heartbeat_count", sa.BigInteger(), nullable=False, server_default=zero),
            sa.Column("rounds", sa.BigInteger(), nullable=False, server_default=zero),
            instant("last_round_at"),
            instant("stopped_at"),
        ],
        "task_rule": [
            sa.Column("rule", name(64), primary_key=True),
            sa.Column("state", name(16), nullable=False),
            stamp("since"),
            stamp("checked_at"),
            sa.Column("took_ms", sa.Float(), nullable=True),
            sa.Column("error", sa.Text(), nullable=True),
            sa.CheckConstraint("state IN ('ok', 'breach', 'no_data', 'failed')", name="ck_rule_state"),
        ],
    }


def of_alerts() -> dict[str, list[Any]]:
    """What is wrong, who was told, and how each robot stands."""
    return {
        "task_alert": alert_columns(),
        "task_silence": [
            sa.Column("id", big_id(), primary_key=True, autoincrement=True),
            sa.Column("rule", name(64), nullable=True),
            sa.Column("object", name(190), nullable=True),
            stamp("starts_at"),
            instant("ends_at"),
            sa.Column("author", sa.String(100), nullable=False),
            sa.Column("reason", sa.String(190), nullable=False),
            stamp("created_at"),
            sa.CheckConstraint("reason <> ''", name="ck_silence_reason"),
        ],
        "task_notice": notice_columns(),
        "task_notice_alert": [
            sa.Column("id", big_id(), primary_key=True, autoincrement=True),
            sa.Column("notice_id", big_id(), nullable=False),
            sa.Column("alert_id", big_id(), nullable=False),
            sa.Column("event", name(16), nullable=False),
        ],
        "task_delivery": [
            sa.Column("id", big_id(), primary_key=True, autoincrement=True),
            sa.Column("notice_id", big_id(), nullable=True),
            sa.Column("receiver", name(64), nullable=False),
            sa.Column("robot", name(32), nullable=False),
            stamp("at"),
            sa.Column("kind", name(16), nullable=False),
            sa.Column("verdict", name(16), nullable=True),
            sa.Column("code", sa.String(64), nullable=True),
            sa.Column("reply", sa.String(190), nullable=True),
            sa.Column("took_ms", sa.Float(), nullable=True),
        ],
        "task_robot": [
            sa.Column("robot", name(32), primary_key=True),
            instant("paused_until"),
            sa.Column("reason", sa.String(190), nullable=True),
            sa.Column("misconfigured", tiny(), nullable=False, server_default=sa.text("0")),
            sa.Column("month", name(7), nullable=True),
            sa.Column("month_calls", count(), nullable=False, server_default=sa.text("0")),
            stamp("updated_at", on_update=True),
        ],
    }


def alert_columns() -> list[Any]:
    """``open_key`` names rule and object while the alert is not over: one open alert of each."""
    return [
        sa.Column("id", big_id(), primary_key=True, autoincrement=True),
        sa.Column("rule", name(64), nullable=False),
        sa.Column("object", name(190), nullable=False, server_default=""),
        sa.Column("open_key", name(255), nullable=True),
        sa.Column("state", name(16), nullable=False),
        sa.Column("severity", name(16), nullable=False),
        sa.Column("cause", name(64), nullable=False, server_default=""),
        sa.Column("value", sa.Float(), nullable=True),
        sa.Column("unit", name(32), nullable=False, server_default=""),
        sa.Column("said", medium_text(), nullable=True),
        stamp("since"),
        stamp("breach_at"),
        instant("under_at"),
        instant("firing_at"),
        instant("told_at"),
        instant("resolved_at"),
        sa.Column("flaps", count(), nullable=False, server_default=sa.text("0")),
        sa.Column("inhibited_by", name(64), nullable=True),
        sa.Column("silence_id", big_id(), nullable=True),
        instant("acked_at"),
        sa.Column("acked_by", sa.String(100), nullable=True),
        stamp("updated_at", on_update=True),
        sa.CheckConstraint("state IN ('pending', 'firing', 'resolved')", name="ck_alert_state"),
        sa.CheckConstraint("severity IN ('note', 'warning', 'critical')", name="ck_alert_severity"),
    ]


def notice_columns() -> list[Any]:
    """The outbox: written with the alert's step in one transaction, before any call."""
    return [
        sa.Column("id", big_id(), primary_key=True, autoincrement=True),
        sa.Column("uuid", name(36), nullable=False),
        sa.Column("receiver", name(64), nullable=False),
        sa.Column("group_key", name(190), nullable=False, server_default=""),
        sa.Column("severity", name(16), nullable=False),
        sa.Column("state", name(16), nullable=False),
        sa.Column("body", medium_text(), nullable=False),
        stamp("created_at"),
        stamp("due_at"),
        sa.Column("attempts", count(), nullable=False, server_default=sa.text("0")),
        sa.Column("claimed_by", name(120), nullable=True),
        instant("claimed_at"),
        instant("sent_at"),
        sa.Column("code", sa.String(64), nullable=True),
        sa.Column("reply", sa.String(190), nullable=True),
        sa.Column("merged_into", big_id(), nullable=True),
        sa.CheckConstraint(
            "state IN ('waiting', 'sending', 'sent', 'merged', 'dropped', 'refused')", name="ck_notice_state"
        ),
    ]


def index(title: str, of: str, columns: list[str], *, unique: bool = False) -> None:
    if title not in {found["name"] for found in sa.inspect(op.get_bind()).get_indexes(of)}:
        op.create_index(title, of, columns, unique=unique)


def downgrade() -> None:
    """Back to 0003."""
    for title in reversed(TABLES):
        op.drop_table(title)
