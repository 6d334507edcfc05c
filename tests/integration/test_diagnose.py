"""LiveSource and from a bundle: the same diagnosis to the last digit, on each database; and the command line's."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from taskkit.analytics import RULES, Bundle, LiveSource, Window, diagnose
from taskkit.analytics.bundle import create
from taskkit.center import TaskCenter
from taskkit.errors import InputError
from tests.centers import new
from tests.integration.test_frames import lived_in
from tests.waiting import wait_until

pytest_plugins = ["tests.center_fixtures"]


@pytest.mark.parametrize("rows", [False, True])
def test_a_bundle_gives_the_same_diagnoses(center: TaskCenter, tmp_path: Path, rows: bool) -> None:
    if rows:
        lived_in(center)
    now = center.now()
    source = LiveSource(
        center, Window(now - timedelta(hours=1), now + timedelta(seconds=1), "Asia/Shanghai"), now=now
    )
    opened = Bundle(create(source, tmp_path / "one.zip"))
    for rule in RULES:
        one = diagnose(rule, source)
        assert one == diagnose(rule, opened)
        assert one.text("zh") == diagnose(rule, opened).text("zh")
        assert one.healthy or rows


def test_a_naive_instant_is_refused_by_name(center: TaskCenter) -> None:
    now = center.now()
    with pytest.raises(InputError, match=r"since: .* has no time zone"):
        Window(now.replace(tzinfo=None), now)


def test_a_file_that_is_no_bundle_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.zip").write_text("no")
    with pytest.raises(InputError, match="is no bundle"):
        Bundle(tmp_path / "x.zip")


def test_the_transaction_that_holds_a_row_lock_is_seen(mariadb_center: TaskCenter) -> None:
    (task_id,) = mariadb_center.intake.insert([new()])
    engine = mariadb_center.database.engine
    change = sa.text("UPDATE task_center SET priority = 1 WHERE id = :id")
    with engine.connect() as holder, holder.begin(), ThreadPoolExecutor(1) as pool:
        holder.execute(change, {"id": task_id})
        thread = holder.execute(sa.text("SELECT CONNECTION_ID()")).scalar_one()

        def wait_for_it() -> None:
            with engine.connect() as waiter, waiter.begin():
                waiter.execute(change, {"id": task_id})

        waiting = pool.submit(wait_for_it)
        wait_until(lambda: thread in set(LiveSource(mariadb_center).frame("lock_waits")["holding_thread"]))
        assert thread in set(LiveSource(mariadb_center).frame("transactions")["thread"])
        holder.rollback()
        waiting.result(20)
