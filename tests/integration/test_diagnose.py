"""LiveSource and from a bundle: the same diagnosis to the last digit, on each database; and the command line's."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa

from taskkit.analytics import RULES, Bundle, LiveSource, Window, diagnose
from taskkit.analytics.bundle import create
from taskkit.beats import WorkerBeat
from taskkit.center import TaskCenter
from taskkit.cli.diagnose import source_of
from taskkit.errors import InputError
from taskkit.notebook import open_case
from taskkit.settings import Settings
from taskkit.settings.schema import Worker
from taskkit.watchdog.place import CheckPlace
from tests.centers import new, sql
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


def test_command_line_notebook_and_watchdog_say_the_same_of_slow_heartbeats(center: TaskCenter) -> None:
    """A heartbeat of 30 s ago is fresh where workers beat every 20 s; who does not know that calls the worker dead."""
    lived_in(center)
    center.nodes.enter_worker(WorkerBeat("host:1:slow", "host", 1, "*", 1, 0, 0, 0, 0, None, 0, 0.0, [], []))
    ago = center.database.dialect.bind(center.now() - timedelta(seconds=30))
    sql(center, "UPDATE task_worker SET heartbeat_at = :at, last_progress_at = :at", at=ago)
    place: Any = SimpleNamespace(center=center, settings=Settings(worker=Worker(heartbeat_s=20.0)))
    asked = {"since": 3600.0, "until": None, "bundle": None}
    case = open_case(kit=place)
    told = {
        "command line": diagnose("zombies", source_of(place, asked)),
        "notebook": diagnose("zombies", case),
        "watchdog": CheckPlace(center, place.settings, case.now).diagnosis("zombies", 3600.0),
    }
    assert {who: found.verdict for who, found in told.items()} == dict.fromkeys(told, "healthy")
    assert told["notebook"] == told["watchdog"]


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
