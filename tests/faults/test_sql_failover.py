"""The primary changes while connections stay open: the old one is read only now, and the next try finds the new one."""

from __future__ import annotations

import pytest

from taskkit.center import TaskCenter
from taskkit.errors import DatabaseUnavailable
from tests.centers import new, sql
from tests.proxy import Proxy
from tests.servers import MariaDB, available

pytestmark = pytest.mark.faults


def test_a_primary_that_became_a_replica_is_left_for_the_new_one(mariadb: MariaDB) -> None:
    """As behind a name or an address that moves: connections to the old primary live on, and refuse writes."""
    with available(MariaDB) as old, available(MariaDB) as fresh:
        for server in (old, fresh):
            center = TaskCenter(server.url)
            center.upgrade_schema()
            center.close()
        with Proxy(old.url) as between:
            center = TaskCenter(between.url)
            center.intake.insert([new("before")])
            old.admin("SET GLOBAL read_only = 1")
            with pytest.raises(DatabaseUnavailable, match="read only: TASKKIT_DATABASE_URL must lead to"):
                center.intake.insert([new("refused")])
            between.server = ("127.0.0.1", fresh.port)
            center.intake.insert([new("after")])
            assert sql(center, "SELECT task_code FROM task_center") == [("after",)]
            center.close()


def test_every_table_has_a_primary_key_as_group_replication_wants_it(mariadb: MariaDB) -> None:
    from tests.databases import fresh_database

    with fresh_database(mariadb.url) as url:
        center = TaskCenter(url)
        center.upgrade_schema()
        keyed = "SELECT TABLE_NAME FROM information_schema.TABLE_CONSTRAINTS WHERE CONSTRAINT_TYPE = 'PRIMARY KEY'"
        rows = sql(
            center,
            "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() "
            f"AND TABLE_NAME NOT IN ({keyed} AND TABLE_SCHEMA = DATABASE())",
        )
        assert rows == []
        center.close()
