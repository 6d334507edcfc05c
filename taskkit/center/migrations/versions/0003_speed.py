"""Speed, limits and shards: room in a row for what its updates add to it; how many may run at once, and how many start;
how queues are split; between which numbers a worker's children are."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from taskkit.center.migrations.columns import (
    big_id,
    count,
    instant,
    is_mysql,
    name,
    stamp,
    table,
    tiny,
)

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

SPARE = "." * 80
"""What dispatch, claim and end add to a row together; they take it away again in three steps."""


def upgrade() -> None:
    """Each step looks first: MySQL commits at every DDL statement, so an upgrade that was killed can go on."""
    present = {column["name"] for column in sa.inspect(op.get_bind()).get_columns("task_center")}
    if "spare" not in present:
        default = SPARE if is_mysql() else None
        op.add_column("task_center", sa.Column("spare", name(96), nullable=True, server_default=default))
    if "granted_at" not in present:
        op.add_column("task_center", instant("granted_at"))
    workers = {column["name"] for column in sa.inspect(op.get_bind()).get_columns("task_worker")}
    for title in ("min_processes", "max_processes"):
        if title not in workers:
            op.add_column("task_worker", sa.Column(title, count(), nullable=True))
    create_limits()
    create_queues()


def create_queues() -> None:
    """The queues that are split into shards."""
    if not sa.inspect(op.get_bind()).has_table("task_queue"):
        table(
            "task_queue",
            sa.Column("queue", name(64), primary_key=True),
            sa.Column("shards", count(), nullable=False),
            sa.Column("lists", count(), nullable=False),
            stamp("created_at"),
            stamp("updated_at", on_update=True),
            sa.CheckConstraint("shards BETWEEN 1 AND lists AND lists <= 64", name="ck_queue_shards"),
        )


def create_limits() -> None:
    """What is set, the lines in which tasks wait, and their places there; tasks without limits are in none of them."""
    present = sa.inspect(op.get_bind())
    if not present.has_table("task_limit"):
        table(
            "task_limit",
            sa.Column("scope", name(8), primary_key=True),
            sa.Column("name", name(190), primary_key=True),
            sa.Column("concurrency", count(), nullable=True),
            sa.Column("rate", count(), nullable=True),
            sa.Column("period_s", count(), nullable=False, server_default=sa.text("1")),
            stamp("created_at"),
            stamp("updated_at", on_update=True),
            sa.CheckConstraint("scope IN ('key', 'queue')", name="ck_limit_scope"),
            sa.CheckConstraint("concurrency >= 1 AND rate >= 1 AND period_s >= 1", name="ck_limit_numbers"),
        )
    if not present.has_table("task_limit_line"):
        table(
            "task_limit_line",
            sa.Column("scope", name(8), primary_key=True),
            sa.Column("name", name(190), primary_key=True),
            instant("look_at"),
            sa.Column("starts", sa.Text(), nullable=True),
            stamp("updated_at", on_update=True),
        )
    if not present.has_table("task_limit_place"):
        table(
            "task_limit_place",
            sa.Column("task_id", big_id(), primary_key=True, autoincrement=False),
            sa.Column("queue", name(64), nullable=False),
            sa.Column("limit_key", name(190), nullable=True),
            sa.Column("state", tiny(), nullable=False),
            sa.Column("priority", tiny(), nullable=False),
            instant("due_at"),
            sa.Column("attempt", count(), nullable=True),
            sa.CheckConstraint("state BETWEEN 0 AND 3", name="ck_place_state"),
        )
    index("ix_line_look", "task_limit_line", ["look_at"])
    index("ix_place_key", "task_limit_place", ["limit_key", "state", "priority", "due_at"])
    index("ix_place_queue", "task_limit_place", ["queue", "state", "priority", "due_at"])
    index("ix_place_state", "task_limit_place", ["state"])


def index(title: str, of: str, columns: list[str]) -> None:
    if title not in {found["name"] for found in sa.inspect(op.get_bind()).get_indexes(of)}:
        op.create_index(title, of, columns)


def downgrade() -> None:
    """Back to 0002."""
    for title in ("task_queue", "task_limit_place", "task_limit_line", "task_limit"):
        op.drop_table(title)
    for title in ("max_processes", "min_processes"):
        op.drop_column("task_worker", title)
    op.drop_column("task_center", "granted_at")
    op.drop_column("task_center", "spare")
