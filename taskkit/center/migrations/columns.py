"""The kinds of columns and tables that migrations are made of, in the words of each database."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql


def is_mysql() -> bool:
    return op.get_bind().dialect.name in {"mysql", "mariadb"}


def name(length: int) -> sa.types.TypeEngine[str]:
    """Text that is compared byte by byte: upper and lower case differ, and so do ``a`` and ``a `` with a space."""
    mariadb = is_mysql() and getattr(op.get_bind().dialect, "is_mariadb", False)
    collation = "utf8mb4_nopad_bin" if mariadb else "utf8mb4_0900_bin"
    exact = mysql.VARCHAR(length, charset="utf8mb4", collation=collation)
    return sa.String(length).with_variant(exact, "mysql", "mariadb")


def big_id() -> sa.types.TypeEngine[int]:
    unsigned = mysql.BIGINT(unsigned=True)
    return sa.BigInteger().with_variant(unsigned, "mysql", "mariadb").with_variant(sa.Integer(), "sqlite")


def tiny() -> sa.types.TypeEngine[int]:
    return sa.SmallInteger().with_variant(mysql.TINYINT(unsigned=True), "mysql", "mariadb")


def count() -> sa.types.TypeEngine[int]:
    return sa.Integer().with_variant(mysql.INTEGER(unsigned=True), "mysql", "mariadb")


def medium_text() -> sa.types.TypeEngine[str]:
    return sa.Text().with_variant(mysql.MEDIUMTEXT(), "mysql", "mariadb")


class InstantType(sa.types.UserDefinedType[str]):
    """An instant: TIMESTAMP(6) on MySQL and MariaDB, UTC text ``YYYY-MM-DD HH:MM:SS.ffffff`` on SQLite."""

    cache_ok = True

    def get_col_spec(self, **_: object) -> str:
        return "TIMESTAMP(6) NULL" if is_mysql() else "TEXT"


def instant(column: str) -> sa.Column[str]:
    return sa.Column(
        column, InstantType(), nullable=True, server_default=sa.text("NULL") if is_mysql() else None
    )


def stamp(column: str, *, on_update: bool = False) -> sa.Column[Any]:
    """An instant that is always there and that the database fills in."""
    if not is_mysql():
        now = "(strftime('%Y-%m-%d %H:%M:%f', 'now'))"
        return sa.Column(column, InstantType(), nullable=False, server_default=sa.text(now))
    now = "CURRENT_TIMESTAMP(6)" + (" ON UPDATE CURRENT_TIMESTAMP(6)" if on_update else "")
    kind = mysql.TIMESTAMP(fsp=6)
    return sa.Column(column, kind, nullable=False, server_default=sa.text(now))


def instant_checks(*columns: str) -> list[sa.CheckConstraint]:
    """SQLite takes any text for an instant, and MySQL in a loose mode the year 0: both are refused."""
    if is_mysql():
        return [sa.CheckConstraint(f"{c} > '1970-01-01 00:00:00'", name=f"ck_{c}_is_one") for c in columns]
    # '+0 days' makes strftime compute the date, so that the 30th of February does not come back as it is
    shape = (
        "{0} IS NULL OR strftime('%Y-%m-%d %H:%M:%S', substr({0}, 1, 19), '+0 days') IS substr({0}, 1, 19) AND "
        "(substr({0}, 20) = '' OR substr({0}, 20) GLOB '.[0-9]*' AND length({0}) <= 26 "
        "AND substr({0}, 21) NOT GLOB '*[^0-9]*')"
    )
    return [sa.CheckConstraint(shape.format(column), name=f"ck_{column}_shape") for column in columns]


def whole_checks(*columns: str) -> list[sa.CheckConstraint]:
    """SQLite stores text and fractions in an INTEGER column: refused there, as MySQL does by itself."""
    if is_mysql():
        return []
    return [sa.CheckConstraint(f"typeof({c}) = 'integer'", name=f"ck_{c}_whole") for c in columns]


def payload() -> sa.Column[str]:
    default = sa.text("('{}')") if is_mysql() else sa.text("'{}'")
    kind = sa.Text().with_variant(mysql.JSON(), "mysql", "mariadb")
    return sa.Column("payload", kind, nullable=False, server_default=default)


NEVER_AGAIN = {"task_center", "task_run", "task_action"}
"""Tables whose ids are not given twice, not even when the newest row was deleted: a message may still name it."""


def table(title: str, *parts: sa.schema.SchemaItem) -> None:
    op.create_table(
        title,
        *parts,
        mysql_engine="InnoDB",
        mysql_charset="utf8mb4",
        mariadb_engine="InnoDB",
        mariadb_charset="utf8mb4",
        sqlite_autoincrement=title in NEVER_AGAIN,
    )
