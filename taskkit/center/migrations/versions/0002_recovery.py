"""Recovery, locks and once: when a worker was declared dead, fenced locks, and what was done once and for all."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from taskkit.center.migrations.columns import instant, name, stamp, table

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Each step looks first: MySQL commits at every DDL statement, so an upgrade that was killed can go on."""
    present = sa.inspect(op.get_bind())
    if "lost_at" not in {column["name"] for column in present.get_columns("task_worker")}:
        op.add_column("task_worker", instant("lost_at"))
    if not present.has_table("task_lock"):
        table(
            "task_lock",
            sa.Column("name", name(190), primary_key=True),
            sa.Column("holder", name(120), nullable=False),
            sa.Column("fence", sa.BigInteger(), nullable=False, server_default=sa.text("0")),
            stamp("expires_at"),
        )
    if not present.has_table("task_once"):
        table(
            "task_once",
            sa.Column("name", name(190), primary_key=True),
            sa.Column("holder", name(120), nullable=True),
            stamp("done_at"),
        )
    if "ix_once_done" not in {index["name"] for index in sa.inspect(op.get_bind()).get_indexes("task_once")}:
        op.create_index("ix_once_done", "task_once", ["done_at"])


def downgrade() -> None:
    op.drop_table("task_once")
    op.drop_table("task_lock")
    op.drop_column("task_worker", "lost_at")
